"""The OpenSearch sink: its settings, and the writer of documents."""

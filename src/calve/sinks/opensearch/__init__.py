"""The OpenSearch sink: its settings, and what writes documents."""

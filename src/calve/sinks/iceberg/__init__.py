"""The Iceberg sink: its settings and its tables."""

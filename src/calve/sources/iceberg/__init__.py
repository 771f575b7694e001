"""The iceberg source: the rows of tables, and then their changes, written down for the tasks."""

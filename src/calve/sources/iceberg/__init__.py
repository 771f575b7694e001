"""The iceberg source: first the rows of tables, then their changes, spooled for the tasks."""

"""The row changes of Iceberg snapshots: which snapshots, which files, which rows, and their format."""

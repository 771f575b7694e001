"""The row changes of Iceberg snapshots: which snapshots, which files, which rows, and how they are written down."""

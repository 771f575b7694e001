"""When is a position free? When every table of its batch is committed and its rejects are published."""

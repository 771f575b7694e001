"""The `postgres` source: the rows of tables, then every change of them."""

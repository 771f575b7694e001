"""The `mysql` source: the rows of tables of MySQL or MariaDB, then every change of them."""

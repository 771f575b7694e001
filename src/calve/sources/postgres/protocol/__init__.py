"""The protocol of PostgreSQL, and the messages of `pgoutput`."""

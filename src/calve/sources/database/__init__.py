"""What sources of databases share: load in chunks, then changes from a durable log."""

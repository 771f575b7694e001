"""Rows as the server sends them and as the log has them, decoded into columns."""

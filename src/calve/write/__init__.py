"""Writes data files on executors, and describes them."""

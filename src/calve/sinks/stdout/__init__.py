"""Prints events on the standard output of `calve run`."""

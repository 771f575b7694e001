"""Converts the events of a batch to records with keys, headers and operations, for sinks that send them in order."""

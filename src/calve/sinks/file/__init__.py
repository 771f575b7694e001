"""Writes events to files of lines, one for each batch, with a manifest."""

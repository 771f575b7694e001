"""Reduces the changes of one batch to their net effect per key, before anything is written."""

"""The kafka source: ranges of offsets, read in the tasks."""

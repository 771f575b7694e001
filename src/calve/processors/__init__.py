"""Processors: they change events between the source and the sinks, as in Data Prepper."""

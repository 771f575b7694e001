"""When the source may release a position, and how far tables are complete in event time."""

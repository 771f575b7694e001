"""When a position is free, and how far tables are complete in event time."""

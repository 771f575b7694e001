"""The http source: requests to a log on disk, and the log to batches."""

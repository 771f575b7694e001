"""One status model, and its readers: log, progress, metrics, status files."""

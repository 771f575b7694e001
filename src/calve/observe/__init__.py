"""One status model, and everybody who looks at it: log, progress, metrics, status files."""

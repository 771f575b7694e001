"""Posts events to an HTTP server, in order."""

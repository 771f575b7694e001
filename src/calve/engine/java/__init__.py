"""Java as Python calls it: its classes, and its exceptions as Calve's errors."""

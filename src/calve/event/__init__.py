"""A batch of events: its columns, its valid rows, its rejects."""

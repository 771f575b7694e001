"""A batch of events: its columns, its sound rows, its rejects."""

"""Dead letters: settings, entries, writing, publishing, reading and replay."""

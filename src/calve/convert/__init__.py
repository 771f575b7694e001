"""Converts events to typed rows: the compiled core, and the exact converter, which alone explains rejects."""

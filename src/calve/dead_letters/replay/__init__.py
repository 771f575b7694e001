"""Replays dead letters, each once."""

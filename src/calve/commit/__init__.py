"""Commits that happen exactly once."""

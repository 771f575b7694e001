"""Progress that survives a crash, and commits that happen exactly once."""

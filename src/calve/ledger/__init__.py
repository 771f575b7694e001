"""The only memory of a pipeline's progress: what was begun, staged and committed."""

"""What travels from tasks to commits: receipts, staged batches, and the names of their tables."""

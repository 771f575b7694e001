"""Data files, and the receipts that executors return for them."""

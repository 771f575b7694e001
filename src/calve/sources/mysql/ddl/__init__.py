"""What statements in the log do to tables."""

"""The durable log of sources that take events before a pipeline writes them."""

"""Events into typed rows: an Iceberg schema compiled to a SELECT, inference, evolution."""

"""Benchmarks: `make bench-NAME` runs bench/NAME.py."""

"""Calve moves streams of events into Apache Iceberg tables, exactly once."""

__version__ = "0.1.0"
__all__ = ["__version__"]

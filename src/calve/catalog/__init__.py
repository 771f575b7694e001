"""Iceberg catalogs: load, create and evolve tables, and explain failures."""

"""Iceberg catalogs: load, create and evolve tables, and say why that fails."""

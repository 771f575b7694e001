"""The tables of a server: their columns, types and keys."""

"""The tables of a database: their columns, types, identities and publications."""

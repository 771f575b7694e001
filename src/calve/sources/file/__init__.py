"""Files, local or in an object store, each read once."""

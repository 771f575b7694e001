"""The compiled core: where its library is, and the functions that it has (`core/`)."""

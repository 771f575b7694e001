"""Avro: schemas, plans of how to read their values, and two decoders: the compiled core and the reference in Python."""

from calve.serde.avro.format import FORMAT

__all__ = ["FORMAT"]

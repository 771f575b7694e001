"""Protobuf: from the text of a `.proto` file to columns of messages (decision 31)."""

from calve.serde.protobuf.format import FORMAT

__all__ = ["FORMAT"]

"""Reads JSON as structs, from any thread.

msgspec 0.22 prepares a struct or dataclass when its first value is read, and lets other threads use what is half
prepared: the process then ends with a segmentation fault. Here one thread at a time prepares; `tests/house` checks that
nothing else in Calve reads structs.
"""

from __future__ import annotations

import threading
from typing import Any, TypeVar

import msgspec

__all__ = ["convert", "decode", "decoder"]

T = TypeVar("T")

_LOCK = threading.Lock()
_DECODERS: dict[Any, msgspec.json.Decoder[Any]] = {}


def decoder(kind: type[T]) -> msgspec.json.Decoder[T]:
    """Return the decoder of a type, e.g. `LedgerHead`, `list[Table]`, `Receipt | Failure`; any thread may use it."""
    known_decoder = _DECODERS.get(kind)
    if known_decoder is None:
        with _LOCK:
            known_decoder = _DECODERS[kind] = msgspec.json.Decoder(kind)
    return known_decoder


def decode(text: bytes | str, kind: type[T]) -> T:
    """Read JSON as a value of a type.

    Raises:
        msgspec.DecodeError: It is not JSON, or not of the type; a ValueError.
    """
    value: T = decoder(kind).decode(text)
    return value


def convert(value: Any, kind: type[T]) -> T:
    """Make a value of a type from dicts, lists, strings and numbers.

    Raises:
        msgspec.ValidationError: It is not of the type; a ValueError.
    """
    decoder(kind)
    converted: T = msgspec.convert(value, kind)
    return converted

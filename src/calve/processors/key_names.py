"""Changes the names of keys: their case, and characters that Data Prepper does not allow in them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

import msgspec

from calve.processors.fields import Event, opened
from calve.processors.step import ProcessorError

__all__ = ["KEY_TRANSFORMS", "normalized_key", "replace_keys"]

_INVALID = re.compile(r"[^A-Za-z0-9._~@/\[\]()-]")
KEY_TRANSFORMS: Mapping[str, Callable[[str], str]] = {
    "none": str,
    "lowercase": str.lower,
    "uppercase": str.upper,
    "capitalize": lambda text: text[:1].upper() + text[1:],
}
"""The values of `transform_key`."""


def normalized_key(name: str) -> str:
    """Return a key with `_` for each character that Data Prepper does not allow."""
    return _INVALID.sub("_", name)


def replace_keys(change: Callable[[str], str], event: Event) -> bool:
    """Change the keys of an event and of the objects inside of its objects, not of those in lists.

    Raises:
        ProcessorError: Two keys would become the same, so that a value would be lost.
    """
    entries: Event = {}
    for name, value in event.items():
        key = change(name)
        if key in entries:
            raise ProcessorError("two keys would become the same", key)
        if type(value) is dict or (type(value) is msgspec.Raw and bytes(value).startswith(b"{")):
            value = opened(value)
            replace_keys(change, value)
        entries[key] = value
    event.clear()
    event.update(entries)
    return True

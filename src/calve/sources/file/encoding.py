"""Converts text in any encoding to UTF-8. A byte without a character is marked: it becomes a private character."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable, Iterator

__all__ = ["MARKED", "has_marks", "is_utf8", "marked", "marked_byte", "to_utf8", "unmarked"]

_PRIVATE = 0x10FE00
MARKED = f"[{chr(_PRIVATE)}-{chr(_PRIVATE + 0xFF)}]"
"""A regular expression that finds marked bytes."""
_PARTS = re.compile(f"({MARKED}+)")
_HANDLER = "calve.mark"


def _mark(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeDecodeError):
        raise error
    return "".join(chr(_PRIVATE + byte) for byte in error.object[error.start : error.end]), error.end


codecs.register_error(_HANDLER, _mark)


def is_utf8(encoding: str) -> bool:
    """Return whether a text in this encoding is UTF-8 already."""
    return codecs.lookup(encoding).name in ("utf-8", "utf-8-sig")


def to_utf8(blocks: Iterable[bytes], encoding: str) -> Iterator[bytes]:
    """Yield a text in blocks as UTF-8, none of them empty."""
    decoder = codecs.getincrementaldecoder(encoding)(_HANDLER)
    for block in blocks:
        if text := decoder.decode(block):
            yield text.encode("utf-8", "surrogatepass")
    if text := decoder.decode(b"", True):
        yield text.encode("utf-8", "surrogatepass")


def marked(text: bytes) -> bytes:
    """Return a text with each byte that is not UTF-8 marked."""
    return text.decode("utf-8", _HANDLER).encode()


def marked_byte(mark: str) -> int:
    """Return the byte for which a character of `MARKED` stands."""
    return ord(mark) - _PRIVATE


def has_marks(text: str) -> bool:
    """Return whether a text has marked bytes."""
    return _PARTS.search(text) is not None


def unmarked(text: str) -> bytes:
    """Return a text as UTF-8, with its marked bytes unchanged."""
    parts = enumerate(_PARTS.split(text))  # every second part is marked
    return b"".join(bytes(ord(mark) - _PRIVATE for mark in part) if at % 2 else part.encode() for at, part in parts)

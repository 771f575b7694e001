"""Splits Java's date patterns, such as `dd/MMM/yyyy:HH:mm:ss Z`, for all that read or write times by them."""

from __future__ import annotations

import re
from typing import NamedTuple

__all__ = ["PatternError", "PatternPart", "pattern_parts"]

_PART = re.compile(r"'((?:[^']|'')*)'|([A-Za-z])\2*|[^A-Za-z'{}#]")


class PatternError(ValueError):
    """A pattern has a part that is not allowed; the message is that part."""


class PatternPart(NamedTuple):
    """A part of a pattern.

    Attributes:
        text: The letters, the literal text without its quotes, or the bracket of an optional section.
        is_letters: Whether it stands for a part of a time.
        is_bracket: Whether it is an unquoted `[` or `]`.
    """

    text: str
    is_letters: bool = False
    is_bracket: bool = False


def pattern_parts(pattern: str) -> list[PatternPart]:
    """Return the parts of a pattern.

    Raises:
        PatternError: A quote is not closed, or a reserved character is not quoted.
    """
    parts, at = [], 0
    while at < len(pattern):
        token = _PART.match(pattern, at)
        if token is None:
            raise PatternError(pattern[at])
        if token[1] is not None:
            parts.append(PatternPart(token[1].replace("''", "'") or "'"))
        else:
            parts.append(PatternPart(token[0], bool(token[2]), token[0] in "[]"))
        at = token.end()
    return parts

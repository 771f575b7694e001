"""Finds characters that control a terminal or the order of a text instead of being shown."""

from __future__ import annotations

import unicodedata

__all__ = ["has_control"]

_CONTROLS = frozenset({"Cc", "Cf", "Zl", "Zp"})
_NEEDED = "\t\n\r\u200c\u200d"
"""Headings of spreadsheets have the first three; without the joiners some words of Persian and of India's languages
cannot be written."""


def has_control(name: str) -> bool:
    """Return whether a name has control characters (C0, C1) or format characters (U+202E); white space is none."""
    return not name.isprintable() and any(
        unicodedata.category(char) in _CONTROLS and char not in _NEEDED for char in name
    )

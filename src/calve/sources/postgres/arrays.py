"""Reads the text that PostgreSQL writes for an array."""

from __future__ import annotations

import re

__all__ = ["NotFlatError", "elements"]

_ELEMENT = re.compile(r'"((?:[^"\\]|\\.)*)"|([^,{}"]+)', re.DOTALL)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)


class NotFlatError(ValueError):
    """An array of arrays, or one whose first element does not have the number 1: it is no list."""


def elements(text: str) -> list[str | None]:
    """Return the elements of an array as texts.

    Raises:
        NotFlatError: It is no list.
    """
    if not (text.startswith("{") and text.endswith("}")):
        raise NotFlatError(text[:20])
    found: list[str | None] = []
    at, end = 1, len(text) - 1
    while at < end:
        match = _ELEMENT.match(text, at, end)
        if match is None:
            raise NotFlatError(text[:20])
        quoted, plain = match.groups()
        if quoted is not None:
            found.append(_ESCAPED.sub(r"\1", quoted) if "\\" in quoted else quoted)
        else:
            found.append(None if plain.upper() == "NULL" else plain)
        at = match.end() + 1  # the comma
    return found

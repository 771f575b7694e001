"""Checks table names."""

from __future__ import annotations

import re

from calve.event.control_characters import has_control

__all__ = ["fault"]

_BAD = re.compile(r"[\t\n\r/\\`\"]")
_LONGEST = 255


def fault(name: str) -> str | None:
    """Return what is wrong with a table name, or None if it is valid.

    A name is a namespace of one or more levels and the table's own name, joined by dots. Slashes and control characters
    are refused because catalogs build paths from names, and terminals show them.
    """
    if not name.strip():
        return "the table name is empty"
    levels = name.split(".")
    if len(levels) < 2:
        return f"the table name {name[:100]!r} has no namespace: write namespace.table"
    if any(not level.strip() or level != level.strip() for level in levels):
        return f"the table name {name[:100]!r} has an empty part, or spaces around a part"
    if _BAD.search(name) or has_control(name):
        return f"the table name {name[:100]!r} has a character that is not allowed"
    if len(name.encode()) > _LONGEST:
        return f"the table name {name[:100]!r}… is longer than {_LONGEST} bytes"
    return None

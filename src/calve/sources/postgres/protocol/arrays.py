"""Reads the text that PostgreSQL writes for an array."""

from __future__ import annotations

import re
from typing import Any

__all__ = ["NotFlatError", "elements", "nested"]

_ELEMENT = re.compile(r'"((?:[^"\\]|\\.)*)"|([^,{}"]+)', re.DOTALL)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)


class NotFlatError(ValueError):
    """An array of another depth, or one whose first element does not have the number 1: it is no such list."""


def elements(text: str) -> list[str | None]:
    """Return the elements of an array as texts.

    Raises:
        NotFlatError: It is no list.
    """
    if not (text.startswith("{") and text.endswith("}")):
        raise NotFlatError(text[:20])
    texts: list[str | None] = []
    at, end = 1, len(text) - 1
    while at < end:
        match = _ELEMENT.match(text, at, end)
        if match is None:
            raise NotFlatError(text[:20])
        texts.append(_value(match))
        at = match.end() + 1  # the comma
    return texts


def nested(text: str, depth: int) -> list[Any]:
    """Return the elements of an array of arrays as lists of lists of texts; an empty array has no lists.

    Raises:
        NotFlatError: It has another depth.
    """
    if text == "{}":
        return []
    root: list[Any] = []
    stack, at = [root], 0
    while at < len(text):
        match = _ELEMENT.match(text, at)
        if match is not None and len(stack) == depth + 1:
            stack[-1].append(_value(match))
            at = match.end()
            continue
        if text[at] == "{" and len(stack) <= depth:
            stack[-1].append([])
            stack.append(stack[-1][-1])
        elif text[at] == "}" and len(stack) > 1:
            stack.pop()
        elif text[at] != ",":
            raise NotFlatError(text[:20])
        at += 1
    if len(stack) > 1 or len(root) != 1:
        raise NotFlatError(text[:20])
    return list(root[0])


def _value(match: re.Match[str]) -> str | None:
    quoted, plain = match.groups()
    if quoted is not None:
        return _ESCAPED.sub(r"\1", quoted) if "\\" in quoted else quoted
    return None if plain.upper() == "NULL" else plain

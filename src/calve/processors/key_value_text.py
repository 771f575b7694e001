"""How `key_value` takes a text apart beyond plain delimiters: characters as delimiters, groups, brackets in brackets.

The rules are those of Data Prepper's processor of the same name.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from typing import Any

__all__ = ["UnclosedGroupError", "any_of", "fields_with_groups", "nested"]

_ENDS = {'"': '"', "'": "'", "(": ")", "[": "]", "<": ">", "{": "}", "http://": " ", "https://": " "}
_BRACKETS = {"[": "]", "(": ")", "<": ">"}
_CHARACTER = re.compile(r"\\?.", re.DOTALL)


class UnclosedGroupError(ValueError):
    """A group has no end, and groups must have one."""


def any_of(characters: str) -> str:
    r"""Return a regular expression for any of some characters; one after a backslash is an expression, as `\t`.

    A character that is there several times matches so many in a row, too: `==` means `=` or `==`.
    """
    counts = Counter(part if len(part) == 2 else re.escape(part) for part in _CHARACTER.findall(characters))
    return "|".join(part if count == 1 else f"{part}{{1,{count}}}" for part, count in counts.items())


def fields_with_groups(
    text: str, is_between: Callable[[str], bool], has_key: Callable[[str], bool], literal: str | None, is_strict: bool
) -> list[str]:
    """Split a text into fields, without looking into the groups of their values.

    Args:
        text: The text.
        is_between: Whether a character separates fields.
        has_key: Whether the beginning of a field has the delimiter behind its key.
        literal: The character that begins a group everywhere, not only in values.
        is_strict: Whether each group must have an end; else it goes to the end of the text.

    Raises:
        UnclosedGroupError: A group has no end.
    """
    fields, start, at = [], 0, 0
    while at < len(text):
        if _is_escaped_quote(text, at):
            at += 1
            continue
        opening = next((mark for mark in _ENDS if text.startswith(mark, at)), "")
        is_group = bool(opening) and (opening == literal or has_key(text[start : at + 1]))
        if is_group:
            at = _group_end(text, at + 1, _ENDS[opening], is_strict)
        if is_between(text[at]):
            at += is_group
            fields.append(text[start:at].strip())
            start = at + 1
        at += 1
    return [*fields, text[start:].strip()]


def nested(text: str, is_between: Callable[[str], bool], is_behind_key: Callable[[str], bool]) -> dict[str, Any]:
    """Return the pairs of a text; the value of a key may be pairs in brackets. A field without a value has None."""
    pairs: dict[str, Any] = {}
    for field in _outside_brackets(text, is_between, most=len(text)):
        key, *values = _outside_brackets(field, is_behind_key, most=1)
        if not values:
            if key.strip():
                pairs[key.strip()] = None
            continue
        value = values[0].lstrip()
        if value and value[-1] == _BRACKETS.get(value[0]):
            pairs[key.rstrip()] = nested(value[1:-1].lstrip(), is_between, is_behind_key)
        else:
            pairs[key.rstrip()] = value
    return pairs


def _outside_brackets(text: str, is_between: Callable[[str], bool], most: int) -> list[str]:
    """Split a text at some characters outside of brackets, at most so many times."""
    parts, start, open_brackets = list[str](), 0, list[str]()
    for at, character in enumerate(text):
        if character in _BRACKETS:
            open_brackets.append(character)
        elif open_brackets and character == _BRACKETS[open_brackets[-1]]:
            open_brackets.pop()
        elif not open_brackets and len(parts) < most and is_between(character):
            parts.append(text[start:at])
            start = at + 1
    return [*parts, text[start:]]


def _is_escaped_quote(text: str, at: int) -> bool:
    return at > 0 and text[at] in "\"'" and text[at - 1] == "\\"


def _group_end(text: str, at: int, closing: str, is_strict: bool) -> int:
    """Return the position of the end of a group, or the last one of the text."""
    for position in range(at, len(text)):
        if text[position] == closing and not _is_escaped_quote(text, position):
            return position
    if is_strict and closing != " ":
        raise UnclosedGroupError(f"a group has no end: {closing} is missing")
    return len(text) - 1

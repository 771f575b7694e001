"""How `key_value` takes a text apart beyond plain delimiters: characters as delimiters, groups, brackets in brackets.

The rules are those of Data Prepper's processor of the same name.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

__all__ = ["UnclosedGroupError", "any_of", "fields_with_groups", "nested"]

_ENDS = {'"': '"', "'": "'", "(": ")", "[": "]", "<": ">", "{": "}", "http://": " ", "https://": " "}
_BRACKETS = {"[": "]", "(": ")", "<": ">"}
_DEEPEST = 100
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
    text: str, is_between: Callable[[str], bool], key_ends: Sequence[int], literal: str | None, is_strict: bool
) -> list[str]:
    """Split a text into fields, without looking into the groups of their values.

    Args:
        text: The text.
        is_between: Whether a character separates fields.
        key_ends: The positions behind each delimiter that may end a key, ascending.
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
        is_in_value = bisect_right(key_ends, at) > bisect_right(key_ends, start)
        is_group = bool(opening) and (opening == literal or is_in_value)
        if is_group:
            at = _group_end(text, at + 1, _ENDS[opening], is_strict)
        if is_between(text[at]):
            at += is_group
            fields.append(text[start:at].strip())
            start = at + 1
        at += 1
    return [*fields, text[start:].strip()]


def nested(
    text: str, is_between: Callable[[str], bool], is_behind_key: Callable[[str], bool], depth: int = 0
) -> list[tuple[str, Any]]:
    """Return the pairs of a text, in order; the value of a key may be pairs in brackets, then it is an object.

    A field without a value has None; brackets that are nested too deeply stay text.
    """
    pairs: list[tuple[str, Any]] = []
    for field in _outside_brackets(text, is_between, most=len(text)):
        key, *values = _outside_brackets(field, is_behind_key, most=1)
        if not values:
            if key.strip():
                pairs.append((key.strip(), None))
            continue
        value = values[0].lstrip()
        if value and value[-1] == _BRACKETS.get(value[0]) and depth < _DEEPEST:
            pairs.append((key.rstrip(), _object(nested(value[1:-1].lstrip(), is_between, is_behind_key, depth + 1))))
        else:
            pairs.append((key.rstrip(), value))
    return pairs


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return pairs as an object; a key that is repeated has the list of its values."""
    values_by_key: dict[str, list[Any]] = {}
    for key, value in pairs:
        values_by_key.setdefault(key, []).append(value)
    return {key: values if len(values) > 1 else values[0] for key, values in values_by_key.items()}


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

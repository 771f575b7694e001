"""Cuts JSON text into values without decoding them, block by block: a file of any size streams.

The text is scanned for brackets, commas and quotes with whole-array operations.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any, NamedTuple

import msgspec
import numpy as np

from calve.sources.file.lines import BLANK

__all__ = ["Cut", "ValueSplitter"]

_QUOTE, _SLASH, _OPEN, _CLOSE, _COMMA = 1, 2, 3, 4, 5
_KINDS = np.zeros(256, np.uint8)
for _kind, _characters in ((_QUOTE, b'"'), (_SLASH, b"\\"), (_OPEN, b"{["), (_CLOSE, b"}]"), (_COMMA, b",")):
    _KINDS[list(_characters)] = _kind

_NAME = re.compile(rb'("(?:[^"\\]|\\.)*")\s*:\s*', re.DOTALL)
"""The name of a field, before its value."""
_entries = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
Marks = tuple["np.ndarray[Any, Any]", "np.ndarray[Any, Any]", "np.ndarray[Any, Any]"]


class Cut(NamedTuple):
    """What was cut off a text.

    Attributes:
        values: The values that are events, without surrounding spaces.
        rejects: Texts that are none, each with the reason, as a sentence.
    """

    values: list[bytes]
    rejects: list[tuple[bytes, str]]


class ValueSplitter:
    """Cuts values off a text: the elements of its arrays, and what else stands at its top.

    With a key only the elements of the arrays under this key of the objects at the top; a key that an object repeats
    counts each time, so no array is lost. The elements get other fields of their object, which must stand before the
    array: a file of any size streams.

    Args:
        key_name: The key.
        include_keys: The names of these fields.

    Attributes:
        rest: The text that waits for more.
        count: How many values there were.
        objects: How many arrays and objects at the top have ended.
    """

    def __init__(self, key_name: str | None = None, include_keys: Collection[str] = ()) -> None:
        self.rest, self.count, self.objects = b"", 0, 0
        self._key_name, self._include_keys = key_name, include_keys
        self._fields: dict[str, msgspec.Raw] = {}  # what elements get of the object at the top that has begun
        self._level = 1 if key_name is None else 2  # the depth inside an array of events
        self._depth = 0  # the depth at the beginning of the rest
        self._top = b""  # the first bracket of the value at the top that has begun
        self._in_array = self._has_array = False
        self._begin = self._cursor = 0  # where this value begins, and what follows the last separator

    def split(self, block: bytes) -> Cut:
        """Cut off what is complete."""
        text, cut = self.rest + block, Cut([], [])
        self._cursor = self._begin = 0
        for at, kind, depth in self._marks(text):
            if kind == _OPEN:
                self._open(text, at, depth, cut)
            elif kind == _COMMA:
                self._comma(text, at, depth, cut)
            else:
                self._close(text, at, depth, cut)
        self._keep(text)
        self.count += len(cut.values)
        return cut

    def close(self) -> tuple[Cut, str]:
        """End the text; its rest stays in `rest`.

        Returns:
            What the rest has at the top that is in no brackets, and why the text ends early, as the rest of a sentence
            about the file; empty: it is whole.
        """
        cut = Cut([], [])
        if self._in_array:
            return cut, f"ends in the middle of its array, after element {self.count} (cut off?)"
        if self._depth:
            return cut, f"ends in the middle of an object, after element {self.count} (cut off?)"
        if self.rest.startswith((b"{", b"[")):
            return cut, f"ends in the middle of a value, after value {self.count} (cut off?)"
        self._add_other(self.rest, cut)
        self.count += len(cut.values)
        return cut, ""

    def _open(self, text: bytes, at: int, depth: int, cut: Cut) -> None:
        bracket = text[at : at + 1]
        if depth == 1:
            self._add_other(text[self._cursor : at], cut)
            self._top, self._begin, self._cursor, self._fields = bracket, at, at + 1, {}
            self._has_array = self._in_array = self._key_name is None and bracket == b"["
        elif self._top == b"{" and bracket == b"[" and self._is_key(text[self._cursor : at]):
            self._has_array = self._in_array = True
            self._cursor = at + 1

    def _comma(self, text: bytes, at: int, depth: int, cut: Cut) -> None:
        if self._in_array and depth == self._level:
            cut.values.append(self._with_fields(text[self._cursor : at].strip(BLANK)))
            self._cursor = at + 1
        elif not self._in_array and depth == 1:
            self._include(text, at, cut)
            self._cursor = at + 1

    def _close(self, text: bytes, at: int, depth: int, cut: Cut) -> None:
        if self._in_array and depth == self._level - 1:
            if last := text[self._cursor : at].strip(BLANK):  # nothing: an empty array, or a comma before its end
                cut.values.append(self._with_fields(last))
            self._in_array, self._cursor = False, at + 1
        if depth == 0 and self._top:
            self._include(text, at, cut)
            self.objects += 1
            if not self._has_array:
                self._add_whole(text[self._begin : at + 1], cut)
            self._top, self._cursor = b"", at + 1

    def _add_whole(self, value: bytes, cut: Cut) -> None:
        """Add a value at the top that has no array of events."""
        if self._key_name is None:
            cut.values.append(value)
        elif self._top == b"{":
            cut.rejects.append((value, f"The object has no array under the key {self._key_name}"))
        else:
            cut.rejects.append((value, "The value is an array and not an object"))

    def _add_other(self, text: bytes, cut: Cut) -> None:
        """Add text at the top in no brackets: a number, perhaps, or no JSON at all."""
        if not (text := text.strip(BLANK)):
            return
        if self._key_name is None:
            cut.values.append(text)
        else:
            cut.rejects.append((text, "The text is not a JSON object"))

    def _is_key(self, text: bytes) -> bool:
        """Return whether a text is the key and a colon; its characters may be written as escapes."""
        name, colon, _ = text.strip(BLANK).rpartition(b":")
        return bool(colon) and _text(name) == self._key_name

    def _include(self, text: bytes, end: int, cut: Cut) -> None:
        """Keep a field of an object at the top for the elements that follow; reject it if it comes too late."""
        if not self._include_keys or self._top != b"{":
            return
        field = text[self._cursor : end].strip(BLANK)
        match = _NAME.match(field)
        key = _text(match[1]) if match else None
        if match is None or key is None or key not in self._include_keys:
            return
        if self._has_array:
            cut.rejects.append((field, f"{key} comes after the array {self._key_name}, whose events lack it"))
        else:
            self._fields[key] = msgspec.Raw(field[match.end() :])

    def _with_fields(self, element: bytes) -> bytes:
        """Return an element of an array with the fields of its object, which replace its own."""
        if not self._fields:
            return element
        try:
            return msgspec.json.encode({**_entries(element), **self._fields})
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return element  # no object, or nested too deeply: it becomes a dead letter

    def _keep(self, text: bytes) -> None:
        """Keep what is not complete, from a place whose depth is known."""
        start, self._depth = self._cursor, 0
        if self._in_array:
            self._depth = self._level
        elif self._top and self._has_array:
            self._depth = 1
        elif self._top:
            start, self._top = self._begin, b""  # it is read again from its beginning
        self.rest = text[start:] if self._depth else text[start:].lstrip(BLANK)

    def _marks(self, text: bytes) -> zip[tuple[int, int, int]]:
        """Return the brackets and commas that matter: their positions, kinds, and the depth after each."""
        positions, kinds, depths = _marks(text, self._depth)
        keep = (kinds == _OPEN) & (depths <= self._level)
        keep |= (kinds == _CLOSE) & (depths < self._level)
        commas = (kinds == _COMMA) & (depths <= self._level)
        if self._key_name is None:  # those of objects are many
            tops = np.maximum.accumulate(np.where((kinds == _OPEN) & (depths == 1), positions, -1))
            brackets = np.frombuffer(text or b" ", np.uint8)[tops]
            commas &= np.where(tops < 0, self._in_array, brackets == ord("["))
        keep |= commas
        return zip(positions[keep].tolist(), kinds[keep].tolist(), depths[keep].tolist(), strict=True)


def _text(name: bytes) -> str | None:
    """Return the text of a JSON string; None if it is none."""
    try:
        return msgspec.json.decode(name, type=str)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def _marks(text: bytes, depth: int) -> Marks:
    """Find the brackets and commas outside of strings: their positions, kinds, and the depth after each.

    A closing bracket that closes nothing leaves the depth at 0.
    """
    kinds = _KINDS[np.frombuffer(text, np.uint8)]
    positions = np.flatnonzero(kinds)
    kinds = kinds[positions]
    slashes = positions[kinds == _SLASH]
    if len(slashes):
        firsts = np.flatnonzero(np.diff(slashes, prepend=-2) != 1)
        lengths = np.diff(firsts, append=len(slashes))
        escaped = (slashes[firsts] + lengths)[lengths % 2 == 1]
        not_escaped = (kinds != _SLASH) & ~np.isin(positions, escaped, assume_unique=True)
        positions, kinds = positions[not_escaped], kinds[not_escaped]
    outside = (np.cumsum(kinds == _QUOTE) % 2 == 0) & (kinds != _QUOTE)
    positions, kinds = positions[outside], kinds[outside]
    depths = depth + np.cumsum((kinds == _OPEN).astype(np.int64) - (kinds == _CLOSE))
    return positions, kinds, depths - np.minimum.accumulate(np.minimum(depths, 0))

"""Reads Iceberg types as users write them: `long`, `decimal(9,2)`, `struct<a: int, b: list<string>>`."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from typing import Any

from pyiceberg import types as iceberg

from calve.errors import SettingsError
from calve.table.defaults import default_value
from calve.table.kinds import PRIMITIVES, Limit, named, primitive

__all__ = ["ALLOWED_TYPES", "declared", "parse_type"]

ALLOWED_TYPES = (*(row.text for row in PRIMITIVES), "struct<name: type, …>", "list<type>", "map<type, type>")
_DEFAULT = re.compile(r"(.*[^\s])\s+default\s+(.*)", re.IGNORECASE | re.DOTALL)
_TOKEN = re.compile(r"\s*(?:(\"[^\"]*\"|`[^`]*`|[^\s<>,:()\[\]\"`]+)|([<>,:()\[\]]))")


def declared(text: str, next_id: Callable[[], int] | None = None) -> tuple[iceberg.IcebergType, Any]:
    """Read a type that a default may follow, e.g. `decimal(12,2) default 0.00`.

    Args:
        text: The type.
        next_id: Returns the next id of a nested field.

    Returns:
        The type, and the default as PyIceberg's fields have it; None: no default.

    Raises:
        SettingsError: The type cannot be read, or the default is not a value of it.
    """
    parts = _DEFAULT.fullmatch(text.strip())
    kind = parse_type(parts[1] if parts else text, next_id)
    if parts is None:
        return kind, None
    value = parts[2][1:-1] if len(parts[2]) > 1 and parts[2][0] == parts[2][-1] in "'\"" else parts[2]
    try:
        return kind, default_value(kind, value)
    except ValueError as error:
        hint = "Write numbers, true, false, texts, dates, ISO 8601 times, UUIDs or Base64; other types have no default"
        raise SettingsError(f"{value!r} cannot be the default of a {kind}", step="settings", hint=hint) from error


def parse_type(text: str, next_id: Callable[[], int] | None = None) -> iceberg.IcebergType:
    """Read a type; fields of structs may be `required`, e.g. `struct<a: int required>`, names may be quoted.

    Args:
        text: The type.
        next_id: Returns the next id of a nested field.

    Raises:
        SettingsError: The message has the position and the allowed types.
    """
    parser = _Parser(text, next_id or itertools.count(1).__next__)
    kind = parser.type()
    parser.end()
    return kind


class _Parser:
    def __init__(self, text: str, next_id: Callable[[], int]) -> None:
        self._text = text
        self._at = 0
        self._next_id = next_id
        self._repeated = 0

    def type(self) -> iceberg.IcebergType:
        name = self._word("a type").lower()
        row = named(name)
        if Limit.NO_ELEMENT in row.limits and self._repeated:
            raise self._error(f"Spark cannot read {name}s in a list or map; make the whole column a {name}")
        if row.text == name:
            return row.kind()
        nested = {"struct": self._struct, "list": self._list, "map": self._map}.get(name)
        if nested is not None:
            self._sign("<")
            kind = nested()
            self._sign(">")
            return kind
        if name == "decimal":
            return self._decimal()
        if name == "fixed":
            self._sign("[")
            length = self._number(1, 2**31 - 1)
            self._sign("]")
            return iceberg.FixedType(length)
        raise self._error(f"{name!r} is not a type")

    def end(self) -> None:
        if self._text[self._at :].strip():
            raise self._error(f"unexpected {self._text[self._at :].strip()!r}")

    def _struct(self) -> iceberg.IcebergType:
        fields: list[iceberg.NestedField] = []
        while True:
            name = self._word("a field name")
            self._sign(":")
            number, kind = self._next_id(), self.type()
            required = self._peek() == "required" and bool(self._word("required"))
            if required and Limit.ALWAYS_NULL in primitive(kind).limits:
                raise self._error(f"a field of type {kind} is always null and cannot be required")
            if any(field.name == name for field in fields):
                raise self._error(f"the field {name!r} appears twice")
            fields.append(iceberg.NestedField(number, name, kind, required=required))
            if self._peek() != ",":
                return iceberg.StructType(*fields)
            self._sign(",")

    def _list(self) -> iceberg.IcebergType:
        return iceberg.ListType(self._next_id(), self._each(), element_required=False)

    def _map(self) -> iceberg.IcebergType:
        key_id, key = self._next_id(), self.type()
        if not key.is_primitive:
            raise self._error(f"a map key of type {key} cannot come from JSON")
        self._sign(",")
        return iceberg.MapType(key_id, key, self._next_id(), self._each(), value_required=False)

    def _each(self) -> iceberg.IcebergType:
        self._repeated += 1
        kind = self.type()
        self._repeated -= 1
        return kind

    def _decimal(self) -> iceberg.IcebergType:
        self._sign("(")
        precision, scale = self._number(1, 38), 0
        if self._peek() == ",":
            self._sign(",")
            scale = self._number(0, precision)
        self._sign(")")
        return iceberg.DecimalType(precision, scale)

    def _peek(self) -> str:
        match = _TOKEN.match(self._text, self._at)
        return (match[1] or match[2]) if match else ""

    def _word(self, wanted: str) -> str:
        match = _TOKEN.match(self._text, self._at)
        if not match or not match[1]:
            raise self._error(f"expected {wanted}")
        self._at = match.end()
        return match[1].strip('"`') if match[1][0] in '"`' else match[1]

    def _sign(self, sign: str) -> None:
        match = _TOKEN.match(self._text, self._at)
        if not match or match[2] != sign:
            raise self._error(f"expected {sign!r}")
        self._at = match.end()

    def _number(self, low: int, high: int) -> int:
        word = self._word("a number")
        if not word.isascii() or not word.isdigit() or not low <= int(word) <= high:
            raise self._error(f"{word!r} is not a number from {low} to {high}")
        return int(word)

    def _error(self, problem: str) -> SettingsError:
        message = f"The type {self._text!r} cannot be read: {problem} at character {self._at + 1}"
        return SettingsError(message, step="settings", hint=f"Allowed: {', '.join(ALLOWED_TYPES)}")

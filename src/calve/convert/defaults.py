"""Fills fields that an event lacks with the defaults of their columns (`write-default`, format version 3).

An explicit null stays null. A default is put into the event's text, so that it is converted as any value is.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from typing import Any

import msgspec
import pyarrow as pa

from calve.arrays import Mask
from calve.columns.options import ConvertOptions
from calve.event.column_names import folded
from calve.event.columns import EVENT, TYPED
from calve.event.envelope.exact import text_of
from calve.event.exact_json import MalformedError, parse_object
from calve.event.typed import is_typed, with_text
from calve.event.validate_json import whole_array
from calve.table.kinds import named
from calve.table.loaded import Table

__all__ = ["Defaults"]

_BLANK = b" \t\r\n"
_keys = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_Fill = Callable[[Any], None]
"""Fills the nested fields of a parsed value, in place."""


class Defaults:
    """The defaults of a table's columns, for events; for one thread (executor).

    Args:
        table: The table.
        options: How its events are converted: fields that are not written, and columns of metadata, get no default.
        without: Columns whose default is not used.
    """

    def __init__(self, table: Table, options: ConvertOptions, without: Collection[str] = ()) -> None:
        self._ignores_case = options.case_insensitive
        skipped = {*without, *(name for name, _ in options.metadata)}
        columns = [field for field in json.loads(table.schema_json)["fields"] if field["name"] not in skipped]
        self._known = {self._folded(field["name"]) for field in columns}
        self._texts = {
            field["name"]: json.dumps({field["name"]: value})[1:-1].encode()
            for field in columns
            if field["name"] in options.fields and (value := _default(field)) is not None
        }
        self._inner = _inner(columns, self._ignores_case)

    def __bool__(self) -> bool:
        return bool(self._texts or self._inner)

    def fill(self, rows: pa.Table, at: Mask | None = None) -> pa.Table:
        """Return events, or typed rows, whose missing fields have their defaults; those `at` some positions only."""
        if not self or (is_typed(rows) and self._has_all(rows[TYPED].type)):
            return rows
        rows = with_text(rows)
        texts = whole_array(rows[EVENT])
        filled = [self._filled(text) if at is None or at[row] else text for row, text in enumerate(texts.to_pylist())]
        return rows.set_column(rows.column_names.index(EVENT), EVENT, pa.array(filled, texts.type))

    def _filled(self, text: bytes | str | None) -> bytes | str | None:
        try:
            event = None if self._inner else _keys(text or b"")
        except msgspec.DecodeError:
            event = None
        if event is None:
            try:
                event = parse_object(text)
            except MalformedError:
                return text
            if self._inner:
                _fill_fields(self._inner, {}, self._ignores_case, event)
                text = text_of(event)
        if text is None or not any(self._folded(name) in self._known for name in event):
            return text
        missing = b",".join(self._texts[name] for name in self._missing(event))
        body = (text.encode() if isinstance(text, str) else text).rstrip(_BLANK)
        return body[:-1] + b"," + missing + b"}" if missing else body

    def _has_all(self, kind: pa.StructType) -> bool:
        """Return whether typed rows have all fields: an example of their type stays as it is."""
        example, filled = _example(kind), _example(kind)
        _fill_fields(self._inner, {}, self._ignores_case, filled)
        return example == filled and not self._missing(kind.names)

    def _missing(self, names: Iterable[str]) -> list[str]:
        present = {*map(self._folded, names)}
        return [name for name in self._texts if self._folded(name) not in present]

    def _folded(self, name: str) -> str:
        return folded(name) if self._ignores_case else name


def _example(kind: pa.DataType) -> Any:
    """Return a value with all the fields of a type, and null for what is no struct."""
    if pa.types.is_struct(kind):
        return {field.name: _example(field.type) for field in kind}
    if pa.types.is_map(kind):
        return {"": _example(kind.item_type)}
    return [_example(kind.value_type)] if hasattr(kind, "value_type") else None


def _default(field: Mapping[str, Any]) -> Any:
    """Return a field's default as the JSON value that an event would have; None: it has none."""
    value, kind = field.get("write-default"), field["type"]
    is_binary = isinstance(kind, str) and named(kind).json == "base64"
    return base64.b64encode(bytes.fromhex(value)).decode() if is_binary and value is not None else value


def _inner(fields: Iterable[Mapping[str, Any]], ignores_case: bool) -> dict[str, _Fill]:
    """Return what fills the fields of structs in columns."""
    fills = ((field["name"], _fill_of(field["type"], ignores_case)) for field in fields)
    return {name: fill for name, fill in fills if fill is not None}


def _fill_of(kind: Any, ignores_case: bool) -> _Fill | None:
    if isinstance(kind, str):
        return None
    if kind["type"] == "struct":
        defaults = {field["name"]: value for field in kind["fields"] if (value := _default(field)) is not None}
        inner = _inner(kind["fields"], ignores_case)
        return partial(_fill_fields, inner, defaults, ignores_case) if defaults or inner else None
    inside = _fill_of(kind["element"] if kind["type"] == "list" else kind["value"], ignores_case)
    return None if inside is None else partial(_fill_each, inside)


def _fill_each(inside: _Fill, value: Any) -> None:
    for element in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        inside(element)


def _fill_fields(inner: Mapping[str, _Fill], defaults: Mapping[str, Any], ignores_case: bool, value: Any) -> None:
    if not isinstance(value, dict):
        return
    names = {folded(name) if ignores_case else name: name for name in value}
    for name, fill in inner.items():
        if (given := names.get(folded(name) if ignores_case else name)) is not None:
            fill(value[given])
    for name, default in defaults.items():
        if (folded(name) if ignores_case else name) not in names:
            value[name] = default

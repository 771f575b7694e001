"""Compares the rows of a table with their events, by the types of its columns."""

from __future__ import annotations

import json
import math
import re
import struct
from collections.abc import Iterator, Mapping
from decimal import Context, Decimal
from typing import Any

from pyiceberg import types as iceberg

from convert import reference
from convert.reference import NotCoercible, Text
from convert.reference_names import renamed
from fuzz.setups import Sink

WIDE = Context(prec=100)
HUGE = re.compile(r"[0-9][eE][-+]?[0-9]{5}")
"""A number that the reference would write out in full."""


def key_of(event: Mapping[str, Any], kind: iceberg.IcebergType | None) -> str | None:
    """Return an event's key as its column has it, printed; None: it has none."""
    value = event.get("k")
    if value is None or kind is None:
        return None
    try:
        found = reference.one(value, kind, False)
    except NotCoercible:
        return None
    return repr(_decimal(found, kind) if isinstance(kind, iceberg.DecimalType) else found)


def differences(
    sink: Sink, kind: iceberg.StructType, row: Mapping[str, Any], event: Mapping[str, Any]
) -> Iterator[tuple[str, str]]:
    """Yield how a row differs from its event, and what of the event is nowhere: in few words, and with the values."""
    insensitive = bool(sink.options.get("case_insensitive"))
    event = {
        name: value
        for name, value in event.items()
        if name not in sink.exclude and (not sink.include or name in sink.include)
    }
    event = renamed(event, [each.name for each in kind.fields], insensitive)
    for each in kind.fields:
        value, got = event.get(each.name), row.get(each.name)
        if value is None:  # PyIceberg 0.12 reads a list of structs that is null as an empty one
            is_null = same(got, value, each.field_type) if str(each.field_type) == "variant" else got in (None, [])
            if not is_null and sink.options.get("partial_updates") != "keep":
                yield "is not NULL where nothing was", f"{each.name} is {shown(got)}"
            continue
        yield from _difference(sink, each, value, got)
    if sink.options["schema_evolution"]:
        for path in missing(kind, event, insensitive):
            yield "a field has no column", path


def _difference(sink: Sink, each: iceberg.NestedField, value: Any, got: Any) -> Iterator[tuple[str, str]]:
    kind = each.field_type
    if not isinstance(kind, iceberg.StringType) and HUGE.search(reference.write(value)):
        return
    try:
        want = reference.one(value, kind, bool(sink.options.get("case_insensitive")), _times(sink, each.name))
    except NotCoercible:
        if got is not None:
            yield f"a value that is no {_kind(kind)} became one", f"{each.name} is {shown(got)}, from {shown(value)}"
        elif sink.rejects_misfits(each.name):
            yield "NULL, and its event is no dead letter", f"{each.name}, {shown(value)} as {kind}"
        return
    if not same(got, want, kind) and not (sink.given_types.get(each.name) == "float" and same(got, narrow(want), kind)):
        how = "NULL" if got is None else "another value"
        yield f"a {_kind(kind)} is {how}", f"{each.name} is {shown(got)} and should be {shown(want)}, {kind}"


def fits(sink: Sink, kind: iceberg.StructType, event: Mapping[str, Any]) -> bool:
    """Return whether each field of an event can be converted to its column, where it has one."""
    insensitive = bool(sink.options.get("case_insensitive"))
    event = renamed(event, [each.name for each in kind.fields], insensitive)
    try:
        for each in kind.fields:
            if event.get(each.name) is not None:
                reference.one(event[each.name], each.field_type, insensitive, _times(sink, each.name))
    except NotCoercible:
        return False
    return True


def _times(sink: Sink, column: str) -> reference.Times:
    is_local = "schema" not in sink.options and column not in sink.given_types
    return reference.Times(sink.options.get("timestamp_unit"), is_local)


def _kind(kind: iceberg.IcebergType) -> str:
    return re.split(r"[\[<(]", str(kind))[0]


def missing(kind: iceberg.IcebergType, value: Any, insensitive: bool, path: str = "") -> Iterator[str]:
    """Yield the fields with a value that a table has no column for."""
    if isinstance(kind, iceberg.ListType) and isinstance(value, list):
        for item in value:
            yield from missing(kind.element_type, item, insensitive, f"{path}.element")
    elif isinstance(kind, iceberg.StructType) and isinstance(value, dict):
        columns = {each.name: each.field_type for each in kind.fields}
        for name, item in renamed(value, list(columns), insensitive).items():
            if name in columns:
                yield from missing(columns[name], item, insensitive, f"{path}.{name}")
            elif carries(item):
                yield f"{path}.{name}"


def carries(value: Any) -> bool:
    """Return whether a value holds anything but nulls."""
    if isinstance(value, dict):
        return any(map(carries, value.values()))
    return any(map(carries, value)) if isinstance(value, list) else value is not None


def narrow(value: Any) -> Any:
    """Return what a float column made of a number before it became a double."""
    return struct.unpack("f", struct.pack("f", value))[0] if abs(value) < 3e38 else value


def same(got: Any, want: Any, kind: iceberg.IcebergType) -> bool:
    """Return whether a column's value is the one that the reference gives."""
    if str(kind) == "variant":
        held = None if got is None else json.loads(got, parse_int=Text, parse_float=Text)
        return same_json(held, want) and (got is not None or want is None)
    if got is None or want is None:
        return got is None and want is None
    match kind:
        case iceberg.StructType():
            return all(same(got[each.name], want[each.name], each.field_type) for each in kind.fields)
        case iceberg.ListType():
            return len(got) == len(want) and all(same(*pair, kind.element_type) for pair in zip(got, want))
        case iceberg.MapType():
            pairs = [sorted(each, key=lambda pair: repr(_plain(pair[0], kind.key_type))) for each in (got, want)]
            return len(got) == len(want) and all(
                same(one[0], other[0], kind.key_type) and same(one[1], other[1], kind.value_type)
                for one, other in zip(*pairs)
            )
        case iceberg.DoubleType() | iceberg.FloatType():
            return bool(got == want) or (math.isnan(got) and math.isnan(want))
    return bool(_plain(got, kind) == _plain(want, kind))


def same_json(got: Any, want: Any) -> bool:
    """Return whether two JSON values are the same; a number may be the double that is written so."""
    if isinstance(want, dict):
        return (
            isinstance(got, dict) and got.keys() == want.keys() and all(same_json(got[key], want[key]) for key in want)
        )
    if isinstance(want, list):
        return isinstance(got, list) and len(got) == len(want) and all(map(same_json, got, want))
    if isinstance(want, Text):
        return isinstance(got, Text) and Decimal(want) in (Decimal(got), Decimal(float(got)))
    return type(got) is type(want) and bool(got == want)


def _decimal(scaled: int, kind: iceberg.DecimalType) -> Decimal:
    return Decimal(scaled).scaleb(-kind.scale, WIDE)


def _plain(value: Any, kind: iceberg.IcebergType) -> Any:
    if isinstance(kind, iceberg.DecimalType):
        return value if isinstance(value, Decimal) else _decimal(value, kind)
    if isinstance(kind, iceberg.UUIDType) and isinstance(value, str):
        return bytes.fromhex(value.replace("-", ""))
    return value


def shown(value: Any, most: int = 200) -> str:
    """Return a value for a finding, not too much of it."""
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= most else f"{text[: most // 2]} … {text[-most // 2 :]}"

"""Random Avro schemas and values of them, and what fastavro reads."""

from __future__ import annotations

import datetime as dt
import io
import itertools
import json
from decimal import Decimal
from typing import Any

import fastavro
from hypothesis import strategies as st

from calve.serde.format import WriterSchema

_NAMES = itertools.count()
_EPOCH = dt.datetime(1970, 1, 1)
LEAVES: dict[str, tuple[Any, st.SearchStrategy[Any]]] = {
    "null": ("null", st.none()),
    "boolean": ("boolean", st.booleans()),
    "int": ("int", st.integers(-(1 << 31), (1 << 31) - 1)),
    "long": ("long", st.integers(-(1 << 63), (1 << 63) - 1)),
    "float": ("float", st.floats(width=32, allow_nan=False)),
    "double": ("double", st.floats(allow_nan=False)),
    "bytes": ("bytes", st.binary(max_size=20)),
    "string": ("string", st.text(max_size=12)),
    "date": ({"type": "int", "logicalType": "date"}, st.dates()),
    "time-millis": (
        {"type": "int", "logicalType": "time-millis"},
        st.integers(0, 86_399_999).map(lambda ms: (_EPOCH + dt.timedelta(milliseconds=ms)).time()),
    ),
    "time-micros": ({"type": "long", "logicalType": "time-micros"}, st.times()),
    "timestamp-micros": (
        {"type": "long", "logicalType": "timestamp-micros"},
        st.datetimes(timezones=st.just(dt.UTC)),
    ),
    "timestamp-millis": (
        {"type": "long", "logicalType": "timestamp-millis"},
        st.datetimes(timezones=st.just(dt.UTC)).map(lambda at: at.replace(microsecond=at.microsecond // 1000 * 1000)),
    ),
    "local-timestamp-micros": ({"type": "long", "logicalType": "local-timestamp-micros"}, st.datetimes()),
    "uuid": ({"type": "string", "logicalType": "uuid"}, st.uuids()),
    "decimal": (
        {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 3},
        st.integers(1 - 10**12, 10**12 - 1).map(lambda number: Decimal(number).scaleb(-3)),
    ),
    "wide": (
        {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 10},
        st.integers(1 - 10**38, 10**38 - 1).map(lambda number: Decimal(f"{number}e-10")),
    ),
}


def _name() -> str:
    return f"n{next(_NAMES)}"


def _leaf() -> st.SearchStrategy[tuple[Any, st.SearchStrategy[Any]]]:
    return st.sampled_from(list(LEAVES.values())) | st.builds(_named, st.sampled_from(["enum", "fixed", "decimal"]))


def _named(kind: str) -> tuple[Any, st.SearchStrategy[Any]]:
    if kind == "enum":
        return {"type": "enum", "name": _name(), "symbols": ["A", "B", "C"]}, st.sampled_from("ABC")
    if kind == "fixed":
        return {"type": "fixed", "name": _name(), "size": 3}, st.binary(min_size=3, max_size=3)
    digits = {"logicalType": "decimal", "precision": 6, "scale": 2}
    numbers = st.integers(-999_999, 999_999).map(lambda number: Decimal(number).scaleb(-2))
    return {"type": "fixed", "name": _name(), "size": 5, **digits}, numbers


def _nested(
    inner: st.SearchStrategy[tuple[Any, st.SearchStrategy[Any]]],
) -> st.SearchStrategy[tuple[Any, st.SearchStrategy[Any]]]:
    arrays = inner.map(lambda one: ({"type": "array", "items": one[0]}, st.lists(one[1], max_size=3)))
    maps = inner.map(
        lambda one: ({"type": "map", "values": one[0]}, st.dictionaries(st.text(max_size=3), one[1], max_size=3))
    )
    optional = inner.filter(lambda one: not isinstance(one[0], list) and one[0] != "null").map(
        lambda one: (["null", one[0]], st.none() | one[1])
    )
    several = st.just((["null", "long", "string", "boolean"], st.none() | st.booleans() | st.text(max_size=5)))
    return arrays | maps | optional | several | records(inner, 1)


def records(
    inner: st.SearchStrategy[tuple[Any, st.SearchStrategy[Any]]], least: int
) -> st.SearchStrategy[tuple[Any, st.SearchStrategy[Any]]]:
    """Records of such fields."""

    def made(fields: list[tuple[Any, st.SearchStrategy[Any]]]) -> tuple[Any, st.SearchStrategy[Any]]:
        described = [{"name": f"f{number}", "type": one} for number, (one, _) in enumerate(fields)]
        values = st.fixed_dictionaries({f"f{number}": value for number, (_, value) in enumerate(fields)})
        return {"type": "record", "name": _name(), "fields": described}, values

    return st.lists(inner, min_size=least, max_size=5).map(made)


SCHEMAS = records(st.recursive(_leaf(), _nested, max_leaves=6), 1)


@st.composite
def written(draw: st.DrawFn) -> tuple[dict[str, Any], list[Any], list[bytes]]:
    """A schema, values, and their bytes as fastavro writes them."""
    schema, values = draw(SCHEMAS)
    rows = draw(st.lists(values, min_size=1, max_size=6))
    return schema, rows, [encoded(schema, row) for row in rows]


def encoded(schema: Any, value: Any) -> bytes:
    """Write a value with fastavro."""
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(json.loads(json.dumps(schema))), value)
    return out.getvalue()


def writer(schema: Any) -> WriterSchema:
    """The schema as the registry gives it."""
    return WriterSchema(json.dumps(schema))


def plain(schema: Any, value: Any) -> Any:
    """What Calve decoded, as fastavro gives values: maps are dicts, a union is the value of its branch."""
    if isinstance(schema, list):
        branches = [one for one in schema if one != "null"]
        if value is None or len(branches) == 1:
            return None if value is None else plain(branches[0], value)
        return next(one for one in value.values() if one is not None)
    if value is None or not isinstance(schema, dict):
        return value
    match schema["type"]:
        case "record":
            return {each["name"]: plain(each["type"], value[each["name"]]) for each in schema["fields"]}
        case "array":
            return [plain(schema["items"], one) for one in value]
        case "map":
            return {key: plain(schema["values"], one) for key, one in value}
    return value

"""Tables partitioned by every transform of every type, the events for them, and filters with the rows they must find."""

from __future__ import annotations

import datetime as dt
import json
import math
import operator
import uuid
from base64 import b64encode
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

UTC = dt.UTC
NAN = math.nan
EVERY = ("identity", "void")
COUNTED = (*EVERY, "bucket[7]")
CUT = (*COUNTED, "truncate[3]")
DATED = (*COUNTED, "year", "month", "day")
TIMED = (*DATED, "hour")
MOMENTS = [
    dt.datetime(1969, 12, 31, 23, 59, 59, 999999),
    dt.datetime(1970, 1, 1),
    dt.datetime(1900, 2, 28, 12, 0, 0, 1),
    dt.datetime(2026, 3, 29, 1, 30),
    dt.datetime(2026, 3, 29, 1, 59, 59, 999999),
    dt.datetime(2026, 12, 31, 23, 0),
    dt.datetime(9999, 12, 31, 23, 59, 59),
    dt.datetime(1000, 1, 1, 0, 0, 1),
]
TEXTS = [
    "",
    "a",
    "ab",
    "abc",
    "abcd",
    "zürich",
    "日本語の長い文字列です、とても長い",
    "😀😀😀😀",
    "x" * 40,
    "a/b=c %2F",
    "null",
    "Ab",
]
BYTES = [b"", b"\x00", b"\xff\xff\xff\xff", b"abcd", b"abc" * 20, b"\x7f", b"\x80\x00"]


@dataclass(frozen=True)
class Kind:
    """A type, the values for it, and the transforms it allows; the name of its column is that of its tables."""

    type: str
    transforms: tuple[str, ...]
    values: list[Any]
    in_spark: bool = True


KINDS = {
    "flag": Kind("boolean", EVERY, [True, False]),
    "small": Kind("int", CUT, [0, 1, -1, 2, -3, -4, 2**31 - 1, -(2**31) + 2]),
    "large": Kind("long", CUT, [0, 1, -1, 5, -7, 2**53 + 1, 2**63 - 1, -(2**63) + 2]),
    "single": Kind("float", EVERY, [0.0, 1.5, -2.25, 2.0**127, -(2.0**-126), math.inf, -math.inf, NAN]),
    "wide": Kind("double", EVERY, [0.0, -0.5, 1e300, -1e-300, math.inf, -math.inf, NAN]),
    "price": Kind(
        "decimal(9,2)", CUT, [Decimal(t) for t in ("0.00", "0.01", "-0.01", "12.50", "9999999.99", "-9999999.99")]
    ),
    "sum": Kind("decimal(18,3)", CUT, [Decimal(t) for t in ("0.000", "0.123", "-7.001", "999999999999999.999")]),
    "huge": Kind(
        "decimal(38,10)",
        CUT,
        [Decimal(t) for t in ("0E-10", "-1.0000000001", "1234567890123456789012345678.0123456789")],
    ),
    "day": Kind("date", DATED, [moment.date() for moment in MOMENTS]),
    "hour": Kind(
        "time", COUNTED, [dt.time(0), dt.time(23, 59, 59, 999999), dt.time(12, 30), dt.time(12, 30, 0, 1)], False
    ),
    "local": Kind("timestamp", TIMED, MOMENTS),
    "at": Kind("timestamptz", TIMED, [moment.replace(tzinfo=UTC) for moment in MOMENTS]),
    "text": Kind("string", CUT, TEXTS),
    "key": Kind("uuid", COUNTED, [uuid.UUID(int=number) for number in (0, 1, 2**128 - 1, 0x1234567890ABCDEF << 40)]),
    "four": Kind("fixed[4]", COUNTED[1:], [b"\x00\x00\x00\x00", b"\xff\xfe\x00\x01", b"abcd", b"\x7f\xff\xff\xff"]),
    "raw": Kind("binary", CUT, BYTES),
}
ROUNDS = 3
COMPARE = {"=": operator.eq, "<": operator.lt, ">=": operator.ge}


@dataclass(frozen=True)
class Filter:
    """A condition on a column (`value` None: IS NULL), with the ids of the rows that meet it."""

    column: str
    word: str
    value: Any
    ids: list[int]

    @property
    def sql(self) -> str:
        """The condition for Spark."""
        return f"`{self.column}` IS NULL" if self.value is None else f"`{self.column}` {self.word} {_literal(self)}"


def tables() -> Iterator[tuple[str, str, str]]:
    """Give each table's name with its column and transform."""
    for column, kind in KINDS.items():
        for transform in kind.transforms:
            yield f"parts.{column}_{transform.split('[')[0]}", column, transform


def sinks() -> list[dict[str, Any]]:
    """Give a sink for each table."""
    return [
        {
            "iceberg": {
                "table_identifier": table,
                "auto_create": True,
                "on_type_mismatch": "dlq",
                "schema": {
                    "columns": [{"name": "id", "type": "long"}, {"name": column, "type": KINDS[column].type}],
                    "partition_spec": [{"column": column, "transform": transform}],
                },
            }
        }
        for table, column, transform in tables()
    ]


def value(column: str, number: int) -> Any:
    """Give the value of a row; some have none."""
    values = KINDS[column].values
    position = number % (len(values) + 1)
    return values[position] if position < len(values) else None


def row_count() -> int:
    return ROUNDS * (max(len(kind.values) for kind in KINDS.values()) + 1)


def events() -> str:
    """Give the events, a line each; a missing value is a null or a missing field."""
    lines = []
    for number in range(row_count()):
        fields = {column: value(column, number) for column in KINDS}
        kept = {column: _json(found) for column, found in fields.items() if found is not None or number % 2}
        lines.append(json.dumps({"id": number, **kept}))
    return "\n".join(lines) + "\n"


def filters(column: str) -> list[Filter]:
    """Give conditions for each value of a column."""
    every = {number: value(column, number) for number in range(row_count())}
    found = [Filter(column, "", None, [number for number, each in every.items() if each is None])]
    for wanted in KINDS[column].values:
        if wanted is NAN:
            continue  # readers order it differently
        for word, compare in COMPARE.items():
            ids = [number for number, each in every.items() if each is not None and compare(each, wanted)]
            found.append(Filter(column, word, wanted, ids))
    return found


def _json(found: Any) -> Any:
    if isinstance(found, bytes):
        return b64encode(found).decode()
    if isinstance(found, float) and not math.isfinite(found):
        return {"inf": "Infinity", "-inf": "-Infinity"}.get(str(found), "NaN")
    if isinstance(found, (bool, int, float, str, type(None))):
        return found
    return found.isoformat() if hasattr(found, "isoformat") else str(found)


def _literal(condition: Filter) -> str:
    found, kind = condition.value, KINDS[condition.column].type
    if isinstance(found, bytes):
        return f"X'{found.hex()}'"
    if isinstance(found, (bool, int)) and kind in ("boolean", "int", "long"):
        return f"CAST({found} AS {kind})"
    if kind in ("string", "uuid"):
        return "'" + str(found).replace("'", "''") + "'"
    name = {"timestamp": "timestamp_ntz", "timestamptz": "timestamp"}.get(kind, kind)
    text = {"inf": "Infinity", "-inf": "-Infinity"}.get(str(found), str(found))
    return f"CAST('{text}' AS {name})"


def few_filters(column: str, turn: int) -> list[Filter]:
    """Give two conditions, every turn of other forms and with other values: one on equality or NULL, one on order."""
    every = filters(column)
    words = (("=", "<"), ("=", ">="), ("", "<"))[turn % 3]
    forms = [[each for each in every if each.word == word] for word in words]
    return [form[turn % len(form)] for form in forms]

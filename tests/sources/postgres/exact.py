"""Values of a database and of a table in one form that says exactly what they are."""

from __future__ import annotations

import json
import struct
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any


def sent(kind: str, name: str) -> str:
    """Give the SQL of a value in a form that says exactly what it is, and needs no code of Calve."""
    if kind.endswith("[]"):
        each = sent(kind[:-2], "e") if kind[:-2] in ("bytea", "timestamptz") else "e::text"
        return f"case when {name} is not null then to_json(array(select {each} from unnest({name}) e))::text end"
    if kind in ("real", "double precision"):
        return f"encode(float8send({name}::float8), 'hex')"
    if kind == "bytea":
        return f"encode({name}, 'hex')"
    if kind.startswith("timestamp"):
        return f"(extract(epoch from {name}) * 1000000)::numeric(30,0)::text"
    if kind == "date":
        return f"({name} - date '1970-01-01')::text"
    return f"case when {name} is not null then format('%s', {name}) end"


def told(kind: str, value: Any) -> str | None:
    """Give a value of the table in the same form."""
    if value is None:
        return None
    if isinstance(value, list):
        return json.dumps([_element(each) for each in value], separators=(",", ":"), ensure_ascii=False)
    if kind in ("real", "double precision"):
        return struct.pack(">d", value).hex() if value == value else "7ff8000000000000"
    return _element(value)


def _element(value: Any) -> str | None:
    match value:
        case bool():
            return "t" if value else "f"
        case bytes():
            return value.hex()
        case datetime():
            return str((value.replace(tzinfo=None) - datetime(1970, 1, 1)) // timedelta(microseconds=1))
        case date():
            return str((value - date(1970, 1, 1)).days)
        case Decimal():
            return f"{value:f}"
        case int():
            return str(value)
    return value

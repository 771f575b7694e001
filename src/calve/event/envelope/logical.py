"""Renders values of logical types as text that needs no schema: one value at a time, exactly.

Dates and times become ISO 8601, decimals their digits. A value without such a form (a year beyond 9999, Postgres'
`infinity`, a MySQL TIME of more than a day) becomes its number as text, because a column would read a plain number as
milliseconds.
"""

from __future__ import annotations

import base64
import binascii
import datetime
from dataclasses import replace
from typing import Any

from calve.event.envelope.schema import Field
from calve.event.exact_json import Number, decoder, dump

__all__ = [
    "DECIMAL",
    "EPOCHS",
    "UTC_TEXTS",
    "VARIABLE_DECIMAL",
    "needs_care",
    "render",
    "text_of_scalar",
    "whole",
    "with_defaults",
]

DECIMAL = "org.apache.kafka.connect.data.Decimal"
VARIABLE_DECIMAL = "io.debezium.data.VariableScaleDecimal"
EPOCHS = {
    "io.debezium.time.Date": ("date", 1),
    "org.apache.kafka.connect.data.Date": ("date", 1),
    "io.debezium.time.Time": ("time", 10**3),
    "org.apache.kafka.connect.data.Time": ("time", 10**3),
    "io.debezium.time.MicroTime": ("time", 10**6),
    "io.debezium.time.NanoTime": ("time", 10**9),
    "io.debezium.time.Timestamp": ("timestamp", 10**3),
    "org.apache.kafka.connect.data.Timestamp": ("timestamp", 10**3),
    "io.debezium.time.MicroTimestamp": ("timestamp", 10**6),
    "io.debezium.time.NanoTimestamp": ("timestamp", 10**9),
}
"""Numbers since the epoch or midnight: their meaning, and their units per second (a date: days)."""
UTC_TEXTS = frozenset({"io.debezium.time.ZonedTime", "io.debezium.time.IsoTime", "io.debezium.time.IsoDate"})
"""Texts that end in the offset of UTC, which columns of type `time` and `date` do not accept."""
_MOST_DIGITS, _MOST_BYTES, _MOST_SCALE = 40, 1_000, 1_000
"""Bounds of rendering: a number with more digits stays as it is."""
_TEXTS = ("string", "bytes")
_JSON = decoder()
_EPOCH = datetime.datetime(1970, 1, 1)
_DAYS = (datetime.date.min.toordinal() - 719_163, datetime.date.max.toordinal() - 719_163)


def needs_care(schema: Field) -> bool:
    """Return whether a value of this schema, or a value inside of it, must be rendered or may be missing."""
    special = _is_rendered(schema) or schema.has_scalar_keys
    return special or any(field.default is not None or needs_care(field) for field in schema.fields)


def _is_rendered(schema: Field) -> bool:
    return schema.logical in EPOCHS or schema.logical in UTC_TEXTS or schema.logical in (DECIMAL, VARIABLE_DECIMAL)


def with_defaults(schema: Field) -> Field:
    """Return a schema whose defaults, which are JSON, are the texts of their rendered values, without quotes."""
    default = schema.default
    if default is not None:
        value = render(_parsed(default), replace(schema, default=None))
        default = str(value) if isinstance(value, str) else dump(value)
    return replace(schema, default=default, fields=tuple(map(with_defaults, schema.fields)))


def _default(schema: Field) -> Any:
    """Return the value of a missing field, as if it had been parsed and rendered."""
    text = schema.default or ""
    return text if _is_rendered(schema) or schema.kind in _TEXTS else _parsed(text)


def _parsed(text: str) -> Any:
    """Return the value of a JSON text; what is not JSON, such as NaN, is the text itself, as Connect writes it."""
    try:
        return _JSON.decode(text)
    except (ValueError, RecursionError):
        return text


def render(value: Any, schema: Field | None) -> Any:
    """Render a parsed value by its schema; a value that does not fit the schema stays as it is."""
    if value is None or schema is None or not needs_care(schema):
        return value
    if schema.logical == DECIMAL:
        return _decimal(value, schema.scale) if type(value) is str else value
    if schema.logical == VARIABLE_DECIMAL and isinstance(value, dict):
        scale = whole(value.get("scale"))
        return value if scale is None else _decimal(value.get("value"), scale)
    if schema.logical in EPOCHS:
        number = whole(value)
        return value if number is None else _epoch(number, *EPOCHS[schema.logical])
    if schema.logical in UTC_TEXTS:
        return value.removesuffix("Z").removesuffix("+00:00") if type(value) is str else value
    if schema.kind == "struct" and isinstance(value, dict):
        schemas = {child.name: child for child in schema.fields}
        missing = [child for child in schema.fields if child.default is not None and child.name not in value]
        rendered = {name: render(child, schemas.get(name)) for name, child in value.items()}
        return rendered | {child.name: _default(child) for child in missing}
    if schema.kind == "array" and isinstance(value, list):
        return [render(child, schema.fields[0]) for child in value]
    if schema.kind == "map" and isinstance(value, dict):
        return {name: render(child, schema.fields[0]) for name, child in value.items()}
    return _of_pairs(value, *schema.fields) if schema.has_scalar_keys and isinstance(value, list) else value


def _of_pairs(value: list[Any], values: Field, keys: Field) -> Any:
    """Render a map that is an array of pairs as an object; one that is not an array of such pairs stays as it is."""
    if not all(isinstance(pair, list) and len(pair) == 2 for pair in value):
        return value
    rendered = {text_of_scalar(render(key, keys)): render(child, values) for key, child in value}
    return value if None in rendered or len(rendered) < len(value) else rendered


def text_of_scalar(value: Any) -> str | None:
    """Return the text of a parsed string, number or boolean, without quotes; None for any other value."""
    if type(value) is bool:
        return "true" if value else "false"
    return str(value) if isinstance(value, str) else None


def whole(number: Any) -> int | None:
    """Return a parsed number as an integer; None for other values, and for more digits than any type has."""
    usual = type(number) is Number and len(number) <= _MOST_DIGITS and number.removeprefix("-").isdecimal()
    return int(number) if usual else None


def _decimal(value: Any, scale: int) -> Any:
    """Read a decimal's unscaled value: Base64 of a big-endian two's complement."""
    try:
        data = base64.b64decode(value, validate=True)
    except (binascii.Error, TypeError, ValueError):
        return value
    if not data or len(data) > _MOST_BYTES or abs(scale) > _MOST_SCALE:
        return value
    unscaled = int.from_bytes(data, "big", signed=True)
    if scale <= 0:
        return str(unscaled * 10**-scale)
    sign, digits = "-" * (unscaled < 0), str(abs(unscaled)).rjust(scale + 1, "0")
    return f"{sign}{digits[:-scale]}.{digits[-scale:]}"


def _epoch(number: int, what: str, unit: int) -> str:
    if what == "date":
        return str(datetime.date.fromordinal(number + 719_163)) if _DAYS[0] <= number <= _DAYS[1] else str(number)
    seconds, rest = divmod(number, unit)
    days, second = divmod(seconds, 86_400)
    if not (_DAYS[0] <= days <= _DAYS[1]) or (what == "time" and days):
        return str(number)
    digits = len(str(unit)) - 1
    fraction = f".{rest:0{digits}d}".rstrip("0").rstrip(".")
    moment = _EPOCH + datetime.timedelta(days, second)
    text = moment.isoformat() if what == "timestamp" else moment.time().isoformat()
    return text + fraction

"""Reads MongoDB's Extended JSON (legacy, canonical and relaxed) as the JSON that columns are made of.

https://www.mongodb.com/docs/manual/reference/mongodb-extended-json/
"""

from __future__ import annotations

import base64
import binascii
import re
import uuid
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from calve.event.exact_json import Number, dump

__all__ = ["plain"]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?").fullmatch
_FRACTION_END = re.compile(r"(\.[0-9]*?)0*Z\Z").sub
"""The end of a fraction of a second, which is written without zeros, as other sources write it."""
_UUIDS = (3, 4)
"""The subtypes of binary values that are UUIDs."""


def plain(value: Any) -> Any:
    """Return a value of Extended JSON as plain JSON (of `parse_object`).

    ObjectIds, decimals (all digits) and symbols are texts, integers and doubles numbers, dates ISO 8601 in UTC, UUIDs
    their text, other binary values Base64. What has no such form, a regular expression or code, stays as JSON text.
    """
    if type(value) is list:
        return [plain(item) for item in value]
    if type(value) is not dict:
        return value
    names = list(value)
    if names and names[0] in _READERS and all(name.startswith("$") for name in names):
        read = _READERS[names[0]](value)
        return dump(value) if read is None else read
    if names and all(name in _TEXTS for name in names):
        return dump(value)
    return {name: plain(item) for name, item in value.items()}


def _text(name: str) -> Callable[[dict[str, Any]], Any]:
    return lambda value: value[name] if type(value[name]) is str else None


def _number(name: str) -> Callable[[dict[str, Any]], Any]:
    """Read a number; NaN and infinities, which JSON lacks, are texts."""
    return lambda value: Number(value[name]) if _NUMBER(str(value[name])) else _text(name)(value)


def _date(value: dict[str, Any]) -> str | None:
    moment = plain(value["$date"])
    if type(moment) is Number:
        try:
            moment = (_EPOCH + timedelta(milliseconds=int(moment))).isoformat().replace("+00:00", "Z")
        except (ValueError, OverflowError):
            return None
    return _FRACTION_END(r"\1Z", moment).replace(".Z", "Z") if type(moment) is str else None


def _binary(value: dict[str, Any]) -> str | None:
    content: Any = value.get("$binary")
    subtype = value.get("$type")
    if type(content) is dict:
        content, subtype = content.get("base64"), content.get("subType")
    try:
        data = base64.b64decode(content, validate=True)
        is_uuid = int(str(subtype), 16) in _UUIDS and len(data) == 16
    except (TypeError, ValueError, binascii.Error):
        return None
    return str(uuid.UUID(bytes=data)) if is_uuid else str(content)


def _parts(value: dict[str, Any]) -> Any:
    return plain(value["$timestamp"])


_READERS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "$oid": _text("$oid"),
    "$symbol": _text("$symbol"),
    "$uuid": _text("$uuid"),
    "$numberDecimal": _text("$numberDecimal"),
    "$numberInt": _number("$numberInt"),
    "$numberLong": _number("$numberLong"),
    "$numberDouble": _number("$numberDouble"),
    "$date": _date,
    "$binary": _binary,
    "$type": _binary,
    "$timestamp": _parts,
    "$undefined": lambda value: None,
}
_TEXTS = frozenset({"$regex", "$options", "$regularExpression", "$code", "$scope", "$dbPointer", "$minKey", "$maxKey"})
"""The keys of values that stay JSON text."""

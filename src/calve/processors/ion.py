"""Reads an Amazon Ion struct as entries of an event."""

from __future__ import annotations

import math
from base64 import b64encode
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from amazon.ion.core import IonType, TimestampPrecision
from amazon.ion.exceptions import IonException
from amazon.ion.simple_types import IonPyNull, IonPySymbol
from amazon.ion.simpleion import loads

from calve.processors.fields import Event, number

__all__ = ["InvalidIonError", "ion_entries"]


class InvalidIonError(ValueError):
    """A text is no Ion struct."""


def ion_entries(text: str) -> Event:
    """Return the fields of an Ion struct; its annotations are left out.

    Raises:
        InvalidIonError: It is no struct, or has a symbol without text.
    """
    try:
        struct = loads(text)
    except (IonException, ValueError, RecursionError) as error:
        raise InvalidIonError(str(error).strip() or "it cannot be read") from None
    if not isinstance(struct, Mapping):
        raise InvalidIonError("it is another value")
    return {name: _json_value(value) for name, value in struct.items()}


def _json_value(value: Any) -> Any:
    """Return an Ion value as a value of an event; numbers keep their digits."""
    if isinstance(value, IonPyNull):
        return None
    if isinstance(value, Mapping):
        return {name: _json_value(item) for name, item in value.items()}
    if isinstance(value, IonPySymbol):
        if value.text is None:
            raise InvalidIonError("it has a symbol without text")
        return str(value.text)
    if isinstance(value, bytes):
        return b64encode(value).decode()
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_json_value(item) for item in value]
    if isinstance(value, Decimal):
        return number(str(Decimal(value)))
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else str(float(value))
    if isinstance(value, datetime):
        return _time_text(value)
    if isinstance(value, int):
        return bool(value) if getattr(value, "ion_type", None) == IonType.BOOL else int(value)
    return str(value)


def _time_text(time: Any) -> str:
    """Return a timestamp with its precision, in UTC if it has a time; digits of seconds are not cut."""
    precision = time.precision
    fraction = format(time.fractional_seconds, "f")[1:] if time.fractional_precision else ""
    if precision is not None and precision <= TimestampPrecision.DAY:
        return (
            f"{time.year:04}T",
            f"{time.year:04}-{time.month:02}T",
            f"{time.year:04}-{time.month:02}-{time.day:02}",
        )[precision]
    parts = (time.year, time.month, time.day, time.hour, time.minute, time.second)
    try:
        utc = datetime(*parts, tzinfo=time.tzinfo or UTC).astimezone(UTC)
    except OverflowError:
        raise InvalidIonError("it has a time before the year 1 or after 9999") from None
    minutes = f"{utc.year:04}-{utc:%m-%dT%H:%M}"
    return f"{minutes}Z" if precision == TimestampPrecision.MINUTE else f"{minutes}:{utc:%S}{fraction}Z"

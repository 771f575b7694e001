"""Defaults of columns (format version 3): a value from its text, and schemas without defaults."""

from __future__ import annotations

import base64
import math
from collections.abc import Collection
from decimal import Context, Decimal
from typing import Any

from pyiceberg import types as iceberg
from pyiceberg.expressions.literals import literal

__all__ = ["DEFAULTS_SINCE", "INITIAL", "default_value", "without_defaults"]

DEFAULTS_SINCE = 3
"""The format version that has defaults."""

INITIAL = "initial-default"
_EXACT = Context(prec=38)
"""The digits of Iceberg's decimals; Python's own context has 28."""
_BITS: dict[iceberg.IcebergType, int] = {iceberg.IntegerType(): 31, iceberg.LongType(): 63}


def default_value(kind: iceberg.IcebergType, text: str) -> Any:
    """Return a default as PyIceberg's fields have it; binary values are Base64, as in events.

    Raises:
        ValueError: The text is no value of the type, or the type has no defaults.
    """
    try:
        value = _value(kind, text)
    except (ValueError, TypeError, ArithmeticError) as error:
        raise ValueError(f"{text!r} cannot be the default of a {kind}") from error
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError("Iceberg's JSON has no such number")
    return value


def _value(kind: iceberg.IcebergType, text: str) -> Any:
    if kind in _BITS:
        number = int(text)
        if not -1 << _BITS[kind] <= number < 1 << _BITS[kind]:
            raise ValueError("too large")
        return number
    if isinstance(kind, iceberg.BinaryType | iceberg.FixedType):
        data = base64.b64decode(text, validate=True)
        if isinstance(kind, iceberg.FixedType) and len(data) != len(kind):
            raise ValueError("another length")
        return data
    if isinstance(kind, iceberg.DecimalType):
        exact = Decimal(text).quantize(Decimal(1).scaleb(-kind.scale), context=_EXACT)
        text = str(exact) if exact == Decimal(text) else text
    if isinstance(kind, iceberg.TimestamptzType) and text.endswith(("Z", "z")):
        text = f"{text[:-1]}+00:00"
    return literal(text).to(kind).value


def without_defaults(kind: Any, kept: Collection[str] = ()) -> Any:
    """Return a type, or fields, of a schema in JSON without defaults, at any depth, but those of some kinds."""
    if isinstance(kind, list):
        return [without_defaults(part, kept) for part in kind]
    if isinstance(kind, dict):
        dropped = {INITIAL, "write-default"}.difference(kept)
        return {key: without_defaults(part, kept) for key, part in kind.items() if key not in dropped}
    return kind

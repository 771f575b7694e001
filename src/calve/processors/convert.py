"""The processor that converts the type of values."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import ROUND_HALF_EVEN, Context, Decimal, DecimalException
from functools import partial
from typing import Any, Literal

import msgspec

from calve.event.exact_json import Number
from calve.processors.coercion import CoerceStrings
from calve.processors.expressions import Compiler, condition
from calve.processors.fields import MISSING, Event, FieldKey, encode, json_of, keys, number, opened
from calve.processors.step import ChangeStep, ProcessorError, ProcessorStep, change_each
from calve.settings.option import option

__all__ = ["ConvertType", "Kind", "converted"]

Kind = Literal["integer", "long", "double", "big_decimal", "string", "boolean"]
_INTEGER = re.compile(r"[+-]?[0-9]+")
_DECIMAL = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,3})?")
_BITS = {"integer": 32, "long": 64}
_MEMO, _MEMO_BYTES = 4096, 64
"""The most results that a conversion remembers, and the longest text."""
_EXACT = Context(prec=10_000, Emax=10_000, Emin=-10_000)


_NO_COERCION: CoerceStrings | None = None


@dataclass(frozen=True)
class ConvertType:
    """Converts values to another type."""

    key: str | None = option(None, "The key of the value.")
    keys: list[str] = option([], "The keys of several values, instead of `key`.")
    type: Kind = option(
        "integer", "The new type. `integer` has 32 bits, `long` has 64; a `big_decimal` keeps all digits."
    )
    null_values: list[str] = option(
        [], "Texts that stand for null: an entry with one of them is deleted.", aliases=("null_conversion_values",)
    )
    scale: int = option(0, "The digits of a `big_decimal` after the point, rounded half to even; 0 keeps them all.")
    tags_on_failure: list[str] = option(
        [], "Tags of events whose value cannot be converted; they continue. Without tags they become dead letters."
    )
    iterate_on: str | None = option(None, "The key of a list of objects whose values are converted, not the event's.")
    coerce_strings: CoerceStrings | None = option(
        _NO_COERCION, "Convert all strings of the event that look like another type, before `key` and `keys`."
    )
    convert_when: str | None = option(
        None, "A condition; the processor changes only events for which it is true.", check=condition
    )

    @property
    def tags(self) -> list[str]:
        """Tags that it may set."""
        return self.tags_on_failure

    def check(self) -> Iterator[tuple[str, str]]:
        """Require one of the two kinds of keys."""
        if (self.key is None) == (not self.keys) and (self.key is not None or self.coerce_strings is None):
            yield "key", "exactly one of key and keys must be set"

    def steps(self, compiler: Compiler) -> list[ProcessorStep]:
        """Build one step for each key."""
        when = compiler.condition(self.convert_when)
        chosen = keys(self.keys) if self.key is None else [FieldKey.checked(self.key)]
        coercion = [] if self.coerce_strings is None else [self.coerce_strings.step(compiler, self.convert_when)]
        convert = partial(converted, kind=self.type, scale=self.scale)
        is_for_core = self.type != "big_decimal" and not self.null_values and self.iterate_on is None
        iterated = None if self.iterate_on is None else FieldKey.checked(self.iterate_on)
        conversions = [
            ChangeStep(
                _conversion(key, convert, frozenset(self.null_values), iterated),
                when,
                tuple(self.tags_on_failure),
                ("convert", key, self.type) if is_for_core else (),
            )
            for key in chosen
        ]
        return [*coercion, *conversions]


def _conversion(
    key: FieldKey, convert: Callable[[Any], Any], nulls: frozenset[str], iterated: FieldKey | None
) -> Callable[[Event], bool]:
    """Return a function that converts a value of an event; of a top-level one it remembers results by JSON text."""
    name, converted_texts = key.flat, dict[bytes, Any]()
    if iterated is not None:
        return lambda event: change_each(event, iterated, partial(_convert, key, convert, nulls))
    if name is None:
        return partial(_convert, key, convert, nulls)

    def run(event: Event) -> bool:
        before = event.get(name)
        if type(before) is not msgspec.Raw:
            return _convert(key, convert, nulls, event)
        text = bytes(before)
        if text in converted_texts:
            event[name] = converted_texts[text]
            return True
        is_changed = _convert(key, convert, nulls, event)
        if is_changed and name in event and len(text) < _MEMO_BYTES:
            if len(converted_texts) >= _MEMO:
                converted_texts.clear()
            converted_texts[text] = msgspec.Raw(encode(event[name]))
        return is_changed

    return run


def _convert(key: FieldKey, convert: Callable[[Any], Any], nulls: frozenset[str], event: Event) -> bool:
    before = key.get(event)
    if before is MISSING:
        return False
    value = opened(before)
    if value is None:
        return False
    if nulls and (value if isinstance(value, str) else json_of(value)) in nulls:
        key.pop(event)
        return True
    try:
        after = [convert(opened(item)) for item in value] if type(value) is list else convert(value)
    except ValueError as error:
        raise ProcessorError(str(error), key.dotted) from None
    return key.put(event, after)


def converted(value: Any, kind: Kind, scale: int = 0) -> Any:
    """Return a value as another type, ready to be put into an event.

    Args:
        value: A value one level open.
        kind: The type.
        scale: As in `ConvertType`.

    Raises:
        ValueError: It cannot be converted.
    """
    if type(value) is dict or type(value) is list or value is None:
        kind_of_value = "null" if value is None else "an object" if type(value) is dict else "an array"
        raise ValueError(f"{kind_of_value} cannot be converted to {kind}")
    match kind:
        case "string":
            return str(value) if isinstance(value, str) else json_of(value)
        case "boolean":
            return _boolean(value)
        case "integer" | "long":
            return _whole(value, kind)
        case "double":
            return _double(value)
        case "big_decimal":
            return _decimal(value, scale)


def _boolean(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    return _exact(value) != 0 if type(value) is Number else value.lower() == "true"


def _whole(value: Any, kind: str) -> int:
    if isinstance(value, bool):
        return int(value)
    if type(value) is Number:
        exact = _exact(value)
        integer = int(exact) if exact.adjusted() < 40 else 1 << 99
    elif _INTEGER.fullmatch(value) and len(value) < 40:
        integer = int(value)
    else:
        raise ValueError(f"{value!r} is not a whole number")
    bits = _BITS[kind]
    if not -(1 << bits - 1) <= integer < 1 << bits - 1:
        raise ValueError(f"{value} has more than the {bits} bits of {kind}")
    return integer


def _double(value: Any) -> msgspec.Raw:
    if isinstance(value, bool):
        return number("1.0" if value else "0.0")
    text = str(value).strip()
    if type(value) is not Number and not _DECIMAL.fullmatch(text):
        raise ValueError(f"{value!r} is not a number")
    double = float(text)
    if double in (float("inf"), float("-inf")):
        raise ValueError(f"{value} is too large for a double")
    return number(repr(double))


def _decimal(value: Any, scale: int) -> msgspec.Raw:
    if isinstance(value, bool):
        return number("1" if value else "0")
    text = str(value)
    if type(value) is not Number and not _DECIMAL.fullmatch(text):
        raise ValueError(f"{value!r} is not a number")
    exact = _exact(text)
    if scale:
        try:
            exact = exact.quantize(Decimal(1).scaleb(-scale), ROUND_HALF_EVEN, _EXACT)
        except DecimalException:
            raise ValueError(f"{value} has too many digits for the scale {scale}") from None
    return number(format(exact, "f") if exact.adjusted() > -400 and exact.adjusted() < 400 else str(exact))


def _exact(text: str) -> Decimal:
    try:
        return Decimal(text)
    except DecimalException:
        raise ValueError(f"{text} has too large an exponent") from None

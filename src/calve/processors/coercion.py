"""Converts all strings of an event that look like a boolean, a number or a time."""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec

from calve.convert.date_formats import date_format
from calve.errors import SettingsError
from calve.processors.expressions import Compiler
from calve.processors.fields import Event, number, opened
from calve.processors.step import ChangeStep
from calve.settings.option import option

__all__ = ["CoerceStrings"]

Reader = Callable[[str], int | None]
_FORMATS = ["MMM d HH:mm:ss", "yyyy-MM-dd'T'HH:mm:ss.SSSXXX", "yyyy-MM-dd'T'HH:mm:ss.SSSSSSX", "dd/MMM/yyyy:HH:mm:ss Z"]
_NUMBER = re.compile(r"([+-]?)0*([0-9]+)(\.[0-9]+)?([eE][+-]?[0-9]{1,3})?")
_LONG = 1 << 63


@dataclass(frozen=True)
class CoerceStrings:
    """Which strings are converted: `true` and `false`, numbers, and times to milliseconds since 1970."""

    time_formats: list[str] = option(_FORMATS, "The date patterns of times that have a colon; without an offset UTC.")

    def check(self) -> Iterator[tuple[str, str]]:
        """Require valid patterns."""
        for index, pattern in enumerate(self.time_formats):
            try:
                date_format(pattern, datetime.UTC, datetime.date.today())
            except SettingsError as error:
                yield f"time_formats[{index}]", str(error)

    def step(self, compiler: Compiler, when: str | None) -> ChangeStep:
        """Build the step."""
        today = datetime.datetime.fromtimestamp(compiler.begun_tenths / 10, datetime.UTC).date()
        readers = [date_format(pattern, datetime.UTC, today) for pattern in self.time_formats]
        return ChangeStep(partial(_coerce, readers), compiler.condition(when))


def _coerce(readers: Sequence[Reader], event: Event) -> bool:
    changed = {name: after for name, value in event.items() if (after := _coerced(readers, value)) is not value}
    event.update(changed)
    return bool(changed)


def _coerced(readers: Sequence[Reader], value: Any) -> Any:
    """Return a value with its strings converted; the same object, if there is none to convert."""
    inside = opened(value) if type(value) is msgspec.Raw and bytes(value)[:1] in b'"{[' else value
    if type(inside) is str:
        after = _value_of(readers, inside)
        return value if after is None else after
    if type(inside) is dict:
        return inside if _coerce(readers, inside) else value
    if type(inside) is list:
        items = [_coerced(readers, item) for item in inside]
        return items if any(after is not item for after, item in zip(items, inside, strict=True)) else value
    return value


def _value_of(readers: Sequence[Reader], text: str) -> Any:
    """Return what a text stands for; None: a text."""
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    if ":" in text:
        times = (read(text) for read in readers)
        return next((time // 1_000_000 for time in times if time is not None), None)
    match = _NUMBER.fullmatch(text) if len(text) < 400 else None
    if match is None:
        return None
    sign, digits, fraction, exponent = match.groups()
    if fraction is None and exponent is None and not -_LONG <= int(f"{sign}{digits}") < _LONG:
        return None
    return number(f"{sign.strip('+')}{digits}{fraction or ''}{exponent or ''}")

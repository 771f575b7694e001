"""The processor that takes a string apart at fixed delimiters."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

from calve.errors import SettingsError
from calve.processors.convert import Kind, converted
from calve.processors.expressions import Compiler, condition
from calve.processors.fields import MISSING, Event, FieldKey, key_of, opened
from calve.processors.step import ChangeStep, ProcessorError, ProcessorStep
from calve.settings.option import option

__all__ = ["Dissect"]

_FIELD = re.compile(r"%\{([^}]*)\}")
_SPACES = "".join(sign for sign in map(chr, range(0x3001)) if sign.isspace() and sign not in "\x85\xa0\u2007\u202f")
"""White space of Java."""
_RUN = " \t\n\x0b\f\r"
_NAME = re.compile(r"([?+&]?)([^?+&/>]*?)(?:/(\d+))?(->)?")


@dataclass(frozen=True)
class _Field:
    """A field of a pattern, and the text behind it; `sign`: how its value is used."""

    sign: str
    name: str
    order: int
    is_padded: bool
    until: str


@dataclass(frozen=True)
class Dissect:
    """Takes strings apart at fixed delimiters: `%{date} %{time} %{level}: %{text}`."""

    makes_fields: ClassVar[bool] = True

    map: dict[str, str] = option(
        doc="By the key of a string its pattern. `%{a}` is a field, `%{}` and `%{?a}` are left out, `%{+a}` appends to "
        "a field (`%{+a/2}` as the second part), `%{&a}` has the value of `%{?a}` as its key, `%{a->}` ignores spaces "
        "at its end.",
        minimum=1,
    )
    target_types: dict[str, Kind] = option({}, "The types of fields; others are strings.")
    delete_source: bool = option(False, "Delete the string after it was taken apart.")
    dissect_when: str | None = option(
        None, "A condition; only events for which it is true are changed.", check=condition
    )

    def check(self) -> Iterator[tuple[str, str]]:
        """Require valid patterns."""
        for key, text in self.map.items():
            try:
                FieldKey.checked(key)
                _fields(text)
            except SettingsError as error:
                yield f"map.{key}", str(error)

    def steps(self, compiler: Compiler) -> list[ProcessorStep]:
        """Build one step for each string."""
        when = compiler.condition(self.dissect_when)
        return [
            ChangeStep(partial(self._dissect, FieldKey(key), *_fields(text)), when) for key, text in self.map.items()
        ]

    def _dissect(self, source: FieldKey, start: str, fields: list[_Field], event: Event) -> bool:
        text = opened(source.get(event))
        if text is MISSING or text is None:
            return False
        values = _values(text, start, fields) if type(text) is str else None
        if values is None:
            return False  # as in Data Prepper: a string that does not match stays
        if self.delete_source:
            source.pop(event)
        for name, value in _named(fields, values).items():
            key_of(name).put(event, self._typed(name, value))
        return True

    def _typed(self, name: str, value: str) -> Any:
        kind = self.target_types.get(name)
        try:
            return value if kind is None else converted(value, kind)
        except ValueError as error:
            raise ProcessorError(str(error), name) from None


def _fields(text: str) -> tuple[str, list[_Field]]:
    """Read a pattern: the text before its first field, and the fields.

    Raises:
        SettingsError: It has no field, or two without a text between them.
    """
    pieces = _FIELD.split(text)
    fields = []
    for inside, until in zip(pieces[1::2], pieces[2::2], strict=True):
        match = _NAME.fullmatch(inside)
        if match is None:
            raise SettingsError(f"%{{{inside}}} is not a field", step="settings", hint="Write %{name}")
        sign, name, order, padded = match.groups()
        fields.append(_Field(sign or ("" if name else "?"), name, int(order or 0), bool(padded), until))
    if not fields:
        raise SettingsError("a pattern needs at least one field", step="settings", hint="Write %{name}")
    if any(not field.until for field in fields[:-1]):
        raise SettingsError("two fields need a text between them", step="settings", hint="Write %{a} %{b}")
    return pieces[0], fields


def _values(text: str, start: str, fields: list[_Field]) -> list[str] | None:
    """Return the value of each field; None if the text does not match."""
    if not text.startswith(start):
        return None
    at, values = len(start), []
    for field in fields:
        end = text.find(field.until, at) if field.until else len(text)
        if end < 0:
            return None
        if field.until and not field.until.strip(_SPACES):  # of more spaces than that the last ones
            run = len(text) - end - len(text[end:].lstrip(_RUN))
            end += max(run - len(field.until), 0)
        values.append(text[at:end].rstrip(_SPACES) if field.is_padded else text[at:end])
        at = end + len(field.until)
    return values if at == len(text) else None


def _named(fields: list[_Field], values: list[str]) -> dict[str, str]:
    named: dict[str, str] = {}
    parts: dict[str, list[tuple[int, int, str]]] = {}
    keys = {field.name: value for field, value in zip(fields, values, strict=True) if field.sign != "&"}
    for number, (field, value) in enumerate(zip(fields, values, strict=True)):
        match field.sign:
            case "":
                named[field.name] = value
            case "+":
                parts.setdefault(field.name, []).append((field.order, number, value))
            case "&" if keys.get(field.name):
                named[keys[field.name]] = value
    for name, pieces in parts.items():
        named[name] = named.get(name, "") + "".join(value for _, _, value in sorted(pieces))
    return named

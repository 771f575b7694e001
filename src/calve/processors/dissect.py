"""The processor that takes a string apart at fixed delimiters."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from calve.errors import SettingsError
from calve.processors.convert import Kind, converted
from calve.processors.expressions import Compiler, condition
from calve.processors.fields import MISSING, Event, Key, key_of, opened
from calve.processors.step import Change, EventError, Step
from calve.settings.option import option

__all__ = ["Dissect"]

_FIELD = re.compile(r"%\{([^}]*)\}")
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

    map: dict[str, str] = option(
        doc="By the key of a string its pattern. `%{a}` is a field, `%{}` and `%{?a}` are left out, `%{+a}` appends to "
        "a field (`%{+a/2}` as the second part), `%{&a}` has the value of `%{?a}` as its key, `%{a->}` ignores spaces "
        "behind it.",
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
                Key.checked(key)
                _fields(text)
            except SettingsError as error:
                yield f"map.{key}", str(error)

    def steps(self, compiler: Compiler) -> list[Step]:
        """Build one step for each string."""
        when = compiler.condition(self.dissect_when)
        return [Change(partial(self._dissect, Key(key), *_fields(text)), when) for key, text in self.map.items()]

    def _dissect(self, source: Key, start: str, fields: list[_Field], event: Event) -> bool:
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
            raise EventError(str(error), name) from None


def _fields(text: str) -> tuple[str, list[_Field]]:
    """Read a pattern: the text before its first field, and the fields.

    Raises:
        SettingsError: It has no field, or two without a text between them.
    """
    pieces = _FIELD.split(text)
    fields = []
    for inside, until in zip(pieces[1::2], pieces[2::2], strict=True):
        found = _NAME.fullmatch(inside)
        if found is None:
            raise SettingsError(f"%{{{inside}}} is not a field", step="settings", hint="Write %{name}")
        sign, name, order, padded = found.groups()
        fields.append(_Field(sign or ("" if name else "?"), name, int(order or 0), bool(padded), until))
    if not fields:
        raise SettingsError("a pattern needs at least one field", step="settings", hint="Write %{name}")
    if any(not one.until for one in fields[:-1]):
        raise SettingsError("two fields need a text between them", step="settings", hint="Write %{a} %{b}")
    return pieces[0], fields


def _values(text: str, start: str, fields: list[_Field]) -> list[str] | None:
    """Return the value of each field; None if the text does not match."""
    if not text.startswith(start):
        return None
    at, values = len(start), []
    for one in fields:
        end = text.find(one.until, at) if one.until else len(text)
        if end < 0:
            return None
        values.append(text[at:end])
        at = end + len(one.until)
        while one.is_padded and one.until and text.startswith(one.until, at):
            at += len(one.until)
    return values if at == len(text) else None


def _named(fields: list[_Field], values: list[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    parts: dict[str, list[tuple[int, int, str]]] = {}
    keys = {one.name: value for one, value in zip(fields, values, strict=True) if one.sign != "&"}
    for number, (one, value) in enumerate(zip(fields, values, strict=True)):
        match one.sign:
            case "":
                found[one.name] = value
            case "+":
                parts.setdefault(one.name, []).append((one.order, number, value))
            case "&" if keys.get(one.name):
                found[keys[one.name]] = value
    for name, pieces in parts.items():
        found[name] = found.get(name, "") + "".join(value for _, _, value in sorted(pieces))
    return found

"""Reads dates and times by Java's date patterns, e.g. `dd/MMM/yyyy:HH:mm:ss Z`; nothing is rounded.

A text is read as by Java's `DateTimeFormatter` (SMART, English names), with three exceptions: names are read in any
case; a day that its month lacks matches nothing (Java takes the month's last day); an abbreviated zone such as `EDT` is
its own offset on every day. Parts that contradict each other, such as a wrong weekday, match nothing.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Iterable
from functools import lru_cache, partial
from typing import Any, NamedTuple

from calve.convert.date_fields import FIELDS, Fields, nanoseconds
from calve.convert.time_zones import named_zone, offset_seconds, zone_regex
from calve.errors import SettingsError
from calve.expression.date_patterns import PatternError, PatternPart, pattern_parts

__all__ = ["date_format"]

_MONTHS = ("January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
           "December")  # fmt: skip
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_HINT = "Allowed: y u M L d D E a H k h K m s S, X x Z for the offset, z VV for the zone, [optional] and 'text'"
_MOST_DIGITS = 19
"""Of a number without a width."""


class _Part(NamedTuple):
    """A field of a text: its regular expression, how it becomes a value, and of a number the least and most digits."""

    field: str
    regex: str
    read: Callable[[str], Any] = int
    least: int = 0
    most: int = 0


def _number(field: str, least: int, most: int = _MOST_DIGITS) -> _Part:
    return _Part(field, f"[0-9]{{{least},{most}}}+", int, least, most)


def _words(field: str, names: Iterable[str], start: int) -> _Part:
    numbers = {name.lower(): number for number, name in enumerate(names, start)}
    return _Part(field, f"(?>{'|'.join(numbers)})", lambda text: numbers[text.lower()])


def _offset(regex: str) -> _Part:
    return _Part("offset", f"(?>{regex})", offset_seconds)


def _letters() -> dict[str, _Part]:
    parts = {
        **{letter * count: _number("year", count) for letter in "yu" for count in (1, 3, 4)},
        **dict.fromkeys(("yy", "uu"), _Part("year", "[0-9]{2}", lambda text: 2000 + int(text), 2, 2)),
        **{letter * 3: _words("month", (name[:3] for name in _MONTHS), 1) for letter in "ML"},
        **{letter * 4: _words("month", _MONTHS, 1) for letter in "ML"},
        **{"E" * count: _words("weekday", (name[:3] for name in _DAYS), 0) for count in (1, 2, 3)},
        "EEEE": _words("weekday", _DAYS, 0),
        "a": _words("half", ("AM", "PM"), 0),
        **{"D" * count: _number("day_of_year", count, 3 if count > 1 else _MOST_DIGITS) for count in (1, 2, 3)},
        **{"S" * count: _Part("nano", f"[0-9]{{{count}}}", _nanos, count, count) for count in range(1, 10)},
    }
    for letter, field in FIELDS.items():
        parts |= {letter: _number(field, 1), letter * 2: _number(field, 2, 2)}
    hours, sixty = "[+-][0-9]{2}", "[0-5][0-9]"
    forms = [
        (r"\+00", f"{hours}(?:{sixty})?"), (r"\+0000", f"{hours}{sixty}"), (r"\+00:00", f"{hours}:{sixty}"),
        (r"\+0000", f"{hours}{sixty}(?:{sixty})?"), (r"\+00:00", f"{hours}:{sixty}(?::{sixty})?"),
    ]  # fmt: skip
    for count, (zero, form) in enumerate(forms, 1):
        parts |= {"X" * count: _offset(f"Z|{form}"), "x" * count: _offset(f"{zero}|{form}")}
    parts |= {"Z" * count: _offset(forms[1][1]) for count in (1, 2, 3)}
    return parts | {"ZZZZZ": parts["XXXXX"]}


def _nanos(digits: str) -> int:
    return int(digits.ljust(9, "0"))


_LETTERS = _letters()
_ZONES = {"VV": False, "z": True, "zz": True, "zzz": True}
"""The letters of zones, and whether these may be abbreviated."""


@lru_cache(256)
def date_format(
    pattern: str, zone: datetime.tzinfo = datetime.UTC, today: datetime.date | None = None
) -> Callable[[str], int | None]:
    """Compile a pattern to a function from text to nanoseconds since the epoch, or None.

    Args:
        pattern: The pattern; years of two digits are 2000 to 2099.
        zone: The zone of texts without an offset or a zone.
        today: The year, month and day of texts whose pattern has none; None: the pattern must have all three.

    Raises:
        SettingsError: The pattern cannot be read, or the date or the half of the day is missing in it.
    """
    parts = [_part(pattern, part) for part in _parts(pattern)]
    groups = [part for part in parts if isinstance(part, _Part)]
    _check(pattern, {part.field for part in groups}, is_date_needed=today is None)
    regex = re.compile(_regex(parts), re.IGNORECASE)
    resolve = partial(nanoseconds, zone=zone, today=today, has_year=any(part.field == "year" for part in groups))

    def read(text: str) -> int | None:
        match = regex.fullmatch(text)
        if match is None:
            return None
        fields: Fields = {}
        try:
            for (field, _, read_part, _, _), value in zip(groups, match.groups(), strict=True):
                if value is not None and fields.setdefault(field, number := read_part(value)) != number:
                    return None
            return resolve(fields)
        except (ValueError, OverflowError):
            return None

    return read


def _parts(pattern: str) -> list[PatternPart]:
    try:
        parts, depth = pattern_parts(pattern), 0
        for part in parts:
            depth += {"[": 1, "]": -1}[part.text] if part.is_bracket else 0
            if depth < 0:
                raise PatternError("]")
    except PatternError as error:
        raise _unreadable(pattern, str(error)) from None
    return parts


def _part(pattern: str, part: PatternPart) -> _Part | PatternPart:
    if not part.is_letters:
        return part
    if part.text in _ZONES:
        return _Part("zone", zone_regex(_ZONES[part.text]), named_zone)
    if part.text not in _LETTERS:
        raise _unreadable(pattern, part.text)
    return _LETTERS[part.text]


def _unreadable(pattern: str, bad: str) -> SettingsError:
    return SettingsError(f"The date pattern {pattern!r} cannot be read: {bad!r} is unknown", hint=_HINT)


def _check(pattern: str, fields: set[str], is_date_needed: bool) -> None:
    """Refuse a pattern whose texts are never a time."""
    if is_date_needed and not ("year" in fields and ("day_of_year" in fields or {"month", "day"} <= fields)):
        raise SettingsError(f"The date pattern {pattern!r} needs a year, a month and a day")
    if fields & {"hour_to_12", "hour_of_half"} and "half" not in fields and not fields & {"hour", "hour_to_24"}:
        hint = "Write HH (or H) for hours from 0 to 23, or add a for AM and PM"
        raise SettingsError(f"The date pattern {pattern!r} has hours of half a day, and not which half", hint=hint)


def _regex(parts: list[_Part | PatternPart]) -> str:
    """Return the regular expression of a whole text, with a group for each part of the time.

    As in Java, a number takes all digits, but leaves those of numbers with a fixed width that follow directly.
    """
    pieces = []
    for index, part in enumerate(parts):
        if isinstance(part, _Part):
            pieces.append(f"({part.regex if not part.most else _digits(part, parts[index + 1 :])})")
        elif part.is_bracket:
            pieces.append("(?>(?:" if part.text == "[" else ")?)")
        else:
            pieces.append(re.escape(part.text))
    opened = sum(part == "(?>(?:" for part in pieces) - sum(part == ")?)" for part in pieces)
    return "".join(pieces) + ")?)" * opened


def _digits(part: _Part, following: list[_Part | PatternPart]) -> str:
    if part.least == part.most:
        return part.regex
    following_digits = 0
    for next_part in following:
        if not isinstance(next_part, _Part) or not next_part.most:
            break
        if next_part.least < next_part.most:
            following_digits = 0
            break
        following_digits += next_part.most
    end = f"(?=[0-9]{{{following_digits}}}(?![0-9]))"
    if part.field == "year" and part.least == 4:  # more digits need a sign, and are years that no reader supports
        return f"[0-9]{{4}}{end}"
    return (
        f"(?>[0-9]{{{part.most}}}(?=[0-9]{{{following_digits}}})|[0-9]{{{part.least},{part.most}}}{end})"
        if following_digits
        else part.regex
    )

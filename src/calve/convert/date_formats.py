"""Reads dates and times by Java's date patterns, e.g. `dd/MMM/yyyy:HH:mm:ss Z`; nothing is rounded."""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from types import MappingProxyType

from calve.errors import SettingsError

__all__ = ["PIECES", "date_format", "date_regex", "nanoseconds"]

PIECES = re.compile(r"'((?:[^']|'')*)'|([A-Za-z])\2*|[^A-Za-z'\[\]{}#]")
_MONTHS = ("january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november",
           "december")  # fmt: skip
_SHORT_MONTHS = [name[:3] for name in _MONTHS]
_DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_OFFSET = r"(?P<offset>[Zz]|[+-][0-9]{2}(?::?[0-9]{2})?)"
_ONE, _TWO = "[0-9]{1,2}", "[0-9]{2}"


def _names(names: tuple[str, ...], length: int | None) -> str:
    return "|".join(name[:length] for name in names)


_LETTERS = {
    **dict.fromkeys(("yyyy", "uuuu", "y", "u"), "(?P<year>[0-9]{4})"),
    **dict.fromkeys(("yy", "uu"), f"(?P<short_year>{_TWO})"),
    **dict.fromkeys("ML", f"(?P<month>{_ONE})"),
    **{letter * 2: f"(?P<month>{_TWO})" for letter in "ML"},
    **{letter * 3: f"(?P<name>{_names(_MONTHS, 3)})" for letter in "ML"},
    **{letter * 4: f"(?P<name>{_names(_MONTHS, None)})" for letter in "ML"},
    **{"E" * count: f"(?:{_names(_DAYS, 3)})" for count in (1, 2, 3)},
    "EEEE": f"(?:{_names(_DAYS, None)})",
    "a": "(?P<half>am|pm)",
    **{"S" * count: f"(?P<fraction>[0-9]{{{count}}})" for count in range(1, 10)},
    **{letter * count: _OFFSET for letter in "XxZ" for count in (1, 2, 3, 5)},
}
for _letter, _name in {"d": "day", "H": "hour", "h": "hour_of_half", "m": "minute", "s": "second"}.items():
    _LETTERS |= {_letter: f"(?P<{_name}>{_ONE})", _letter * 2: f"(?P<{_name}>{_TWO})"}
_HINT = "Allowed: y u M L d E a H h m s S, X x Z for the offset, and 'text'"
_EPOCH = datetime.date(1970, 1, 1).toordinal()


@lru_cache(256)
def date_format(pattern: str) -> Callable[[str], int | None]:
    """Compile a pattern to a function from text to nanoseconds since the epoch, or None; without an offset in UTC.

    Names of days and months are English, in any case; years of two digits are 2000 to 2099.

    Raises:
        SettingsError: The pattern cannot be read, or has no year, month and day.
    """
    regex = date_regex(pattern)
    groups = set(regex.groupindex)
    if not ({"year", "short_year"} & groups and {"month", "name"} & groups and "day" in groups):
        raise SettingsError(f"The date pattern {pattern!r} needs a year, a month and a day")

    def read(text: str) -> int | None:
        found = regex.fullmatch(text)
        try:
            return None if found is None else nanoseconds(found.groupdict())
        except ValueError:
            return None

    return read


def date_regex(pattern: str, more: Mapping[str, str] = MappingProxyType({})) -> re.Pattern[str]:
    """Compile a pattern to a regular expression, whose groups `nanoseconds` reads.

    Args:
        pattern: The pattern.
        more: The regular expressions of further letters.

    Raises:
        SettingsError: The pattern cannot be read.
    """
    try:
        return re.compile(_regex(pattern, {**_LETTERS, **more}), re.IGNORECASE | re.ASCII)
    except re.error:
        raise SettingsError(f"The date pattern {pattern!r} has a duplicate part") from None


def _regex(pattern: str, letters: Mapping[str, str]) -> str:
    parts, at = [], 0
    while at < len(pattern):
        token = PIECES.match(pattern, at)
        if token is None or (token[2] and token[0] not in letters):
            bad = token[0] if token else pattern[at]
            raise SettingsError(f"The date pattern {pattern!r} cannot be read: {bad!r} is unknown", hint=_HINT)
        if token[1] is not None:
            parts.append(re.escape(token[1].replace("''", "'") or "'"))
        else:
            parts.append(letters[token[0]] if token[2] else re.escape(token[0]))
        at = token.end()
    return "".join(parts)


def nanoseconds(found: Mapping[str, str | None]) -> int:
    """Return the nanoseconds since the epoch, without an offset those in UTC, given the groups of a match.

    Raises:
        ValueError: There is no such day or time.
    """
    year = int(found.get("year") or 2000 + int(found.get("short_year") or 0))
    month = int(found.get("month") or 0) or 1 + _SHORT_MONTHS.index((found.get("name") or "")[:3].lower())
    days = datetime.date(year, month, int(found["day"] or 0)).toordinal() - _EPOCH
    hour = int(found.get("hour") or 0)
    if found.get("hour_of_half"):
        hour = int(found["hour_of_half"] or 0) % 12 + (12 if (found.get("half") or "").lower() == "pm" else 0)
    clock = datetime.time(hour, int(found.get("minute") or 0), int(found.get("second") or 0))
    seconds = days * 86_400 + clock.hour * 3600 + clock.minute * 60 + clock.second - _offset(found.get("offset"))
    return seconds * 10**9 + int((found.get("fraction") or "").ljust(9, "0"))


def _offset(text: str | None) -> int:
    if not text or text in "Zz":
        return 0
    seconds = int(text[1:3]) * 3600 + int(text[3:].lstrip(":") or 0) * 60
    if seconds > 18 * 3600:
        raise ValueError("no offset is so large")
    return -seconds if text[0] == "-" else seconds

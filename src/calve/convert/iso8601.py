"""Reads dates and times from ISO 8601 text as integers since the epoch; nothing is rounded."""

from __future__ import annotations

import datetime
import functools
import re

from calve.event.reject import cut

__all__ = ["DAYS_BEFORE_1970", "LAST_DAY", "MismatchError", "date", "local_timestamp", "time", "timestamp"]

_DAY = r"([0-9]{4})-([0-9]{2})-([0-9]{2})"
_CLOCK = r"([0-9]{2}):([0-9]{2})(?::([0-9]{2})(?:[.,]([0-9]+))?)?"
_ZONE = r" ?(?:([Zz])|([+-])([0-9]{2})(?::?([0-9]{2}))?)"
_STAMP = re.compile(f"{_DAY}(?:[Tt ]{_CLOCK}(?:{_ZONE})?)?").fullmatch
_TIME = re.compile(_CLOCK).fullmatch
_EPOCH = datetime.date(1970, 1, 1).toordinal()
DAYS_BEFORE_1970 = _EPOCH - datetime.date.min.toordinal()
"""The days since 1970 of the first day of year 1, the earliest that all readers support."""
LAST_DAY = datetime.date.max.toordinal() - _EPOCH
"""The days since 1970 of the last day of year 9999."""
_DAY_SECONDS = 86_400


class MismatchError(Exception):
    """A value does not fit its column; the message is a readable reason."""


def timestamp(text: str, unit: int) -> int:
    """Read a date-time as units (per second) since the epoch; without an offset in UTC. A date is its midnight.

    Raises:
        MismatchError: The text is not an ISO 8601 date-time, or finer than the unit.
    """
    match = _STAMP(text)
    if match is None:
        raise MismatchError(f"{cut(text)!r} is not an ISO 8601 date-time")
    year, month, day, hour, minute, second, fraction, _, sign, zone_hour, zone_minute = match.groups()
    seconds = _days(text, year, month, day) * _DAY_SECONDS
    if sign:
        seconds -= _offset(text, sign, zone_hour, zone_minute)
    if hour is None:
        return seconds * unit
    return seconds * unit + _clock(text, (hour, minute, second, fraction), unit)


def local_timestamp(text: str, unit: int) -> int:
    """Read a date-time that has no offset, as `timestamp` does.

    Raises:
        MismatchError: It has one, or as for `timestamp`.
    """
    number, match = timestamp(text, unit), _STAMP(text)
    if match and (match[8] or match[9]):
        why = "has an offset, which would be lost: the column was inferred from date-times without one"
        raise MismatchError(f"{cut(text)!r} {why}")
    return number


def date(text: str, unit: int = 1) -> int:
    """Read a date, or a date-time at midnight UTC, as days since the epoch.

    Raises:
        MismatchError: The text is not an ISO 8601 date, or another time of the day.
    """
    seconds = timestamp(text, 1_000_000_000)
    days, rest = divmod(seconds, _DAY_SECONDS * 1_000_000_000)
    if rest:
        raise MismatchError(f"{cut(text)!r} is not a date: the time of the day is not midnight")
    return days


def time(text: str, unit: int) -> int:
    """Read a time of the day as units (per second) since midnight.

    Raises:
        MismatchError: The text is not an ISO 8601 time, or finer than the unit.
    """
    match = _TIME(text)
    if match is None:
        raise MismatchError(f"{cut(text)!r} is not an ISO 8601 time")
    return _clock(text, match.groups(), unit)


def _days(text: str, year: str, month: str, day: str) -> int:
    try:
        return _ordinal(year, month, day) - _EPOCH
    except ValueError as error:
        raise MismatchError(f"{cut(text)!r} is not a date: {error}") from None


@functools.lru_cache(4096)
def _ordinal(year: str, month: str, day: str) -> int:
    return datetime.date(int(year), int(month), int(day)).toordinal()


def _clock(text: str, numbers: tuple[str | None, ...], unit: int) -> int:
    hour, minute, second, fraction = (int(numbers[0] or 0), int(numbers[1] or 0), int(numbers[2] or 0), numbers[3])
    if hour > 23 or minute > 59 or second > 59:
        raise MismatchError(f"{cut(text)!r} is not a time of day")
    seconds = hour * 3600 + minute * 60 + second
    if not fraction:
        return seconds * unit
    digits = len(str(unit)) - 1
    if fraction[digits:].strip("0"):
        raise MismatchError(f"{cut(text)!r} has more fraction digits than the column can hold")
    return seconds * unit + int(fraction[:digits].ljust(digits, "0"))


def _offset(text: str, sign: str, hour: str, minute: str | None) -> int:
    seconds = int(hour) * 3600 + int(minute or 0) * 60
    if seconds > 18 * 3600 or int(minute or 0) > 59:
        raise MismatchError(f"{cut(text)!r} has an invalid offset")
    return -seconds if sign == "-" else seconds

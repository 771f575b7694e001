"""Resolves the fields of a date and time as Java's `java.time` does, but for days that a month lacks."""

from __future__ import annotations

import datetime
from typing import Any

__all__ = ["FIELDS", "Fields", "nanoseconds"]

Fields = dict[str, Any]
"""By name: year, month, day, day_of_year, weekday (0: Monday), hour, hour_to_24 (1 to 24), hour_to_12 (1 to 12),
hour_of_half (0 to 11), half (1: PM), minute, second, nano, offset (seconds east), zone (tzinfo)."""
FIELDS = {
    "M": "month", "L": "month", "d": "day", "H": "hour", "k": "hour_to_24", "h": "hour_to_12", "K": "hour_of_half",
    "m": "minute", "s": "second",
}  # fmt: skip
"""The fields of numbers that a pattern has with one letter, or with two for a fixed width."""
_EPOCH = datetime.date(1970, 1, 1).toordinal()
_LAST_DAY = datetime.date.max.toordinal()
_DAY_SECONDS = 86_400


def nanoseconds(fields: Fields, zone: datetime.tzinfo, today: datetime.date | None, has_year: bool) -> int:
    """Return the nanoseconds since the epoch; a field without a value is 0.

    Args:
        fields: The fields that a text has.
        zone: The zone, if the fields have no zone and no offset.
        today: The month and day that are missing, and the year.
        has_year: Whether a missing year is an error.

    Raises:
        ValueError: There is no such time, or two fields contradict each other.
        OverflowError: The time is outside of the years 1 to 9999.
    """
    date = _date({**({} if has_year or not today else {"year": today.year}), **fields}, today)
    if fields.get("weekday", date.weekday()) != date.weekday():
        raise ValueError("another day of the week")
    hour = _hour(fields)
    minute, second, nano = fields.get("minute", 0), fields.get("second", 0), fields.get("nano", 0)
    is_midnight = hour == 24 and not (minute or second or nano)
    clock = datetime.time(0 if is_midnight else hour, minute, second)
    if fields.get("half", clock.hour // 12) != clock.hour // 12:
        raise ValueError("the other half of the day")
    local = datetime.datetime.combine(date, clock) + datetime.timedelta(days=is_midnight)
    offset = fields.get("offset")
    if offset is None:
        offset = _seconds(local.replace(tzinfo=fields.get("zone", zone)).utcoffset())
    seconds = (local.toordinal() - _EPOCH) * _DAY_SECONDS + clock.hour * 3600 + minute * 60 + second - offset
    if not 1 <= seconds // _DAY_SECONDS + _EPOCH <= _LAST_DAY:
        raise OverflowError
    return int(seconds * 10**9 + nano)


def _date(fields: Fields, today: datetime.date | None) -> datetime.date:
    year, number = fields.get("year"), fields.get("day_of_year")
    if year is None:
        raise ValueError("no year")
    if number is None:
        if today:
            fields = {"month": today.month, "day": today.day, **fields}
        return datetime.date(year, fields.get("month", 0), fields.get("day", 0))
    date = datetime.date(year, 1, 1) + datetime.timedelta(days=number - 1)
    if (date.year, fields.get("month", date.month), fields.get("day", date.day)) != (year, date.month, date.day):
        raise ValueError("another day of the year")
    return date


def _hour(fields: Fields) -> int:
    """Return the hour of the day, 0 to 24."""
    hours = {fields["hour"]} if "hour" in fields else set()
    if "hour_to_24" in fields:
        hours.add(_within(fields["hour_to_24"], 24) % 24)
    halves = {fields["hour_of_half"]} if "hour_of_half" in fields else set()
    if "hour_to_12" in fields:
        halves.add(_within(fields["hour_to_12"], 12) % 12)
    for hour in halves:
        _within(hour, 11)
        if "half" in fields:
            hours.add(fields["half"] * 12 + hour)
    if len(hours) > 1 or (halves and (not hours or {hour % 12 for hour in hours} != halves)):
        raise ValueError("another hour")
    return int(hours.pop()) if hours else 0


def _within(number: int, most: int) -> int:
    if number > most:
        raise ValueError("no such hour")
    return number


def _seconds(offset: datetime.timedelta | None) -> int:
    return int((offset or datetime.timedelta()).total_seconds())

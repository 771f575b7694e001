"""Writes times by Java's date patterns."""

from __future__ import annotations

import datetime
from collections.abc import Callable

from calve.errors import SettingsError
from calve.expression.date_patterns import PatternError, PatternPart, pattern_parts

__all__ = ["EPOCHS", "iso_format", "local_time", "time_format"]

EPOCHS = {"epoch_second": 10**9, "epoch_milli": 10**6, "epoch_micro": 10**3, "epoch_nano": 1}
"""The nanoseconds of a unit, by the pattern of numbers of this unit since the epoch."""
_MONTHS = ("January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
           "December")  # fmt: skip
_DAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]
_START = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
Local = datetime.datetime
_WRITERS: dict[str, str | Callable[[Local], str]] = {
    **dict.fromkeys(("yyyy", "uuuu"), "{0.year:04}"),
    **dict.fromkeys("yu", "{0.year}"),
    **dict.fromkeys(("yy", "uu"), lambda at: f"{at.year % 100:02}"),
    **dict.fromkeys("ML", "{0.month}"),
    **dict.fromkeys(("MM", "LL"), "{0.month:02}"),
    **dict.fromkeys(("MMM", "LLL"), lambda at: _MONTHS[at.month - 1][:3]),
    **dict.fromkeys(("MMMM", "LLLL"), lambda at: _MONTHS[at.month - 1]),
    **dict.fromkeys(("E", "EE", "EEE"), lambda at: _DAYS[at.weekday()][:3]),
    "EEEE": lambda at: _DAYS[at.weekday()],
    **{sign: f"{{0.{name}}}" for sign, name in {"d": "day", "H": "hour", "m": "minute", "s": "second"}.items()},
    **{sign * 2: f"{{0.{name}:02}}" for sign, name in {"d": "day", "H": "hour", "m": "minute", "s": "second"}.items()},
    "h": lambda at: f"{at.hour % 12 or 12}",
    "hh": lambda at: f"{at.hour % 12 or 12:02}",
    "a": lambda at: "AM" if at.hour < 12 else "PM",
    "X": lambda at: _offset(at, "Z", "", True),
    "XX": lambda at: _offset(at, "Z", ""),
    "XXX": lambda at: _offset(at, "Z", ":"),
    "x": lambda at: _offset(at, "+00", "", True),
    "xx": lambda at: _offset(at, "+0000", ""),
    "xxx": lambda at: _offset(at, "+00:00", ":"),
    **dict.fromkeys(("Z", "ZZ", "ZZZ"), lambda at: _offset(at, "+0000", "")),
    "ZZZZZ": lambda at: _offset(at, "Z", ":"),
    "VV": lambda at: str(at.tzinfo),
}
"""By the letters a part of a format string, whose first argument is the time, or a function."""
_HINT = "Allowed: y u M L d E a H h m s S, X x Z for the offset, VV for the zone, and 'text'"


def local_time(nanoseconds: int, zone: datetime.tzinfo) -> Local:
    """Return a time since the epoch in a zone, without what is finer than a microsecond."""
    return (_START + datetime.timedelta(microseconds=nanoseconds // 1000)).astimezone(zone)


def time_format(pattern: str) -> Callable[[int, datetime.tzinfo], str | int]:
    """Compile a pattern to a function from nanoseconds since the epoch, and a zone, to text (a number for `epoch_…`).

    Raises:
        SettingsError: The pattern cannot be read.
    """
    if pattern in EPOCHS:
        return lambda nanoseconds, zone: nanoseconds // EPOCHS[pattern]
    template, functions = "", list[Callable[[Local], str]]()
    for text, is_letters, is_bracket in _parts(pattern):
        writer = _WRITERS.get(text)
        if not is_letters:
            template += "" if is_bracket else text.replace("{", "{{").replace("}", "}}")
        elif text[0] == "S":
            template += f"{{1:.{len(text)}}}"
        elif isinstance(writer, str):
            template += writer
        elif writer is not None:
            template += f"{{{len(functions) + 2}}}"
            functions.append(writer)

    def write(nanoseconds: int, zone: datetime.tzinfo) -> str:
        local, fraction = local_time(nanoseconds, zone), f"{nanoseconds % 10**9:09}"
        return template.format(local, fraction, *[function(local) for function in functions])

    return write


def _parts(pattern: str) -> list[PatternPart]:
    try:
        parts = pattern_parts(pattern)
        for text, is_letters, _ in parts:
            if is_letters and text not in _WRITERS and not (text[0] == "S" and len(text) <= 9):
                raise PatternError(text)
    except PatternError as error:
        message = f"the date pattern {pattern!r} cannot be written: {str(error)!r}"
        raise SettingsError(message, step="settings", hint=_HINT) from None
    return parts


_ISO = [time_format(f"yyyy-MM-dd'T'HH:mm:ss.{'S' * digits}XXX") for digits in (3, 6, 9)]


def iso_format(nanoseconds: int, zone: datetime.tzinfo) -> str | int:
    """Return an ISO 8601 date-time with three digits of a second, or as many more as keep the time exact."""
    write = _ISO[0 if nanoseconds % 10**6 == 0 else 1 if nanoseconds % 10**3 == 0 else 2]
    return write(nanoseconds, zone)


def _offset(at: Local, zero: str, colon: str, may_be_short: bool = False) -> str:
    if at.tzinfo is datetime.UTC:
        return zero
    seconds = int((at.utcoffset() or datetime.timedelta()).total_seconds())
    if not seconds:
        return zero
    hours, minutes = divmod(abs(seconds) // 60, 60)
    rest = "" if may_be_short and not minutes else f"{colon}{minutes:02}"
    return f"{'-' if seconds < 0 else '+'}{hours:02}{rest}"

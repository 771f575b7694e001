"""`formatDateTime`: Java's date patterns and zones as DuckDB SQL, independent of the session's zone."""

from __future__ import annotations

import re
from collections.abc import Callable

from calve.expression import value
from calve.expression.date_patterns import PatternError, PatternPart, pattern_parts
from calve.expression.probe import knows
from calve.expression.scope import ArgumentError
from calve.expression.sql import duckdb_text
from calve.expression.value import Value

__all__ = ["format_date_time"]

_CODES = {
    "yyyy": "%Y", "uuuu": "%Y", "yyy": "%Y", "uuu": "%Y", "y": "%-Y", "u": "%-Y", "yy": "%y", "uu": "%y",
    "M": "%-m", "MM": "%m", "MMM": "%b", "MMMM": "%B", "L": "%-m", "LL": "%m", "LLL": "%b", "LLLL": "%B",
    "d": "%-d", "dd": "%d", "D": "%-j", "DDD": "%j", "E": "%a", "EE": "%a", "EEE": "%a", "EEEE": "%A",
    "H": "%-H", "HH": "%H", "h": "%-I", "hh": "%I", "m": "%-M", "mm": "%M", "s": "%-S", "ss": "%S", "a": "%p",
}  # fmt: skip
_OFFSETS = {
    "X": ("Z", "", "optional"), "XX": ("Z", "", "always"), "XXX": ("Z", ":", "always"),
    "x": ("+00", "", "optional"), "xx": ("+0000", "", "always"), "xxx": ("+00:00", ":", "always"),
    "Z": ("+0000", "", "always"), "ZZ": ("+0000", "", "always"), "ZZZ": ("+0000", "", "always"),
    "ZZZZZ": ("Z", ":", "always"),
}  # fmt: skip
_FIXED = re.compile(r"(?:UTC|GMT|UT)?([+-])(\d{1,2})(?::?(\d{2}))?")
_DATE_TIME = r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}(:[0-9]{2}([.][0-9]{1,9})?)?"
_OFFSET = r"(Z|z|[+-][0-9]{2}(:?[0-9]{2})?)"
_HINT = "Allowed: y u M L d D E a H h m s S, X x Z for the offset, VV for the zone, and 'text'"


def format_date_time(time: Value, pattern: str, destination: str = "UTC", source: str = "UTC") -> Value:
    """Format a time: epoch milliseconds, or an ISO date-time, in the source zone unless it has an offset.

    Anything else is a fault. Names of days and months are English.
    """
    to_local, from_local = _zone(destination, 2, "Destination")[0], _zone(source, 3, "Source")[1]
    text = f"regexp_replace({time.string}, '\\[.*\\]$', '')"
    with_offset = f"timezone('UTC', try_cast({text} AS TIMESTAMPTZ))"
    without = from_local(f"try_cast({text} AS TIMESTAMP)")
    utc = (
        f"CASE WHEN {time.number} IS NOT NULL THEN try(make_timestamp_ms(trunc({time.number})::BIGINT))"
        f" WHEN regexp_full_match({text}, '{_DATE_TIME}{_OFFSET}') THEN {with_offset}"
        f" WHEN regexp_full_match({text}, '{_DATE_TIME}') THEN {without} END"
    )
    formatted = _shown(pattern, destination, to_local)
    sql = f"list_transform([{utc}], lambda __utc: {formatted})[1]"
    return value.text(sql, *time.fault, f"({sql} IS NULL)")


def _shown(pattern: str, zone: str, to_local: Callable[[str], str]) -> str:
    local = to_local("__utc")
    try:
        parts = [_part(part, zone, local) for part in pattern_parts(pattern) if not part.is_bracket]
    except PatternError:
        raise ArgumentError(f"Date pattern [{pattern}] is invalid", 1, _HINT) from None
    return " || ".join(parts) or "''"


def _part(part: PatternPart, zone: str, local: str) -> str:
    text = part.text
    if not part.is_letters:
        return duckdb_text(text)
    if text in _CODES:
        return f"strftime({local}, '{_CODES[text]}')"
    if text[0] == "S" and len(text) <= 9:
        return f"rpad(left(strftime({local}, '%f'), {len(text)}), {len(text)}, '0')"
    if text in _OFFSETS:
        return _offset(text, local)
    if text == "VV":
        return duckdb_text(zone)
    raise PatternError(text)


def _offset(text: str, local: str) -> str:
    zero, colon, minutes = _OFFSETS[text]
    seconds = f"(epoch({local}) - epoch(__utc))::BIGINT"
    hours = f"format('{{}}{{:02d}}', CASE WHEN {seconds} < 0 THEN '-' ELSE '+' END, abs({seconds}) // 3600)"
    rest = f"format('{colon}{{:02d}}', abs({seconds}) % 3600 // 60)"
    if minutes == "optional":
        rest = f"CASE WHEN {seconds} % 3600 = 0 THEN '' ELSE {rest} END"
    return f"CASE WHEN {seconds} = 0 THEN '{zero}' ELSE {hours} || {rest} END"


def _zone(name: str, index: int, word: str) -> tuple[Callable[[str], str], Callable[[str], str]]:
    """Return the conversions from UTC to the zone's local time, and back."""
    if name in ("UTC", "Z", "GMT", "UT"):
        return str, str
    fixed = _FIXED.fullmatch(name)
    if fixed:
        seconds = (int(fixed[2]) * 3600 + int(fixed[3] or 0) * 60) * (-1 if fixed[1] == "-" else 1)
        if abs(seconds) <= 18 * 3600:
            return lambda sql: f"({sql} + to_seconds({seconds}))", lambda sql: f"({sql} - to_seconds({seconds}))"
    elif knows("SELECT 1 FROM pg_timezone_names() WHERE name = ?", name):
        zone = duckdb_text(name)
        return (
            lambda sql: f"timezone({zone}, timezone('UTC', {sql}))",
            lambda sql: f"timezone('UTC', timezone({zone}, {sql}))",
        )
    raise ArgumentError(f"{word} time zone [{name}] is invalid", index, "Write UTC, +02:00 or Europe/Berlin")

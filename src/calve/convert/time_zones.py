"""Time zones by name: of settings, and of texts that name one."""

from __future__ import annotations

import datetime
import re
from functools import lru_cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from calve.errors import SettingsError

__all__ = ["named_zone", "offset_seconds", "time_zone", "zone_regex"]

_HOURS = {
    "EST": -5, "EDT": -4, "CST": -6, "CDT": -5, "MST": -7, "MDT": -6, "PST": -8, "PDT": -7, "AKST": -9, "AKDT": -8,
    "HST": -10, "NST": -3.5, "NDT": -2.5, "WET": 0, "WEST": 1, "CET": 1, "CEST": 2, "EET": 2, "EEST": 3, "MSK": 3,
    "SAST": 2, "WAT": 1, "CAT": 2, "EAT": 3, "PKT": 5, "NPT": 5.75, "ICT": 7, "WIB": 7, "SGT": 8, "HKT": 8, "JST": 9,
    "KST": 9, "AWST": 8, "AEST": 10, "AEDT": 11, "NZST": 12, "NZDT": 13,
}  # fmt: skip
"""Abbreviations that mean one offset (RFC 2822, and Java's): not BST, IST, AST and others that name several zones."""
_GENERIC = {"ET": "America/New_York", "CT": "America/Chicago", "MT": "America/Denver", "PT": "America/Los_Angeles"}
_CLOCK = "[+-][0-9]{2}:[0-9]{2}(?::[0-9]{2})?+"
_OFFSET = re.compile(r"([+-])([0-9]{2})(?::?([0-9]{2})(?::?([0-9]{2}))?)?")
_MOST_SECONDS = 18 * 3600


def time_zone(name: str) -> datetime.tzinfo:
    """Return a time zone: `UTC`, `+02:00` or `Europe/Berlin`.

    Raises:
        SettingsError: It is unknown.
    """
    if name in ("UTC", "Z", "GMT"):
        return datetime.UTC
    try:
        if name[:1] in "+-":
            return datetime.datetime.strptime(name, "%z").tzinfo or datetime.UTC
        return ZoneInfo(name)
    except (ValueError, ZoneInfoNotFoundError, OSError):
        hint = "Write UTC, +02:00 or Europe/Berlin"
        raise SettingsError(f"the time zone {name!r} is unknown", step="settings", hint=hint) from None


def offset_seconds(text: str) -> int:
    """Return the seconds east of UTC of `Z`, `+02`, `+0200`, `+02:00` or `+02:00:00`.

    Raises:
        ValueError: No zone has such an offset.
    """
    parts = _OFFSET.fullmatch(text)
    if parts is None:
        return 0
    hours, minutes, seconds = (int(part or 0) for part in parts.groups()[1:])
    total = hours * 3600 + minutes * 60 + seconds
    if minutes > 59 or seconds > 59 or total > _MOST_SECONDS:
        raise ValueError("no offset is so large")
    return -total if parts[1] == "-" else total


@lru_cache(256)
def named_zone(text: str) -> datetime.tzinfo:
    """Return the zone that a text names (one that `zone_regex` matches); an abbreviation is its offset, all year.

    Raises:
        ValueError: No zone has such an offset.
    """
    if (hours := _HOURS.get(text.upper())) is not None:
        return datetime.timezone(datetime.timedelta(hours=hours))
    if name := _GENERIC.get(text.upper()) or _regions().get(text.lower()):
        return ZoneInfo(name)
    offset = text.lstrip("UTCGMutcgm")
    return datetime.timezone(datetime.timedelta(seconds=offset_seconds(offset)))


@lru_cache(2)
def zone_regex(with_abbreviations: bool) -> str:
    """Return a regular expression of the texts of zones; of names with the same beginning the longest one matches."""
    names = {*_regions().values(), *((*_HOURS, *_GENERIC) if with_abbreviations else ())}
    ordered = sorted(names, key=len, reverse=True)
    return f"(?>(?:UTC|GMT|UT)(?:{_CLOCK})?+|{_CLOCK}|{'|'.join(map(re.escape, ordered))}|Z)"


@lru_cache(1)
def _regions() -> dict[str, str]:
    """Return the names of the regions by those in lower case."""
    return {name.lower(): name for name in available_timezones() if name not in ("UTC", "GMT")}

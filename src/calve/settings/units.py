"""Reads and writes durations and sizes."""

from __future__ import annotations

import re
from datetime import timedelta

__all__ = ["duration", "duration_text", "size", "size_text"]

_SIMPLE = re.compile(r"(0|[1-9][0-9]*)(ms|s|m|h|d)")
_ISO = re.compile(
    r"P(?=[0-9T])(?:(\d+)D)?(?:T(?=[0-9])(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d{0,9})?)S)?)?", re.ASCII | re.IGNORECASE
)
_SIZE = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([a-z]*)", re.IGNORECASE)
_SECONDS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86_400}
_BYTES = {"b": 1, "kb": 1 << 10, "mb": 1 << 20, "gb": 1 << 30, "tb": 1 << 40}


def duration(text: str) -> timedelta:
    """Read `5m`, `30s`, `500ms`, `1h`, `90d` or ISO 8601 (`PT5M`); white space is ignored, as Data Prepper does.

    Raises:
        ValueError: In a sentence for the user.
    """
    packed = "".join(text.split())
    try:
        if simple := _SIMPLE.fullmatch(packed):
            return _whole(int(simple[1]), simple[2])
        if iso := _ISO.fullmatch(packed):
            days, hours, minutes, seconds = (float(part or 0) for part in iso.groups())
            return timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)
    except (OverflowError, ValueError):
        raise ValueError("this duration is too long") from None
    raise ValueError("durations are written 500ms, 30s, 5m, 1h, 90d or as ISO 8601 (PT5M)")


def size(text: str) -> int:
    """Read `64mb`, `1.5kb`, `1gb`; the unit is mandatory, 1kb is 1024 bytes.

    Raises:
        ValueError: In a sentence for the user.
    """
    match = _SIZE.fullmatch(text.strip())
    if match is None or len(match[1]) > 30:
        raise ValueError("sizes are written 512b, 1.5kb, 64mb, 1gb or 1tb")
    if not match[2]:
        raise ValueError("a size needs a unit: b, kb, mb, gb or tb, e.g. 64mb")
    if match[2].lower() not in _BYTES:
        raise ValueError(f"{match[2]} is not a unit of size; use b, kb, mb, gb or tb")
    return round(float(match[1]) * _BYTES[match[2].lower()])


def duration_text(value: timedelta) -> str:
    """Write a duration with the largest unit that needs no fraction, e.g. `5m`."""
    milliseconds = value // timedelta(milliseconds=1)
    for unit, length in (("h", 3_600_000), ("m", 60_000), ("s", 1000)):
        if milliseconds and milliseconds % length == 0:
            return f"{milliseconds // length}{unit}"
    return f"{milliseconds}ms" if milliseconds else "0s"


def size_text(value: int) -> str:
    """Write a size with the largest unit that needs no fraction, e.g. `256mb`."""
    for unit, length in reversed(_BYTES.items()):
        if value and value % length == 0:
            return f"{value // length}{unit}"
    return f"{value}b"


def _whole(count: int, unit: str) -> timedelta:
    if unit == "ms":
        return timedelta(milliseconds=count)
    return timedelta(seconds=count * int(_SECONDS[unit]))

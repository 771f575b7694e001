"""Formats numbers, sizes and times for people."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from calve.observe.report import now

__all__ = ["ago", "amount", "duration", "harmless", "harmless_text", "listed", "many", "size"]


def amount(count: float) -> str:
    """Return a count in short form: `950`, `12.3k`, `4.5M`."""
    for limit, unit in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if count >= limit:
            scaled = count / (1e3 if unit == "k" else limit)
            return f"{scaled:.1f}{unit}"
    return f"{count:,.0f}"


def many(count: int, noun: str, plural: str = "") -> str:
    """Return a full count with its noun: `1 row`, `12,000 rows`."""
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"


def listed(names: Sequence[str], most: int) -> str:
    """Return names as text, at most so many of them: `id, name and 4 more`."""
    text = ", ".join(names[:most])
    return f"{text} and {len(names) - most:,} more" if len(names) > most else text


def harmless(line: str) -> str:
    """Escape control characters of untrusted text, so that they cannot control the terminal."""
    return line if line.isprintable() else "".join(char if char.isprintable() else repr(char)[1:-1] for char in line)


def harmless_text(text: str) -> str:
    """Escape the control characters of each line of a text; line breaks and tabs stay."""
    return "\n".join("\t".join(map(harmless, line.split("\t"))) for line in text.split("\n"))


def size(count: float) -> str:
    """Return a size in short form: `812 B`, `3.4 MiB`."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} TiB"


def duration(seconds: float) -> str:
    """Return a duration in short form: `4 s`, `12 min`, `3 h`, `5 d`."""
    for limit, divisor, unit in ((120, 1, "s"), (7200, 60, "min"), (172_800, 3600, "h")):
        if seconds < limit:
            return f"{max(seconds, 0) / divisor:.0f} {unit}"
    return f"{seconds / 86_400:.0f} d"


def ago(at: datetime) -> str:
    """Return how long ago a time was."""
    return f"{duration((now() - at).total_seconds())} ago"

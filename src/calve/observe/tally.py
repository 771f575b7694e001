"""Counts by name, with a limit on the number of names."""

from __future__ import annotations

from collections.abc import Mapping

from calve.observe.humanize import listed

__all__ = ["MOST_NAMES", "OTHERS", "add", "add_bounded", "largest"]

MOST_NAMES = 100
"""Maximum number of event-chosen names that are counted separately."""
OTHERS = "(others)"
"""The name for all further names."""


def add(into: dict[str, int], counts: Mapping[str, int]) -> None:
    """Add counts to other counts."""
    for name, count in counts.items():
        into[name] = into.get(name, 0) + count


def add_bounded(into: dict[str, int], counts: Mapping[str, int]) -> None:
    """Add counts to other counts; beyond `MOST_NAMES` names, new names count as `OTHERS`. No count is lost."""
    for name, count in counts.items():
        key = name if name in into or len(into) < MOST_NAMES else OTHERS
        into[key] = into.get(key, 0) + count


def largest(counts: Mapping[str, int], most: int) -> str:
    """Return the largest counts as text: `debug 12, extra.a 3 and 4 more`."""
    ordered = sorted(counts.items(), key=lambda entry: (-entry[1], entry[0]))
    return listed([f"{name} {count:,}" for name, count in ordered], most)

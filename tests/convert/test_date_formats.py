"""Times by Java's patterns: Java itself is the oracle."""

from __future__ import annotations

import datetime
import re
from zoneinfo import ZoneInfo

import pytest

from calve.convert.date_formats import date_format
from calve.errors import SettingsError
from convert.date_pairs import Pair, answers, pairs
from kit.examples import examples

GUESSED = {"AMT", "AMST", "PMT", "ST", "ACT", "BST", "IST", "AST", "ADT", "GST", "SST", "EAST"}
"""Abbreviations of several zones, one of which Java takes."""


def ours(pair: Pair) -> str:
    today = datetime.date.fromisoformat(pair.today) if pair.today else None
    try:
        time = date_format(pair.pattern, ZoneInfo(pair.zone), today)(pair.text)
    except SettingsError:
        return "!"
    return "-" if time is None else str(time)


def is_zone_by_name(pair: Pair, time: str, of_java: str) -> bool:
    """Return whether Java took `EDT` in winter, or in 1850, for the zone, which then has another offset, or guessed `AMT`."""
    if "z" not in pair.pattern or of_java in ("-", "!"):
        return False
    if time == "-":
        return any(word.upper() in GUESSED for word in re.findall("[A-Za-z]+", pair.text))
    return abs(int(time) - int(of_java)) == 3600 * 10**9 or int(time) < 0


def test_a_pattern_and_a_text_give_what_java_gives():
    asked, differences = list(pairs(37, examples(6_000))), []
    for pair, of_java in zip(asked, answers(asked), strict=True):
        time = ours(pair)
        is_refused = time == "!" and of_java == "-"  # a pattern that reads no text is an error of the settings
        if time != of_java and not is_refused and not is_zone_by_name(pair, time, of_java):
            differences.append((*pair, time, of_java))
    assert differences == []


@pytest.mark.parametrize(
    ("pattern", "text", "iso"),
    [
        ("yyyy-MM-dd hh:mm:ss a", "2026-03-31 01:17:37 PM", "2026-03-31T13:17:37"),
        ("yyyy-MM-dd H:mm:ss a", "2026-03-31 3:04:05 PM", None), ("yyyy-MM-dd H:mm:ss a", "2026-03-31 15:04:05 PM", "2026-03-31T15:04:05"),
        ("yyyy-MM-dd hh:mm a", "2026-03-31 15:30 PM", None), ("yyyy-MM-dd HH:mm a", "2026-03-31 15:30 AM", None),
        ("EEE, d MMM yyyy", "Tue, 31 Mar 2026", "2026-03-31T00:00:00"), ("EEE, d MMM yyyy", "Mon, 31 Mar 2026", None),
        ("yyyy-MM-dd HH:mm", "2026-03-31 24:00", "2026-04-01T00:00:00"), ("yyyy-MM-dd HH:mm", "2026-03-31 24:01", None),
        ("d.M.yyyy", "31.2.2026", None), ("yyyy-DDD", "2026-090", "2026-03-31T00:00:00"),
        ("yyyy-MM-dd'T'HH:mm:ss[.SSS]X", "2026-03-31T13:17:37+02", "2026-03-31T11:17:37"),
        ("yyyy-MM-dd HH:mm:ss zzz", "2026-03-31 13:17:37 EDT", "2026-03-31T17:17:37"),
        ("yyyy-MM-dd HH:mm:ss zzz", "2026-03-31 13:17:37 CEST", "2026-03-31T11:17:37"),
        ("yyyy-MM-dd HH:mm:ss zzz", "2026-01-31 13:17:37 pst", "2026-01-31T21:17:37"),
        ("yyyy-MM-dd HH:mm:ss z", "2026-11-01 01:30:00 EST", "2026-11-01T06:30:00"),
        ("yyyy-MM-dd HH:mm:ss z", "2026-03-31 13:17:37 Europe/Berlin", "2026-03-31T11:17:37"),
        ("yyyy-MM-dd HH:mm:ss z", "2026-03-31 13:17:37 ET", "2026-03-31T17:17:37"),
        ("yyyy-MM-dd HH:mm:ss z", "2026-03-31 13:17:37 BST", None), ("yyyy-MM-dd HH:mm:ss VV", "2026-03-31 13:17:37 EDT", None),
        ("yyyy-MM-dd HH:mmXXX", "2026-03-31 13:17+0200", None), ("yyyy-MM-dd HH:mmZ", "2026-03-31 13:17Z", None),
    ],
)  # fmt: skip
def test_a_text_that_contradicts_itself_or_its_pattern_matches_nothing(pattern, text, iso):
    time = None if iso is None else int(datetime.datetime.fromisoformat(f"{iso}+00:00").timestamp()) * 10**9
    assert date_format(pattern)(text) == time


@pytest.mark.parametrize("pattern", ["yyyy-MM-dd hh:mm:ss", "yyyy-MM-dd K:mm"])
def test_hours_of_half_a_day_need_the_half(pattern):
    with pytest.raises(SettingsError, match="which half") as failed:
        date_format(pattern)
    assert "HH" in failed.value.hint

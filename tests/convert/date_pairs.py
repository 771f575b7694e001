"""Random date patterns and texts, most of them nearly right, and Java's own answers to them."""

from __future__ import annotations

import datetime
import random
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple
from zoneinfo import ZoneInfo

import pytest

from calve.engine.jvm import jdk
from calve.expression.date_patterns import pattern_parts

JAVA = Path(__file__).parent / "JavaDates.java"
ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata")
SHORT_ZONES = {"EST", "EDT", "CET", "CEST", "PST", "PDT", "UTC", "GMT"}
TIMES = ["UTC", "Europe/Paris", "America/New_York", "America/Los_Angeles", "Asia/Kolkata"]


class Pair(NamedTuple):
    """What is read: the zone and the date that fill in what is missing, the pattern, the text."""

    zone: str
    today: str
    pattern: str
    text: str


Shown = Callable[[datetime.datetime], str]
LETTERS: dict[str, Shown] = {
    "yyyy": lambda at: f"{at.year:04}", "uuuu": lambda at: f"{at.year:04}", "y": lambda at: str(at.year),
    "yy": lambda at: f"{at.year % 100:02}", "M": lambda at: str(at.month), "MM": lambda at: f"{at.month:02}",
    "MMM": lambda at: at.strftime("%b"), "MMMM": lambda at: at.strftime("%B"), "LL": lambda at: f"{at.month:02}",
    "d": lambda at: str(at.day), "dd": lambda at: f"{at.day:02}", "D": lambda at: str(at.timetuple().tm_yday),
    "DDD": lambda at: at.strftime("%j"), "E": lambda at: at.strftime("%a"), "EEE": lambda at: at.strftime("%a"),
    "EEEE": lambda at: at.strftime("%A"), "H": lambda at: str(at.hour), "HH": lambda at: f"{at.hour:02}",
    "k": lambda at: str(at.hour or 24), "kk": lambda at: f"{at.hour or 24:02}", "h": lambda at: str(at.hour % 12 or 12),
    "hh": lambda at: f"{at.hour % 12 or 12:02}", "KK": lambda at: f"{at.hour % 12:02}",
    "a": lambda at: "PM" if at.hour > 11 else "AM", "m": lambda at: str(at.minute), "mm": lambda at: f"{at.minute:02}",
    "s": lambda at: str(at.second), "ss": lambda at: f"{at.second:02}", "S": lambda at: f"{at.microsecond:06}"[0],
    "SSS": lambda at: f"{at.microsecond:06}"[:3], "SSSSSS": lambda at: f"{at.microsecond:06}",
    "SSSSSSSSS": lambda at: f"{at.microsecond:06}789", "X": lambda at: offset(at, "", "Z", True),
    "XX": lambda at: offset(at, "", "Z"), "XXX": lambda at: offset(at, ":", "Z"), "XXXX": lambda at: offset(at, "", "Z"),
    "XXXXX": lambda at: offset(at, ":", "Z"), "x": lambda at: offset(at, "", None, True), "xx": lambda at: offset(at, ""),
    "xxx": lambda at: offset(at, ":"), "Z": lambda at: offset(at, ""), "ZZZZZ": lambda at: offset(at, ":", "Z"),
    "z": lambda at: zone(at), "zzz": lambda at: zone(at), "VV": lambda at: str(at.tzinfo),
}  # fmt: skip
DATES = ["yyyy-MM-dd", "dd/MMM/yyyy", "d.M.yyyy", "yyyyMMdd", "MMM d", "EEE, d MMM yyyy", "MM/dd/yy", "EEE MMM dd", "yyyy-DDD",
         "uuuu-LL-dd", "EEEE, MMMM d, y", "ddMMyyyy", "M-d-yy", "yyyy", "EEE", "", "d MMM", "yyyyD", "E"]  # fmt: skip
CLOCKS = ["HH:mm:ss", "HH:mm:ss.SSS", "hh:mm a", "h:mm:ss a", "H:mm:ss a", "HHmmss", "HHmmssSSS", "kk:mm", "KK:mm a", "H", "",
          "HH:mm[:ss]", "HH:mm:ss[.SSS]", "HH:mm:ss[.SSSSSS][.SSS]", "HH:mm:ss,SSSSSSSSS", "Hmm", "k:m:s", "hmma", "HH hh", "hh a"]  # fmt: skip
ENDS = ["", "", "X", "XX", "XXX", "Z", " Z", " z", " zzz", " VV", "XXXX", "XXXXX", "xxx", "x", " [z]", "[XXX]", "'Z'", " yyyy", " z yyyy"]  # fmt: skip


def offset(at: datetime.datetime, colon: str, zero: str | None = None, is_short: bool = False) -> str:
    seconds = int(at.utcoffset().total_seconds())  # type: ignore[union-attr]
    if not seconds and zero:
        return zero
    minutes = abs(seconds) // 60 % 60
    rest = "" if is_short and not minutes else f"{colon}{minutes:02}"
    return f"{'-' if seconds < 0 else '+'}{abs(seconds) // 3600:02}{rest}"


def zone(at: datetime.datetime) -> str:
    return at.tzname() if at.tzname() in SHORT_ZONES else str(at.tzinfo)  # type: ignore[return-value]


def pattern(random_: random.Random) -> str:
    if random_.random() < 0.75:
        parts = [random_.choice(DATES), random_.choice(["", " ", "'T'", ":", " 'at' "]), random_.choice(CLOCKS)]
        return "".join([*parts, random_.choice(ENDS)])
    letters = random_.choices(list(LETTERS), k=random_.randint(1, 7))
    zones = [letter for letter in letters if letter in ("z", "zzz", "VV")]
    letters = [letter for letter in letters if letter not in zones[1:]]  # Java takes the last one
    return "".join(letter + random_.choice(["", "", " ", "-", ":", ".", "/", "'x'", "'1'"]) for letter in letters)


def text(random_: random.Random, parts: str) -> str:
    """Render a pattern for a random time, mostly changed in one place afterwards."""
    zone_ = ZoneInfo(random_.choice(TIMES))
    at = datetime.datetime.fromtimestamp(
        random_.choice([random_.randrange(2**32), random_.randrange(2**30) * 4]), zone_
    )
    if random_.random() < 0.3:
        at = at.replace(year=2026, day=min(at.day, 28), hour=random_.choice([0, 12, 13, 23]), minute=0, second=0)
    at = at.replace(microsecond=random_.choice([0, 120_000, 123_456]), hour=at.hour if at.hour > 3 else at.hour + 4)
    shown, skips = "", False
    for part in pattern_parts(parts):
        if part.is_bracket:
            skips = part.text == "[" and random_.random() < 0.5
        elif not skips:
            shown += LETTERS.get(part.text, str)(at) if part.is_letters else part.text
    return shown if random_.random() < 0.5 else changed(random_, shown)


def changed(random_: random.Random, text: str) -> str:
    at = random_.randrange(len(text) + 1)
    match random_.randrange(6):
        case 0:
            return text[:at] + text[at + 1 :]
        case 1:
            return text[:at] + random_.choice("0123456789 -+:.ZaT") + text[at:]
        case 2:
            return text[:at] + random_.choice("0123456789") + text[at + 1 :]
        case 3:
            words = [
                "AM",
                "PM",
                "am",
                "Mon",
                "Tue",
                "Sun",
                "Jan",
                "Feb",
                "30",
                "31",
                "24",
                "00",
                "13",
                "2025",
                "+01:00",
                "Z",
            ]
            return text.replace(text[at : at + 2], random_.choice(words), 1)
        case 4:
            return text.swapcase()
    return text + random_.choice([" ", "0", "Z", "+0100", " PM"])


def pairs(seed: int, count: int) -> Iterator[Pair]:
    random_ = random.Random(seed)
    while count > 0:
        made = pattern(random_)
        today = random_.choice(["", "2026-03-31", "2024-02-29", "2023-01-01"])
        zone_ = random_.choice(ZONES)
        for _ in range(20):
            yield Pair(zone_, today, made, text(random_, made))
        count -= 20


def answers(asked: list[Pair]) -> list[str]:
    """Return what Java says: nanoseconds since 1970, `-` or `!`."""
    command = [str(jdk.find().executable), "-Xshare:auto", "-XX:TieredStopAtLevel=1", str(JAVA)]
    lines = "".join("\t".join(pair) + "\n" for pair in asked)
    ran = subprocess.run(command, input=lines.encode(), capture_output=True, check=False)
    if b"jdk.compiler" in ran.stderr:
        pytest.skip("this Java has no compiler")
    assert ran.returncode == 0, ran.stderr.decode()
    return ran.stdout.decode().splitlines()

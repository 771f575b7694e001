"""Random JSON values, many of them almost valid, and broken texts."""

from __future__ import annotations

import random
import uuid

import pyarrow as pa

from kit.tables import plain_rows

NUMBERS = ["0", "-0", "1", "0.0", "1e3", "1E-2", "12.50", "1e400", "1e-400", "9007199254740993", "123456789.123456789",
           "16777217", "16777217.0", "1.6777217e7", "9007199254740993.0", "1646861401.5241024", "1418530010"]  # fmt: skip
TEXTS = [
    "true",
    "FALSE",
    "NaN",
    "-Infinity",
    "+5",
    ".5",
    "5.",
    "",
    " 1",
    "00ff",
    "YWJj",
    "YWI=",
    "YW==",
    "12:30",
    "23:59:59.5",
]
TEXTS += [
    "2024-02-29",
    "2026-03-01T10:00:00Z",
    "2026-03-01 10:00:00.1234567+05:30",
    "é😀",
    "\\u00e9",
    "\\ud800",
    "0" * 32,
]


def shown(values: pa.Array) -> str:
    """Return values as text: NaN is NaN, and zeros have their sign."""
    return repr(plain_rows(pa.table({"v": values})))


def stamp(rnd: random.Random, digits: int) -> str:
    year = rnd.choice([0, 1, 1600, 1678, 1900, 2000, 2024, 2026, 2261, 9999, rnd.randrange(10_000)])
    date = f"{year:04d}-{rnd.randrange(14):02d}-{rnd.randrange(33):02d}"
    text = f"{date}T{rnd.randrange(25):02d}:{rnd.randrange(61):02d}:{rnd.randrange(61):02d}"
    fraction = "".join(rnd.choice("0123456789") for _ in range(rnd.randrange(digits + 1)))
    return f'"{text}{"." if fraction else ""}{fraction}{rnd.choice(["", "Z"])}"'


def spoiled(rnd: random.Random, text: str) -> str:
    at = rnd.randrange(len(text))
    return text[:at] + chr(rnd.randrange(32, 127)) + text[at + 1 :]


def random_value(rnd: random.Random, depth: int = 0) -> str:
    """Return JSON that many types take."""
    match rnd.randrange(10 if depth < 3 else 7):
        case 0:
            return rnd.choice(NUMBERS)
        case 1:
            return rnd.choice(["", "-"]) + str(rnd.randrange(10 ** rnd.randrange(1, 25)))
        case 2:
            return f"{rnd.randrange(-(10**6), 10**6)}.{rnd.randrange(10 ** rnd.randrange(1, 12))}"
        case 3:
            return (
                f"{rnd.randrange(10**3)}{rnd.choice(['e', 'E', '.5e'])}{rnd.choice(['', '+', '-'])}{rnd.randrange(30)}"
            )
        case 4:
            return f'"{rnd.choice(TEXTS + NUMBERS)}"'
        case 5:
            return rnd.choice(["true", "false", "null", "{}", "[]", "nul", "01", "-", '"'])
        case 6:
            return str(uuid.UUID(int=rnd.getrandbits(128))).join('""') if rnd.random() < 0.5 else stamp(rnd, 9)
        case 7:
            return "[" + ", ".join(random_value(rnd, depth + 1) for _ in range(rnd.randrange(4))) + "]"
    names = [rnd.choice("abAé") for _ in range(rnd.randrange(4))]
    return "{" + ",".join(f'"{name}": {random_value(rnd, depth + 1)}' for name in names) + "}"


def mutated(rnd: random.Random, text: str | bytes | None) -> bytes | None:
    """Return an event, now and then with a change somewhere."""
    if text is None or rnd.random() < 0.7:
        return text.encode() if isinstance(text, str) else text
    event = bytearray(text if isinstance(text, bytes) else text.encode())
    for _ in range(rnd.randrange(1, 3)):
        at = rnd.randrange(len(event) + 1)
        match rnd.randrange(4):
            case 0:
                event[at : at + 1] = bytes([rnd.randrange(256)])
            case 1:
                del event[at : at + rnd.randrange(1, 8)]
            case 2:
                event[at:at] = bytes(rnd.choice(b'"\\{}[],:0123456789eE.+-ntf \x00\xc3\xa9') for _ in range(3))
            case 3:
                event[at:at] = event[at : at + 10]
    return bytes(event)

"""Random columns of prepared statements, and rows as the server sends them, by its documentation."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable
from typing import Any

from calve.sources.database.table import Column
from calve.sources.mysql.protocol.wire import ResultColumn
from sources.mysql.stored import DOUBLES, WORDS, whole

Made = tuple[str, ResultColumn, Callable[[random.Random], bytes]]
"""The type of Iceberg, what the server says of the column, and what makes a value."""
UNSIGNED = 0x20


def counted(data: bytes) -> bytes:
    size = len(data)
    return (bytes([size]) if size < 251 else b"\xfc" + struct.pack("<H", size)) + data


def integer(rnd: random.Random) -> Made:
    kind, size, name = rnd.choice([(1, 1, "int"), (2, 2, "int"), (9, 3, "int"), (3, 4, "int"), (8, 8, "long")])
    flags = rnd.choice([0, UNSIGNED])
    if flags:
        name = {3: "long", 8: "decimal(20, 0)"}.get(kind, name)

    def store(rnd: random.Random) -> bytes:
        value = int.from_bytes(whole(rnd, size), "little", signed=not flags)
        return value.to_bytes(4 if kind == 9 else size, "little", signed=not flags)

    return name, ResultColumn(11, kind, flags, 0), store


def year(rnd: random.Random) -> Made:
    return "int", ResultColumn(4, 13, UNSIGNED, 0), lambda rnd: struct.pack("<H", rnd.choice([0, 1901, 2155]))


def number(rnd: random.Random) -> Made:
    if rnd.random() < 0.5:
        return "float", ResultColumn(12, 4, 0, 31), lambda rnd: struct.pack("<f", rnd.choice([0.1, -0.0, rnd.random()]))
    return "double", ResultColumn(22, 5, 0, 31), lambda rnd: struct.pack("<d", rnd.choice(DOUBLES))


def text(rnd: random.Random) -> Made:
    kind = rnd.choice([15, 245, 247, 248, 252, 253, 254, 255])
    name = rnd.choice(["string", "binary"])
    return name, ResultColumn(100, kind, 0, 0), lambda rnd: counted(rnd.choice(WORDS).encode())


def decimal(rnd: random.Random) -> Made:
    return (
        "decimal(12, 2)",
        ResultColumn(14, 246, 0, 2),
        lambda rnd: counted(rnd.choice([b"1.50", b"-0.01", b"0.00"])),
    )


def bits(rnd: random.Random) -> Made:
    count = rnd.choice([1, 5, 8, 9, 64])
    name = "boolean" if count == 1 else "string"

    def store(rnd: random.Random) -> bytes:
        return counted(rnd.randrange(1 << count).to_bytes((count + 7) // 8, "big"))

    return name, ResultColumn(count, 16, UNSIGNED, 0), store


def moment(rnd: random.Random) -> Made:
    name, kind = rnd.choice([("timestamptz", 7), ("date", 10), ("timestamp", 12)])

    def store(rnd: random.Random) -> bytes:
        found = struct.pack("<HBBBBBI", 2024, rnd.randint(0, 12), rnd.randint(0, 31), 23, 59, 58, rnd.randrange(10**6))
        return counted(found[: rnd.choice([0, 4, 7, 11])])

    return name, ResultColumn(26, kind, 0, rnd.randint(0, 6)), store


def duration(rnd: random.Random) -> Made:
    def store(rnd: random.Random) -> bytes:
        found = struct.pack("<BIBBBI", rnd.randint(0, 1), rnd.randint(0, 34), 22, 59, 58, rnd.randrange(10**6))
        return counted(found[: rnd.choice([0, 8, 12])])

    return "string", ResultColumn(17, 11, 0, rnd.randint(0, 6)), store


TYPES = (integer, year, number, text, decimal, bits, moment, duration)


class Answer:
    """Random columns with random rows.

    Args:
        changed: Whether the table may have had other types before.
    """

    def __init__(self, rnd: random.Random, changed: bool = False) -> None:
        made = [rnd.choice(TYPES)(rnd) for _ in range(rnd.randint(1, 20))]
        names = [name for name, _, _ in made]
        if changed:
            names = [rnd.choice([name, rnd.choice(["int", "long", "double", "string", "date"])]) for name in names]
        self.found = [found for _, found, _ in made]
        self.columns = tuple(Column(f"c{at}", at + 1, name, name, 0, 0, not at) for at, name in enumerate(names))
        self.rows = [self._row(rnd, made) for _ in range(rnd.randint(1, 8))]

    def _row(self, rnd: random.Random, made: list[Made]) -> bytes:
        values: list[Any] = [store(rnd) if rnd.random() < 0.8 else None for _, _, store in made]
        nulls = sum(1 << index + 2 for index, value in enumerate(values) if value is None)
        return b"\0" + nulls.to_bytes((len(values) + 9) // 8, "little") + b"".join(filter(None, values))

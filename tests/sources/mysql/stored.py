"""Random tables, and rows as the binary log stores them, by its documentation."""

from __future__ import annotations

import random
import string
import struct
from collections.abc import Callable
from typing import Any

from calve.sources.database.change import DELETE, INSERT, UPDATE
from calve.sources.database.table import Column, DatabaseTable
from calve.sources.mysql.catalog.column_types import CODECS, WIDE
from calve.sources.mysql.protocol.packed import decimal_bytes
from calve.sources.mysql.rows import log_rows

Store = Callable[[random.Random], bytes]
Made = tuple[str, int, bytes, Store, dict[str, Any]]
"""A type: that of Iceberg, that of the log and what belongs to it there, what makes a value, and more of the column."""
WORDS = ["", "a", "é", "𝄞", 'q"\\\n\t\x01', "0123456789" * 30, "  ", "\0"]
LABELS = ("a", "b,'c", "ü", "")
DOUBLES = [0.0, -0.0, 1e15, 1e14, 1e-15, 1.5e-16, -123456.789, 5e-324, 1.7976931348623157e308, 0.1, 1e22]


def with_length(size: int, data: bytes) -> bytes:
    return len(data).to_bytes(size, "little") + data


def whole(rnd: random.Random, size: int) -> bytes:
    return rnd.choice([bytes(size), b"\xff" * size, b"\x80" + bytes(size - 1), rnd.randbytes(size)])


def integer(rnd: random.Random) -> Made:
    kind, size, name = rnd.choice([(1, 1, "int"), (2, 2, "int"), (9, 3, "int"), (3, 4, "int"), (8, 8, "long")])
    is_unsigned = rnd.random() < 0.5
    if is_unsigned:
        name = {4: "long", 8: "decimal(20, 0)"}.get(size, name)
    return name, kind, b"", lambda rnd: whole(rnd, size), {"is_unsigned": is_unsigned}


def year(rnd: random.Random) -> Made:
    return "int", 13, b"", lambda rnd: whole(rnd, 1), {}


def number(rnd: random.Random) -> Made:
    if rnd.random() < 0.5:
        return "float", 4, b"\4", lambda rnd: struct.pack("<f", rnd.choice([0.1, -0.0, rnd.random()])), {}
    return "double", 5, b"\x08", lambda rnd: struct.pack("<d", rnd.choice(DOUBLES)), {}


def decimal(rnd: random.Random) -> Made:
    precision = rnd.randint(1, 65)
    scale = rnd.randint(0, min(precision, 30))

    def store(rnd: random.Random) -> bytes:
        digits = "".join(rnd.choices(rnd.choice(["0", "09", string.digits]), k=precision))
        before, after = precision - scale, scale
        sizes = [before % 9, *[9] * (before // 9), *[9] * (after // 9), after % 9]
        found, at = b"", 0
        for size in sizes:
            found += int(digits[at : at + size] or 0).to_bytes(decimal_bytes(size, 0), "big")
            at += size
        found = bytes([found[0] ^ 0x80]) + found[1:]
        return bytes(byte ^ 0xFF for byte in found) if rnd.random() < 0.5 else found

    name = f"decimal({precision}, {scale})" if precision <= 38 else "string"
    return name, 246, bytes([precision, scale]), store, {}


def text(rnd: random.Random) -> Made:
    charset = rnd.choice(["", *sorted(CODECS.keys() - WIDE)])  # wide ones are left to the exact reader
    name = rnd.choice(["string", "string", "binary"])

    def value(rnd: random.Random) -> bytes:
        chosen = rnd.choice(WORDS)
        if name == "binary":
            return chosen.encode()
        codec = CODECS.get(charset, "utf-8")
        return chosen.encode("latin-1" if codec.startswith("calve") else codec, "ignore")

    kind, most = rnd.choice([(15, 200), (15, 4000), (253, 4000), (254, 255), (254, 800), (252, 0), (255, 0)])
    if kind in (252, 255):
        size = rnd.randint(2, 4)
        return name, kind, bytes([size]), lambda rnd: with_length(size, value(rnd)), {"charset": charset}
    meta = struct.pack("<H", most)
    if kind == 254:
        meta = (254 ^ (most & 0x300) >> 4 | (most & 0xFF) << 8).to_bytes(2, "little")
    size = 1 if most < 256 else 2
    return name, kind, meta, lambda rnd: with_length(size, value(rnd)[:200]), {"charset": charset}


def labelled(rnd: random.Random) -> Made:
    kind = rnd.choice([247, 248])
    most = len(LABELS) + 1 if kind == 247 else 1 << len(LABELS)
    more = {"labels": LABELS, "charset": rnd.choice(["utf8mb4", "latin1"])}
    return "string", 254, bytes([kind, 1]), lambda rnd: bytes([rnd.randrange(most)]), more


def bits(rnd: random.Random) -> Made:
    count = rnd.choice([1, 2, 8, 9, 64])
    size = (count + 7) // 8

    def store(rnd: random.Random) -> bytes:
        return (int.from_bytes(whole(rnd, size), "big") & ((1 << count) - 1)).to_bytes(size, "big")

    return "boolean" if count == 1 else "string", 16, bytes([count % 8, count // 8]), store, {}


def date(rnd: random.Random) -> Made:
    return "date", 10, b"", lambda rnd: rnd.choice([0, 2024 << 9 | 2 << 5 | 29, 1 << 9]).to_bytes(3, "little"), {}


def moment(rnd: random.Random) -> Made:
    digits = rnd.randint(0, 6)
    extra = (digits + 1) // 2
    kind, size, name = rnd.choice([(17, 4, "timestamptz"), (18, 5, "timestamp"), (19, 3, "string")])

    def store(rnd: random.Random) -> bytes:
        part = rnd.choice([0, rnd.randrange(100**extra), 100**extra - 1])
        if kind == 19:
            value = rnd.randint(0, 838) << 12 | rnd.randint(0, 59) << 6 | rnd.randint(0, 59)
            value = (value << 8 * extra | part) * rnd.choice([-1, 1])
            return (value + (1 << 8 * (3 + extra) - 1)).to_bytes(3 + extra, "big")
        value = rnd.choice([0, 1, rnd.randrange(1 << 32)])
        if kind == 18:
            months = rnd.randrange(10_000) * 13 + rnd.randint(0, 12)
            value = months << 22 | rnd.randint(0, 31) << 17 | rnd.randint(0, 23) << 12 | rnd.randrange(1 << 12)
            value = rnd.choice([0, value]) + (1 << 39)
        return value.to_bytes(size, "big") + part.to_bytes(extra, "big")

    return name, kind, bytes([digits]), store, {}


def json(rnd: random.Random) -> Made:
    return "string", 245, b"\4", lambda rnd: with_length(4, rnd.choice([b"", json_value(rnd)])), {}


def json_value(rnd: random.Random, levels: int = 3) -> bytes:
    """Make a value: its type, and itself."""
    kind, data = json_parts(rnd, levels)
    return bytes([kind]) + data


def json_parts(rnd: random.Random, levels: int) -> tuple[int, bytes]:
    kind = rnd.choice([0, 1, 2, 3] if levels and rnd.random() < 0.6 else [4, 5, 6, 7, 8, 9, 10, 11, 12, 15])
    if kind < 4:
        return kind, container(rnd, kind, levels - 1)
    if kind == 4:
        return kind, bytes([rnd.randrange(3)])
    if kind < 11:
        return kind, whole(rnd, 2 << (kind - 5) // 2)
    if kind == 11:
        sure = float(f"{rnd.random() * 10 ** rnd.randint(-30, 30):.15g}")
        return kind, struct.pack("<d", rnd.choice([*DOUBLES, rnd.random(), sure]))
    if kind == 12:
        return kind, counted(rnd.choice(WORDS).encode())
    of = rnd.choice([246, 10, 11, 7, 12, 252])
    if of == 246:
        precision, scale = 12, 2
        return kind, bytes([of]) + counted(bytes([precision, scale, 0x80, 0, 0, 1, rnd.randrange(100), 50]))
    if of == 252:
        return kind, bytes([of]) + counted(rnd.randbytes(rnd.randrange(9)))
    packed = (2024 * 13 + 2) << 22 | 3 << 17 | rnd.randrange(1 << 17)
    packed = (packed if of != 11 else rnd.randrange(1 << 22)) << 24 | rnd.randrange(1_000_000)
    packed *= rnd.choice([-1, 1]) if of == 11 else 1
    return kind, bytes([of]) + counted(packed.to_bytes(8, "little", signed=True))


def counted(data: bytes) -> bytes:
    size = len(data)
    return bytes([size]) + data if size < 128 else bytes([size & 0x7F | 0x80, size >> 7]) + data


def container(rnd: random.Random, kind: int, levels: int) -> bytes:
    is_object, is_large = kind < 2, kind in (1, 3)
    size = 4 if is_large else 2
    values = [json_parts(rnd, levels) for _ in range(rnd.randrange(4))]
    keys = [rnd.choice(["", "k", "é", '"']).encode() for _ in values] if is_object else []
    at = 2 * size + len(keys) * (size + 2) + len(values) * (size + 1)
    heads, tail = b"", b""
    for key in keys:
        heads += (at + len(tail)).to_bytes(size, "little") + struct.pack("<H", len(key))
        tail += key
    for of, data in values:
        if of in (4, 5, 6) or (is_large and of in (7, 8)):
            heads += bytes([of]) + data.ljust(size, b"\0")
        else:
            heads += bytes([of]) + (at + len(tail)).to_bytes(size, "little")
            tail += data
    return len(values).to_bytes(size, "little") + (at + len(tail)).to_bytes(size, "little") + heads + tail


TYPES = (integer, year, number, decimal, text, labelled, bits, date, moment, json)
KEYS = (integer, year, decimal, text, labelled, bits, date, moment)


class Random:
    """A random table with random rows; a part of its columns is the key."""

    def __init__(self, rnd: random.Random) -> None:
        self._rnd = rnd
        keys = rnd.randint(1, 2)
        made = [rnd.choice(KEYS if number < keys else TYPES)(rnd) for number in range(keys + rnd.randint(0, 12))]
        self._stores = [each[3] for each in made]
        columns = [
            Column(f"c{number}", number + 1, kind, kind, 0, 0, number < keys, **more)
            for number, (kind, _, _, _, more) in enumerate(made)
        ]
        self.table = DatabaseTable("d", 7, "shop", "t", tuple(columns))
        metas = b"".join(meta for _, _, meta, _, _ in made)
        self.layout = bytes([len(made), *(each[1] for each in made), len(metas)]) + metas

    def row(self) -> bytes:
        """Make a row; its key has no NULL."""
        values = [
            store(self._rnd) if column.is_key or self._rnd.random() < 0.8 else None
            for column, store in zip(self.table.columns, self._stores, strict=True)
        ]
        nulls = sum(1 << index for index, value in enumerate(values) if value is None)
        return nulls.to_bytes((len(values) + 7) // 8, "little") + b"".join(filter(None, values))

    def message(self) -> bytes:
        """Make a message of some rows."""
        kind = self._rnd.choice([INSERT, UPDATE, DELETE])
        data = b"".join(self.row() * self._rnd.choice([1, 2]) + self.row() for _ in range(self._rnd.randint(1, 4)))
        if kind == UPDATE:
            pairs = ([old, self._rnd.choice([old, self.row()])] for old in (self.row() for _ in range(3)))
            data = b"".join(b"".join(pair) for pair in pairs)
        return log_rows.message(self.table.oid, kind, self.layout, data)

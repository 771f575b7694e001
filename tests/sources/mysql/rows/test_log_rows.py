"""Rows of the binary log are read as they were written, whatever is NULL in them."""

from __future__ import annotations

import struct
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from calve.sources.database.change import DELETE, INSERT, UPDATE
from calve.sources.database.table import Column, DatabaseTable
from calve.sources.mysql.rows import log_rows

KINDS = (
    ("id", "long"),
    ("small", "int"),
    ("medium", "int"),
    ("text", "string"),
    ("long_text", "string"),
    ("at", "date"),
)
COLUMNS = tuple(
    Column(name, number, kind, kind, 0, 0, name == "id", "utf8mb4") for number, (name, kind) in enumerate(KINDS, 1)
)
TABLE = DatabaseTable("d", 7, "shop", "t", COLUMNS)
METAS = struct.pack("<HB", 300, 3)
LAYOUT = bytes([6, 8, 2, 9, 15, 252, 10, len(METAS)]) + METAS
"""The types bigint, smallint, mediumint, varchar(300), mediumtext and date, and what belongs to them."""
ROWS = st.tuples(
    st.integers(-(1 << 63), (1 << 63) - 1),
    st.none() | st.integers(-(1 << 15), (1 << 15) - 1),
    st.none() | st.integers(-(1 << 23), (1 << 23) - 1),
    st.none() | st.binary(max_size=300),
    st.none() | st.binary(max_size=300),
    st.none() | st.dates().map(str),
)


def stored(row: tuple[Any, ...]) -> bytes:
    """Write a row by the documentation of the log."""
    key, small, medium, text, long_text, at = row
    nulls = sum(1 << index for index, value in enumerate(row) if value is None)
    parts = [bytes([nulls]), struct.pack("<q", key)]
    parts += [struct.pack("<h", small)] if small is not None else []
    parts += [medium.to_bytes(3, "little", signed=True)] if medium is not None else []
    parts += [struct.pack("<H", len(text)), text] if text is not None else []
    parts += [len(long_text).to_bytes(3, "little"), long_text] if long_text is not None else []
    if at is not None:
        year, month, day = map(int, at.split("-"))
        parts.append((year << 9 | month << 5 | day).to_bytes(3, "little"))
    return b"".join(parts)


@given(st.lists(st.tuples(ROWS, ROWS), min_size=1, max_size=4))
def test_rows_are_read_as_they_were_written(pairs: list[tuple[tuple[Any, ...], tuple[Any, ...]]]) -> None:
    data = b"".join(stored(old) + stored(new) for old, new in pairs)
    found = list(log_rows.changes(log_rows.message(7, UPDATE, LAYOUT, data), {7: TABLE}))
    assert [(change.kind, change.oid, change.new) for change in found] == [(UPDATE, 7, list(new)) for _, new in pairs]
    assert [change.old and change.old[0] for change in found] == [old[0] for old, _ in pairs]
    for kind in (INSERT, DELETE):
        message = log_rows.message(7, kind, LAYOUT, b"".join(stored(new) for _, new in pairs))
        single = [change.new if kind == INSERT else change.old for change in log_rows.changes(message, {7: TABLE})]
        assert [row and row[0] for row in single] == [new[0] for _, new in pairs]
        assert kind == DELETE or single == [list(new) for _, new in pairs]

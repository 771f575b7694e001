"""What the core reads of MySQL is what Python reads, or is left to it."""

from __future__ import annotations

import random
import struct
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calve.compiled import events
from calve.compiled import mysql as core
from calve.sources.database.change import INSERT
from calve.sources.database.changes import Decoded
from calve.sources.database.table import Column, DatabaseTable
from calve.sources.mysql.reader import MysqlReader
from calve.sources.mysql.rows import log_rows, results
from calve.sources.mysql.settings import MysqlSettings
from kit.compiled_core import needs_core
from kit.examples import examples
from sources.mysql.answers import Answer
from sources.mysql.stored import Random, with_length

pytestmark = needs_core
READER = MysqlReader(MysqlSettings(host="h", username="u", password="p"), str(Path.cwd()), "p")
HEAD_BYTES = 7


def told(found: Decoded) -> tuple[list[Any], list[int], list[int]]:
    values = [(each.type, repr(each.to_pylist())) for each in found.values]
    return values, found.messages.tolist(), found.kinds.tolist()


def exactly(table: DatabaseTable, messages: list[bytes]) -> tuple[list[Any], list[int], list[int]]:
    [found] = READER._exactly(table, table, pa.array(messages, pa.binary()))
    return told(found)


def by_core(table: DatabaseTable, messages: list[bytes]) -> tuple[list[Any], list[int], list[int]] | None:
    found = READER.decoded(table, pa.array(messages, pa.binary()))
    return found and told(found)


@settings(max_examples=examples(100), deadline=None)
@given(seed=st.integers(0, 2**32))
def test_changes_of_a_table_are_the_rows_that_python_makes_of_them(seed: int) -> None:
    made = Random(random.Random(seed))
    messages = [made.message() for _ in range(3)]
    assert by_core(made.table, messages) == exactly(made.table, messages)


@settings(max_examples=examples(100), deadline=None)
@given(seed=st.integers(0, 2**32))
def test_of_changes_that_are_not_as_they_should_be_the_core_makes_the_same_or_leaves_them(seed: int) -> None:
    rnd = random.Random(seed)
    made = Random(rnd)
    messages = [made.message() for _ in range(2)]
    broken = bytearray(messages[0])
    for _ in range(rnd.randint(0, 3)):
        broken[rnd.randrange(HEAD_BYTES, len(broken))] = rnd.choice([0, 1, 0x7F, 0x80, 0xFF, rnd.randrange(256)])
    messages[0] = bytes(broken[: rnd.choice([len(broken), rnd.randint(HEAD_BYTES, len(broken))])])
    if (found := by_core(made.table, messages)) is not None:
        assert found == exactly(made.table, messages)


def test_a_table_may_be_described_in_another_way_from_one_message_to_the_next() -> None:
    columns = Column("id", 1, "int", "int", 0, 0, True), Column("name", 2, "string", "text", 0, 0)
    messages = [
        log_rows.message(7, INSERT, struct.pack("<BBBBH", 2, 3, 15, 2, most), b"\0\1\0\0\0" + with_length(size, b"a"))
        for most, size in [(200, 1), (300, 2), (200, 1)]
    ]
    found = by_core(DatabaseTable("d", 7, "shop", "t", columns), messages)
    assert found == ([(pa.int32(), "[1, 1, 1]"), (pa.string(), "['a', 'a', 'a']")], [0, 1, 2], [0, 0, 0])


def answered(answer: Answer, by_core: bool) -> list[tuple[pa.DataType, str]]:
    """Return the columns of rows, by the core alone or without it."""
    rows = pa.array(answer.rows, pa.large_binary())
    with pytest.MonkeyPatch.context() as patch:
        if by_core:
            patch.setattr(results, "_values", lambda *_: pytest.fail("the core has left them"))
        else:
            patch.setattr(core, "load", lambda: None)
        found = results.columns_of(rows, answer.found, answer.columns)
    return [(each.type, repr(each.to_pylist())) for each in found]


@settings(max_examples=examples(100), deadline=None)
@given(seed=st.integers(0, 2**32))
def test_rows_of_a_prepared_statement_are_the_columns_that_python_makes_of_them(seed: int) -> None:
    answer = Answer(random.Random(seed))
    assert answered(answer, by_core=True) == answered(answer, by_core=False)


@settings(max_examples=examples(100), deadline=None)
@given(seed=st.integers(0, 2**32))
def test_of_columns_with_other_types_than_before_the_core_makes_the_same_or_leaves_them(seed: int) -> None:
    rnd = random.Random(seed)
    answer = Answer(rnd, changed=True)
    answer.rows[0] += rnd.choice([b"", b"", b"\0"])
    try:
        found = answered(answer, by_core=True)
    except pytest.fail.Exception:
        return
    assert found == answered(answer, by_core=False)


@given(st.lists(st.binary(min_size=1, max_size=300)), st.binary(max_size=4))
def test_packets_are_joined_up_to_one_that_may_be_an_end_an_error_or_a_part(rows: list[bytes], rest: bytes) -> None:
    rows = [b"\0" + row for row in rows]
    data = b"".join(len(row).to_bytes(3, "little") + b"\1" + row for row in rows)
    lengths = struct.pack(f"<{len(rows)}I", *map(len, rows))
    for end in (b"\5\0\0\1\xfe\0\0\0\0", b"\3\0\0\1\xff\0\0", b"\5\0\0\1" + rest, b"\0\0\0\1", rest[:3]):
        assert core.packets(data + end) == (len(data), b"".join(rows), lengths)


def test_without_the_core_python_reads_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(core, "load", lambda: None)
    made = Random(random.Random(1))
    assert by_core(made.table, [made.message()]) is None
    assert core.packets(b"\1\0\0\0a") is None
    assert events.failures() == 0

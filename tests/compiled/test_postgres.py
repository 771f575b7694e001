"""What the core reads of PostgreSQL is what Python reads, or is left to it."""

from __future__ import annotations

import random
import struct
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calve.compiled import events
from calve.compiled import postgres as core
from calve.sources.database.change_buffer import Block
from calve.sources.database.connection import Channel, Rest
from calve.sources.database.table import Column, DatabaseTable
from calve.sources.postgres.large import lacks_values
from calve.sources.postgres.protocol import pgoutput, wire
from calve.sources.postgres.protocol.copy_text import columns_of
from calve.sources.postgres.protocol.pgoutput import UNCHANGED
from calve.sources.postgres.protocol.wire import PostgresConnection
from calve.sources.postgres.reader import PostgresReader
from calve.sources.postgres.settings import PostgresSettings
from kit.compiled_core import needs_core
from kit.examples import examples

pytestmark = needs_core
READER = PostgresReader(PostgresSettings(host="h", database="d", username="u", password="p"), str(Path.cwd()), "p")
TEXTS = [b"", b"1", b"a", "é\U0001f600".encode(), b"nut\0", None]
ODD = [UNCHANGED, b"\xff", "é".encode()[:1]]


def table(keys: list[bool]) -> DatabaseTable:
    columns = [Column(f"c{number}", number + 1, "string", "text", 25, -1, key) for number, key in enumerate(keys)]
    return DatabaseTable("d", 7, "public", "t", tuple(columns))


def message(rnd: random.Random, keys: list[bool], values: list[Any], oid: int = 7) -> bytes:
    """Make a change as PostgreSQL sends it; an old key has NULL in all other columns."""

    def row(only_key: bool = False) -> list[Any]:
        return [None if only_key and not key else rnd.choice(values) for key in keys]

    kind = rnd.choice("IUUUD")
    parts = [kind.encode(), struct.pack(">I", oid)]
    if kind == "D" or (kind == "U" and rnd.random() < 0.5):
        old = rnd.choice([b"K", b"O"])
        parts += [old, pgoutput.packed(row(old == b"K"))]
    if kind != "D":
        parts += [b"N", pgoutput.packed(row())]
    return b"".join(parts)


def exactly(keys: list[bool], messages: list[bytes]) -> tuple[list[Any], list[int], list[int]]:
    [found] = READER._exactly(table(keys), table(keys), pa.array(messages, pa.binary()))
    return [each.to_pylist() for each in found.values], found.messages.tolist(), found.kinds.tolist()


def by_core(keys: list[bool], messages: list[bytes]) -> tuple[list[Any], list[int], list[int]] | None:
    found = READER.decoded(table(keys), pa.array(messages, pa.binary()))
    return found and ([each.to_pylist() for each in found.values], found.messages.tolist(), found.kinds.tolist())


@settings(max_examples=examples(100), deadline=None)
@given(seed=st.integers(0, 2**32))
def test_changes_of_a_table_are_the_rows_that_python_makes_of_them(seed: int) -> None:
    rnd = random.Random(seed)
    keys = [True, *(rnd.random() < 0.3 for _ in range(rnd.randint(0, 3)))]
    messages = [message(rnd, keys, TEXTS) for _ in range(rnd.randint(1, 20))]
    assert by_core(keys, messages) == exactly(keys, messages)


@settings(max_examples=examples(100), deadline=None)
@given(seed=st.integers(0, 2**32))
def test_of_changes_that_are_not_as_they_should_be_the_core_makes_the_same_or_leaves_them(seed: int) -> None:
    rnd = random.Random(seed)
    keys = [True, *(rnd.random() < 0.5 for _ in range(rnd.randint(0, 2)))]
    messages = [message(rnd, keys, [*TEXTS, *ODD]) for _ in range(rnd.randint(1, 3))]
    broken = bytearray(messages[0])
    for _ in range(rnd.randint(0, 2)):
        broken[rnd.randrange(5, len(broken))] = rnd.choice(b"\0\1\2nutKON")
    messages[0] = bytes(broken[: rnd.choice([len(broken), rnd.randint(6, len(broken))])])
    found = by_core(keys, messages)
    assert found is None or found == exactly(keys, messages)


class Received(Channel):
    """A connection with these bytes."""

    def __init__(self, data: bytes) -> None:
        self._buffer, self._at, self._most = bytearray(data), 0, len(data)

    def wait(self, seconds: float, rest: Rest) -> None:
        """Nothing more comes."""


def framed(body: bytes) -> bytes:
    return b"d" + struct.pack(">I", len(body) + 4) + body


def received(data: bytes) -> tuple[list[bytes], list[Block]]:
    """Return all messages, those of blocks apart from each other, and the blocks."""
    connection = PostgresConnection(Received(data))
    messages, blocks = [], []
    while (found := connection.receive(0)) is not None:
        if isinstance(found, Block):
            assert [found.last(count).data for count in (0, found.count, found.count + 1)] == [b"", *[found.data] * 2]
            blocks.append(found)
            singles = [found.last(left).last(left) for left in range(found.count, 0, -1)]
            sizes = [len(one.data) - len(rest.data) for one, rest in zip(singles, [*singles[1:], found.last(0)])]
            messages += [b"w" * 25 + one.data[:size] for one, size in zip(singles, sizes, strict=True)]
        else:
            messages.append(found)
    return messages, blocks


@settings(max_examples=examples(50), deadline=None)
@given(seed=st.integers(0, 2**32))
def test_a_stream_is_the_same_messages_and_only_complete_changes_of_one_table_are_joined(seed: int) -> None:
    rnd = random.Random(seed)
    sent = []
    for _ in range(rnd.randint(0, 30)):
        change = message(rnd, [True, False], rnd.choice([TEXTS, [*TEXTS, UNCHANGED]]), rnd.choice([7, 8]))
        sent.append(b"w" * 25 + rnd.choice([change, change, change, b"B" + bytes(20), b"C" + bytes(25), change[:-1]]))
        sent[-1] = rnd.choice([sent[-1]] * 9 + [b"k" + bytes(17)])
    data = b"".join(map(framed, sent))
    cut = rnd.randint(0, len(data))
    found, blocks = received(data[:cut])
    assert found == sent[: len(found)]
    assert (
        sum(len(framed(each)) for each in found)
        <= cut
        < sum(len(framed(each)) for each in sent[: len(found) + 1]) + (len(found) == len(sent))
    )
    for block in blocks:
        sizes = struct.unpack(f"<{block.count}I", block.lengths)
        assert sum(sizes) == len(block.data)
    joined = [each[25:] for each in found if each[25:26] in (b"I", b"U", b"D")]
    assert not any(lacks_values(block.data) and block.count == 1 for block in blocks)
    assert sum(block.count for block in blocks) <= len(joined)


VALUES = st.none() | st.text(
    st.sampled_from('a,"\\N.\t\n\r\b\f\v é\ufeff\U0001f600') | st.characters(codec="utf-8"), max_size=9
)
WRITTEN = str.maketrans({"\\": r"\\", "\b": r"\b", "\t": r"\t", "\n": r"\n", "\v": r"\v", "\f": r"\f", "\r": r"\r"})


def line(row: tuple[str | None, ...]) -> bytes:
    """Return a row as COPY writes it."""
    return "\t".join(r"\N" if value is None else value.translate(WRITTEN) for value in row).encode() + b"\n"


@given(st.integers(1, 3).flatmap(lambda count: st.lists(st.tuples(*[VALUES] * count), min_size=1)), st.data())
def test_rows_of_copy_are_the_same_with_the_core_and_without(rows: list[tuple[str | None, ...]], data: Any) -> None:
    lines, count = list(map(line, rows)), len(rows[0])
    expected = [pa.array(column, pa.string()) for column in zip(*rows, strict=True)]
    assert columns_of(b"".join(lines), count) == expected
    sent = b"".join(map(framed, lines))
    assert core.copied(sent + b"c\0\0\0\4", count) == (len(sent), expected)
    cut = data.draw(st.integers(0, len(sent)))
    found = core.copied(memoryview(sent)[:cut], count)
    whole = 0 if found is None else len(found[1][0])
    assert found is None or found[1] == [column[:whole] for column in expected]
    assert len(b"".join(map(framed, lines[:whole]))) <= cut
    assert whole == len(lines) or cut < len(b"".join(map(framed, lines[: whole + 1])))


class Server(Channel):
    """A server that answers a query, piece by piece."""

    def __init__(self, pieces: list[bytes]) -> None:
        self._buffer, self._at, self._most, self._pieces = bytearray(), 0, 1 << 20, pieces

    def send(self, data: bytes) -> None:
        """The query."""

    def more(self) -> int:
        """Receive a piece; the test fails where none is left, which would be waited for."""
        piece = self._pieces.pop(0)
        self._buffer += piece
        return len(piece)


@settings(max_examples=examples(50), deadline=None)
@given(seed=st.integers(0, 2**32), with_core=st.booleans())
def test_a_copy_has_all_its_rows_whatever_comes_between_them_and_in_whatever_pieces(seed: int, with_core: bool) -> None:
    rnd = random.Random(seed)
    rows = [(str(number), rnd.choice(["", None, "a\tb", "Z\0\0\0\5I"])) for number in range(rnd.randint(0, 9))]
    between = [b"N\0\0\0\6ab", b"S\0\0\0\6a\0", b"N\0\0\0\4A\0\0\0\4"]
    sent = [b"H\0\0\0\7\0\0\2"]
    for row in rows:
        sent += [rnd.choice(between)] * (rnd.random() < 0.3) + [framed(line(row))]
    data = b"".join([*sent, b"c\0\0\0\4", b"C\0\0\0\x0bCOPY 9\0", b"Z\0\0\0\5T"])
    cuts = sorted(rnd.sample(range(1, len(data)), rnd.randint(0, 9)))
    pieces = [data[start:end] for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True)]
    with (
        mock.patch.object(wire, "_COPIED_REST_SECONDS", 0),
        mock.patch.object(core, "load", core.load if with_core else lambda: None),
    ):
        found = list(PostgresConnection(Server(pieces)).copy_out("COPY", 2))
    assert [row for columns in found for row in zip(*(column.to_pylist() for column in columns), strict=True)] == rows
    assert not pieces


@pytest.mark.parametrize("bad", [b"1\n", b"1\t2\t3\n", b"1\t2", b"1\t\xff\n", b"1\t2\n3\t4\n", b"1\t2\\\n", b""])
def test_a_row_that_postgresql_does_not_write_is_left_to_the_exact_reader(bad: bytes) -> None:
    assert core.copied(framed(b"1\t2\n") + framed(bad), 2) is None


def test_without_the_core_every_message_comes_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(core, "load", lambda: None)
    insert = b"I" + struct.pack(">I", 7) + b"N" + pgoutput.packed([b"1"])
    sent = [b"w" * 25 + insert] * 3
    assert received(b"".join(map(framed, sent))) == (sent, [])
    assert core.copied(framed(b"1\n"), 1) is None
    assert by_core([True], [insert]) is None
    assert events.failures() == 0

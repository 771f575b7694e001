from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from calve.sources.database.change import Values
from calve.sources.database.table import Column, DatabaseTable
from calve.sources.postgres.large import complete, lacks_values
from calve.sources.postgres.protocol import pgoutput
from calve.sources.postgres.protocol.pgoutput import UNCHANGED
from calve.sources.postgres.protocol.tuples import texts

LIKE_KINDS = st.lists(st.sampled_from(b"nut\0"), max_size=6).map(bytes)
VALUES = st.lists(st.one_of(st.none(), st.just(UNCHANGED), st.binary(max_size=20), LIKE_KINDS), min_size=1, max_size=6)
TEXTS = st.one_of(st.none(), st.text(max_size=20).map(str.encode))


def packed(values: Values) -> bytes:
    """Write a row by the documentation of the protocol."""
    parts = [struct.pack(">H", len(values))]
    for value in values:
        if value is None:
            parts.append(b"n")
        elif value is UNCHANGED:
            parts.append(b"u")
        else:
            parts.append(b"t" + struct.pack(">I", len(value)) + value)
    return b"".join(parts)


def update(new: Values, old: Values | None = None, kind: bytes = b"O") -> bytes:
    return b"U" + struct.pack(">I", 16385) + (kind + packed(old) if old is not None else b"") + b"N" + packed(new)


@given(VALUES, st.one_of(st.none(), VALUES))
def test_a_change_is_read_as_it_was_written(new: Values, old: Values | None) -> None:
    assert pgoutput.change(update(new, old)) == (b"U", 16385, old, new)
    assert pgoutput.change(b"I" + struct.pack(">I", 7) + b"N" + packed(new)) == (b"I", 7, None, new)
    assert pgoutput.change(b"D" + struct.pack(">I", 7) + b"K" + packed(new)) == (b"D", 7, new, None)


@given(VALUES.map(lambda values: [*values, b"cut"]), st.one_of(st.none(), VALUES))
def test_an_update_lacks_values_if_one_is_left_out_whatever_its_texts_are(new: Values, old: Values | None) -> None:
    message = update(new, old)
    assert lacks_values(message) == (pgoutput.change(message) if UNCHANGED in new else None)
    assert lacks_values(update([*new, UNCHANGED], old)) is not None


@pytest.mark.parametrize("text", [b"u", b"n", b"nu", b"nnu", b"ut"])
def test_a_long_text_of_the_letters_of_kinds_is_looked_at_once(text: bytes) -> None:
    """If it was looked at from each of its bytes, this would take hours."""
    assert lacks_values(update([text * 1_000_000, b"x"])) is None


@given(st.integers(1, 4).flatmap(lambda count: st.lists(st.lists(TEXTS, min_size=count, max_size=count), min_size=1)))
def test_rows_that_are_read_at_once_have_the_values_of_each(rows: list[Values]) -> None:
    packed_rows = [pgoutput.packed(row) for row in rows]
    assert [pgoutput.unpacked(row) for row in packed_rows] == rows
    found = texts(packed_rows, len(rows[0]))
    assert [column.to_pylist() for column in found] == [
        [None if value is None else value.decode() for value in column] for column in zip(*rows, strict=True)
    ]


@pytest.mark.parametrize("row", [[b"1"], [b"1", b"2", b"3"], [b"1", UNCHANGED]])
def test_rows_that_are_not_of_the_table_are_refused(row: Values) -> None:
    with pytest.raises(ValueError, match=r"2 columns|unknown kind"):
        texts([pgoutput.packed([b"7", None]), pgoutput.packed(row)], 2)


def test_rows_stay_packed_unless_the_old_and_the_new_one_differ() -> None:
    new, old = [b"2", b"x"], [b"1", None]
    assert pgoutput.packed_change(update(new)) == (b"U", 16385, None, packed(new))
    assert pgoutput.packed_change(b"D" + struct.pack(">I", 7) + b"K" + packed(old)) == (b"D", 7, packed(old), None)
    whole = update(new, old), update(new, old, b"K"), b"D" + struct.pack(">I", 7) + b"O" + packed(new)
    assert [pgoutput.packed_change(each) for each in whole] == [pgoutput.change(each) for each in whole]


@given(VALUES, VALUES, st.one_of(st.none(), VALUES))
def test_another_new_row_changes_nothing_else(new: Values, other: Values, old: Values | None) -> None:
    assert pgoutput.with_values(update(new, old), other) == update(other, old)


def test_a_relation_has_its_columns_and_its_key() -> None:
    message = b"R" + struct.pack(">I", 9) + b"public\0t\0d" + struct.pack(">H", 2)
    message += b"\1id\0" + struct.pack(">Ii", 20, -1) + b"\0n\0" + struct.pack(">Ii", 1700, 786438)
    found = pgoutput.relation(message)
    assert (found.oid, found.schema, found.name, found.identity) == (9, "public", "t", "d")
    assert found.columns == (("id", 20, -1, True), ("n", 1700, 786438, False))


def test_a_transaction_has_its_commit_and_its_time() -> None:
    message = b"B" + struct.pack(">QqI", 0x1_0000_0010, 1_000_000, 77)
    assert pgoutput.begin(message) == (0x1_0000_0010, 946_684_801_000_000, "77")
    assert pgoutput.commit_end(b"C\0" + struct.pack(">QQq", 5, 9, 0)) == 9
    assert pgoutput.truncated(b"T" + struct.pack(">IBII", 2, 0, 4, 5)) == [4, 5]


TABLE = DatabaseTable(
    "d",
    16385,
    "public",
    "t",
    (Column("id", 1, "long", "bigint", 20, -1, True), Column("x", 2, "string", "text", 25, -1)),
)


class Answers:
    """A session that has the current rows of a table with the key `id` and the value `x`."""

    def __init__(self, rows: dict[str, str]) -> None:
        self.rows = rows
        self.asked: list[str] = []

    def query(self, sql: str) -> list[list[str | None]]:
        if "pg_class" in sql:
            return [["public", "t", "1", "id", "r"], ["public", "t", "2", "x", "r"]]
        self.asked.append(sql)
        return [[key, value] for key, value in self.rows.items() if f"'{key}'" in sql]


def completed(session: Answers, *messages: bytes) -> list[Values | None]:
    found = list(messages)
    lacking = {at: change for at, message in enumerate(found) if (change := lacks_values(message))}
    complete(found, lacking, {TABLE.oid: TABLE}, session)
    return [pgoutput.change(message).new for message in found]


def test_an_unchanged_large_value_comes_from_the_old_row_if_the_server_sends_it() -> None:
    session = Answers({})
    assert completed(session, update([b"1", UNCHANGED], [b"1", b"long"])) == [[b"1", b"long"]]
    assert not session.asked


def test_an_unchanged_large_value_comes_from_the_table_else_and_one_query_reads_many() -> None:
    session = Answers({"1": "one", "2": "two"})
    messages = update([b"1", UNCHANGED]), update([b"2", UNCHANGED], [b"9", None], b"K"), update([b"3", b"sent"])
    assert completed(session, *messages) == [[b"1", b"one"], [b"2", b"two"], [b"3", b"sent"]]
    assert len(session.asked) == 1


def test_the_large_value_of_a_row_that_is_gone_is_null() -> None:
    assert completed(Answers({}), update([b"1", UNCHANGED])) == [[b"1", None]]

"""Applies updates that lack columns to older rows (decision 60); runs on the driver.

Batches are applied in order: a delete removes the rows of its keys; an update changes all rows of its key, or is a new
row if there is none; the rows that a batch stages are older rows for later batches. Only the places of values are
moved: each value is copied once, at the end.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from calve.arrays import Mask, RowNumbers
from calve.catalog.data_files import default_column
from calve.commit.key_search import KeySearch
from calve.errors import CommitError
from calve.event import duckdb_session
from calve.reduce.absent import lacks
from calve.reduce.key import ABSENT, EVENTS
from calve.table.arrow_schema import arrow_schema
from calve.table.loaded import Table

__all__ = ["AppliedUpdates", "BatchPart", "PartKind", "apply_updates", "incomplete"]


class PartKind(enum.IntEnum):
    """Kinds of rows, in the order in which those of one batch apply."""

    DELETE = 0
    UPDATE = 1
    ROW = 2


class BatchPart(NamedTuple):
    """Rows of one kind.

    Attributes:
        batch: Their batch; 0: the table has them.
        kind: DELETE: keys whose older rows are deleted. UPDATE: with the columns that they had when they were staged,
            `ABSENT` and `EVENTS`; one for each key and batch. ROW: live rows, with all columns.
        rows: The rows.
    """

    batch: int
    kind: PartKind
    rows: pa.Table


class AppliedUpdates(NamedTuple):
    """What became of updates.

    Attributes:
        rows: The rows that they have changed, and new ones, with the table's columns.
        letters: Of each batch the dead letters of its updates that are no rows, as lines of JSON: they lack a required
            column, and there is no older row.
    """

    rows: pa.Table
    letters: Mapping[int, list[bytes]]


def apply_updates(search: KeySearch, table: Table, parts: Sequence[BatchPart]) -> AppliedUpdates:
    """Apply the updates of batches to the rows that are there before them.

    Args:
        search: Of the keys.
        table: The table.
        parts: What is to be applied, in any order.

    Raises:
        CommitError: An update is no row, and its events were not staged.
    """
    parts = sorted(parts, key=lambda part: (part.batch, part.kind))
    state, letters, start = _State(len(table.schema.fields)), dict[int, list[bytes]](), 0
    for part, codes in zip(parts, _codes(search, parts), strict=True):
        places = start + np.arange(len(part.rows))
        start += len(part.rows)
        if part.kind == PartKind.DELETE:
            state.delete(codes)
        elif part.kind == PartKind.ROW:
            state.add(codes, places)
        else:
            absent, is_incomplete = _absences(table, part.rows)
            lost = state.update(codes, places, absent, is_incomplete)
            events = part.rows.column(EVENTS).take(pa.array(lost)).to_pylist()
            if not all(events):
                columns = zip(table.schema.fields, np.logical_or.reduce(absent[:, lost], axis=1), strict=True)
                names = [column.name for column, is_absent in columns if column.required and is_absent]
                raise incomplete(table.identifier, names, len(lost))
            letters.setdefault(part.batch, []).extend(line for lines in events for line in lines)
    return AppliedUpdates(_taken(table, parts, state.sources[:, state.changed]), letters)


def incomplete(table: str, columns: Iterable[str], count: int) -> CommitError:
    """Return the error of updates that are no rows, and whose events nobody has kept."""
    return CommitError(
        f"{count} staged updates of the table {table} lack a required column ({', '.join(columns)}), and no older row "
        "has it",
        step="commit",
        target=table,
        hint="Make the column optional (ALTER TABLE … ALTER COLUMN … DROP NOT NULL), or add the missing rows; "
        "Calve then retries the commit",
    )


def _codes(search: KeySearch, parts: Sequence[BatchPart]) -> list[RowNumbers]:
    """Return a number for the key of each row; -1 if no update has the key."""
    keys = [search.columns(part.rows) for part in parts]
    numbered = pa.concat_tables(keys)
    names = ", ".join(numbered.column_names)
    codes = np.full(len(numbered), -1)
    numbered = numbered.append_column("row", pa.array(np.arange(len(numbered))))
    sql = f"""SELECT row, number FROM rows JOIN
        (SELECT {names}, row_number() OVER () - 1 AS number FROM updates GROUP BY ALL) USING ({names})"""
    updates = pa.concat_tables([rows for part, rows in zip(parts, keys, strict=True) if part.kind == PartKind.UPDATE])
    hits = duckdb_session.run(sql, rows=numbered, updates=updates)
    codes[hits.column("row").to_numpy()] = hits.column("number").to_numpy()
    return np.split(codes, np.cumsum([len(rows) for rows in keys])[:-1])


def _absences(table: Table, updates: pa.Table) -> tuple[npt.NDArray[np.bool_], Mask]:
    """Return which columns updates lack (by column and update), and which updates lack a required one."""
    listed, columns = duckdb_session.one_array(updates.column(ABSENT)), table.schema.fields
    absent = np.array(
        [
            lacks(listed, column.field_id) if column.name in updates.column_names else np.ones(len(updates), bool)
            for column in columns
        ]
    )
    required = absent[[column.required for column in columns]]
    return absent, np.logical_or.reduce(required)


class _State:
    """The rows of keys with updates, after some batches.

    Args:
        columns: How many columns they have.

    Attributes:
        codes: The number of the key of each row.
        sources: By column and row, the place of its value.
        changed: Whether an update has changed or added the row.
    """

    def __init__(self, columns: int) -> None:
        self.codes: RowNumbers = np.zeros(0, np.int64)
        self.sources = np.zeros((columns, 0), np.int64)
        self.changed: Mask = np.zeros(0, bool)

    def add(self, codes: RowNumbers, places: RowNumbers, is_changed: bool = False) -> None:
        """Add rows; those of keys without an update are left out."""
        codes, places = codes[codes >= 0], places[codes >= 0]
        self.codes = np.concatenate([self.codes, codes])
        self.sources = np.concatenate([self.sources, np.tile(places, (len(self.sources), 1))], axis=1)
        self.changed = np.concatenate([self.changed, np.full(len(codes), is_changed)])

    def delete(self, codes: RowNumbers) -> None:
        """Remove the rows of keys."""
        stays = ~np.isin(self.codes, codes)
        self.codes, self.sources, self.changed = self.codes[stays], self.sources[:, stays], self.changed[stays]

    def update(
        self, codes: RowNumbers, places: RowNumbers, absent: npt.NDArray[np.bool_], is_incomplete: Mask
    ) -> RowNumbers:
        """Change rows, or add new ones; return the numbers of the updates that can do neither.

        Args:
            codes: The key of each update.
            places: Where its values are.
            absent: Which columns it lacks, by column and update.
            is_incomplete: Whether it is no row on its own.
        """
        numbers = np.full(max(self.codes.max(initial=0), codes.max(initial=0)) + 1, -1)
        numbers[codes] = np.arange(len(codes))
        number = numbers[self.codes]
        rows = np.flatnonzero(number >= 0)
        for column, is_absent in enumerate(absent):
            given = rows[~is_absent[number[rows]]]
            self.sources[column, given] = places[number[given]]
        self.changed[rows] = True
        is_new = ~np.isin(codes, self.codes)
        self.add(codes[is_new & ~is_incomplete], places[is_new & ~is_incomplete], is_changed=True)
        return np.flatnonzero(is_new & is_incomplete)


def _taken(table: Table, parts: Sequence[BatchPart], sources: npt.NDArray[np.int64]) -> pa.Table:
    """Return rows with the values at these places, by column and row."""
    columns = []
    schema = arrow_schema(table.schema)
    for column, kind, places in zip(table.schema.fields, schema.types, sources, strict=True):
        chunks = [
            chunk
            for _, _, rows in parts
            for chunk in (
                rows.column(column.name).chunks
                if column.name in rows.column_names
                else [default_column(kind, column.initial_default, len(rows))]
            )
        ]
        columns.append(pa.chunked_array(chunks, kind).take(pa.array(places)))
    return pa.table(columns, schema=schema)

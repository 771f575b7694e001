"""Finds rows by all their columns, for deletes of tables without a key: one of several equal rows each; on the driver.

NULL is equal to NULL, and NaN to NaN; 0.0 and -0.0 are two values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.schema import Schema

from calve.arrays import RowNumbers
from calve.catalog.data_files import StoredFile, chosen_rows
from calve.commit.key_search import KeyRange, SearchedFile, key_range, reading
from calve.errors import CommitError
from calve.event import duckdb_session
from calve.reduce.full_rows import COPIES
from calve.table.loaded import Table

__all__ = ["FullRowSearch", "unreadable"]

_JOIN_BYTES = 128 << 20
"""The bytes of rows that are joined at once."""


class _Rows(NamedTuple):
    """Rows of a file, and the number of the first one."""

    path: str
    start: int
    rows: pa.Table


class FullRowSearch:
    """The rows to delete, known by the same columns.

    Args:
        table: The table.
        ids: The field ids of these columns.
        deletes: The rows, with `COPIES`; columns that the table has lost meanwhile no longer count.

    Attributes:
        left: How many copies of each row are not found yet.
    """

    def __init__(self, table: Table, ids: Sequence[int], deletes: Iterable[pa.Table]) -> None:
        fields = [field for field in table.schema.fields if field.field_id in set(ids)]
        schema = Schema(*(field.model_copy(update={"required": False}) for field in fields))
        self.table = replace(table, schema_json=schema.model_dump_json())
        self.ids = [field.field_id for field in fields if field.field_type.is_primitive]
        rows = pa.concat_tables(deletes)
        compared = _compared(rows.select([field.name for field in fields]))
        self._names = compared.column_names
        names = ", ".join(self._names)
        sql = f"SELECT {names}, sum(copies)::BIGINT AS copies FROM rows GROUP BY ALL"
        self._deletes = duckdb_session.run(sql, rows=compared.append_column("copies", rows.column(COPIES)))
        self.left = self._deletes.column("copies").to_numpy().copy()
        numbers = pa.array(np.arange(len(self._deletes)))
        self._deletes = self._deletes.drop_columns(["copies"]).append_column("number", numbers)
        self._ranges = {
            field.field_id: values
            for field in fields
            if field.field_id in self.ids
            and not rows.column(field.name).null_count
            and (values := _range(rows.column(field.name)))
        }

    def matching(self, files: Iterable[SearchedFile]) -> list[SearchedFile]:
        """Return the files that may have one of the rows."""
        return [file for file in files if self._may_match(file)]

    def _may_match(self, file: SearchedFile) -> bool:
        for number, values in self._ranges.items():
            lower, upper = file.lower.get(number), file.upper.get(number)
            if lower is not None and upper is not None and not values.meets(lower, upper):
                return False
        return True

    def find(
        self, files: Iterable[SearchedFile], hidden: Callable[[str], RowNumbers]
    ) -> Iterator[tuple[str, RowNumbers]]:
        """Yield rows to delete, as many of each as are left; it reads no more files than it must.

        Args:
            files: Where to search.
            hidden: Returns the rows of a file that are deleted already.

        Yields:
            The path of a file, and numbers of its rows; a path may come several times.

        Raises:
            CommitError: Only Spark can read a file, or it is damaged.
            SinkUnavailableError: A file cannot be read at the moment.
        """
        parts: list[_Rows] = []
        size_bytes = 0
        for file in files:
            if not self.left.any():
                return
            for part in self._read(file):
                parts.append(part)
                size_bytes += part.rows.nbytes
                if size_bytes >= _JOIN_BYTES:
                    yield from self._chosen(parts, hidden)
                    parts, size_bytes = [], 0
        if parts:
            yield from self._chosen(parts, hidden)

    def _read(self, file: SearchedFile) -> Iterator[_Rows]:
        start = 0
        with reading(file.path):
            try:
                for rows in chosen_rows(StoredFile(file.path), self.table, np.ones(file.rows, bool)):
                    yield _Rows(file.path, start, _compared(rows))
                    start += len(rows)
            except pa.ArrowException as error:
                raise unreadable(self.table, str(error)) from error

    def _chosen(self, parts: Sequence[_Rows], hidden: Callable[[str], RowNumbers]) -> Iterator[tuple[str, RowNumbers]]:
        rows = pa.concat_tables([part.rows for part in parts])
        same = " AND ".join(f"rows.{name} IS NOT DISTINCT FROM deletes.{name}" for name in self._names)
        sql = f"SELECT rows.row, deletes.number FROM rows JOIN deletes ON {same} ORDER BY row"
        hits = duckdb_session.run(
            sql, rows=rows.append_column("row", pa.array(np.arange(len(rows)))), deletes=self._deletes
        )
        places, numbers = hits.column("row").to_numpy(), hits.column("number").to_numpy()
        starts = np.cumsum([0, *(len(part.rows) for part in parts)])
        which = np.searchsorted(starts, places, "right") - 1
        for at in np.unique(which):
            part, of_part = parts[at], which == at
            rows_of_part, number = places[of_part] - starts[at] + part.start, numbers[of_part]
            is_live = ~np.isin(rows_of_part, hidden(part.path))
            rows_of_part, number = rows_of_part[is_live], number[is_live]
            chosen = _rank(number) < self.left[number]
            self.left -= np.bincount(number[chosen], minlength=len(self.left))
            if chosen.any():
                yield part.path, rows_of_part[chosen]


def unreadable(table: Table, why: str) -> CommitError:
    """Return the error of rows that cannot be found without a key."""
    return CommitError(
        f"Rows of {table.identifier}, which has no key, cannot be found: {why}",
        step="commit",
        target=table.identifier,
        hint=f"Run `calve maintain {table.identifier}`; Calve then tries again",
    )


def _rank(numbers: RowNumbers) -> RowNumbers:
    """Return how many of the values before each are equal to it."""
    order = np.argsort(numbers, kind="stable")
    ordered = numbers[order]
    firsts = np.flatnonzero(np.diff(ordered, prepend=-1))
    rank = np.empty(len(numbers), np.int64)
    rank[order] = np.arange(len(numbers)) - np.repeat(firsts, np.diff([*firsts, len(numbers)]))
    return rank


def _compared(rows: pa.Table) -> pa.Table:
    """Return columns whose values are equal, for DuckDB, if those of rows are the same.

    The values of nested columns are compared as texts, too: there 0.0 and -0.0 are equal numbers.
    """
    columns = [_plain(column) for column in rows.columns]
    nested = [at for at, column in enumerate(columns) if pa.types.is_nested(column.type)]
    names = [f"c{at}" for at, _ in enumerate(columns)]
    compared = pa.table(columns, names)
    if not nested:
        return compared
    texts = ", ".join(f"c{at}::VARCHAR AS t{at}" for at in nested)
    return duckdb_session.run(f"SELECT *, {texts} FROM rows", rows=compared)


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    kind = column.type
    if isinstance(kind, pa.BaseExtensionType):
        return column.cast(kind.storage_type)
    if pa.types.is_null(kind):
        return column.cast(pa.bool_())
    if not pa.types.is_floating(kind):
        return column
    bits = pa.int32() if kind == pa.float32() else pa.int64()
    same = pc.if_else(pc.is_nan(column), pa.scalar(float("nan"), kind), column)
    return pa.chunked_array([chunk.view(bits) for chunk in same.chunks], bits)


def _range(column: pa.ChunkedArray) -> KeyRange | None:
    """Return the values of a column for comparisons with bounds; None for types without bounds to rely on."""
    small = {pa.large_string(): pa.string(), pa.large_binary(): pa.binary()}.get(column.type, column.type)
    return None if pa.types.is_floating(small) else key_range(column.cast(small), small)

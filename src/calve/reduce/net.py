"""The net effect of changes: computed from the first and the last operation of each key.

The first operation decides whether an older row may exist, the last one whether a row remains. So a batch writes at
most one row and one delete per key, and nothing for a row that it inserts and deletes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from calve.event import duckdb_session
from calve.event.operation import Operation
from calve.reduce.compose import compose
from calve.reduce.key import ABSENT, EVENTS, Key

__all__ = ["KeyedChanges", "Net"]

_FIRST = pc.ScalarAggregateOptions(skip_nulls=False)


@dataclass(frozen=True)
class Net:
    """The rows and deletes to write.

    Attributes:
        rows: At most one row per key.
        replaced: For each row, whether it may replace an older one.
        replaced_keys: The keys (`Key.schema`) of these rows.
        gone: The keys whose older row is deleted and not replaced.
        partial: Updates that need values of the older row, with `LACKING`; None if no update lacks columns. If a key is
            in `gone`, too, its row is deleted first, and no older value remains.
    """

    rows: pa.Table
    replaced: pa.Array
    replaced_keys: pa.Table
    gone: pa.Table
    partial: pa.Table | None = None

    @property
    def deletes(self) -> pa.Table:
        """All keys whose older row is deleted."""
        return pa.concat_tables([self.replaced_keys, self.gone])


class KeyedChanges:
    """All changes of one table in a batch; runs on an executor.

    Args:
        key: The table's key.
        schema: The Arrow schema of its rows.
        upsert: An INSERT replaces an older row of the same key.
    """

    def __init__(self, key: Key, schema: pa.Schema, upsert: bool) -> None:
        self._key = key
        self._schema = schema
        self._upsert = upsert
        self._rows: list[pa.Table] = []
        self._keys: list[pa.Table] = []
        self._found: list[pa.Table] = []
        self._lacking: list[pa.Table] = []
        self._row_count = 0

    def add(self, rows: pa.Table, operations: pa.Array, order: pa.Array, lacking: pa.Table | None = None) -> None:
        """Add inserts and updates.

        Args:
            rows: Typed rows.
            operations: The `Operation` (int8) of each.
            order: The position of each in the source's order (int64).
            lacking: The absent columns of each, which keep their older value (`LACKING`); in all calls or in none.
        """
        self._lacking += [] if lacking is None else [lacking]
        numbers = pa.array(np.arange(self._row_count, self._row_count + len(rows), dtype=np.int64))
        self._row_count += len(rows)
        self._rows.append(rows)
        self._note(self._key.of(rows), operations, order, numbers)

    def delete(self, keys: pa.Table, order: pa.Array) -> None:
        """Add deletes: rows of `Key.schema` and their positions in the source's order."""
        operations = pa.repeat(pa.scalar(Operation.DELETE, pa.int8()), len(keys))
        self._note(keys, operations, order, pa.nulls(len(keys), pa.int64()))

    def net(self) -> Net:
        """Return the net effect of all changes."""
        if not self._found:
            no_keys = _empty(self._key.arrow_schema)
            return Net(_empty(self._schema), pa.array([], pa.bool_()), no_keys, no_keys)
        changes = pa.concat_tables(self._found)
        changes = changes.append_column("at", pa.array(np.arange(len(changes), dtype=np.int64)))
        changes = changes if _ascends(changes["order"]) else changes.sort_by("order")
        net = _by_key(changes)
        first_operation = net.column("operation_first")
        deleted = (
            pc.true_unless_null(first_operation)
            if self._upsert
            else pc.not_equal(first_operation, pa.scalar(0, pa.int8()))
        )
        remains = pc.not_equal(net.column("operation_last"), pa.scalar(int(Operation.DELETE), pa.int8()))
        remaining = net.append_column("deleted", deleted).filter(remains)
        remaining = remaining if _ascends(remaining["row_last"]) else remaining.sort_by("row_last")
        rows = pa.concat_tables(self._rows) if self._rows else _empty(self._schema)
        gone = net.filter(pc.and_not(deleted, remains)).column("at_first")
        if self._lacking and len(remaining):
            return self._net_of_partial(changes, remaining, rows, gone)
        if len(remaining) < len(rows):  # else every row remains, in order
            rows = rows.take(remaining.column("row_last").combine_chunks())
        return self._net(rows, remaining, gone)

    def _net(self, rows: pa.Table, remaining: pa.Table, gone: pa.ChunkedArray) -> Net:
        """Return the rows of the keys in `remaining`, and the deleted keys; `gone` has an event position of each."""
        keys = pa.concat_tables(self._keys)
        replaced = remaining.column("deleted").combine_chunks()
        return Net(rows, replaced, keys.take(remaining.filter(replaced).column("at_first")), keys.take(gone))

    def _net_of_partial(self, changes: pa.Table, remaining: pa.Table, rows: pa.Table, gone: pa.ChunkedArray) -> Net:
        """Return the net effect if updates may lack columns."""
        lacking = pa.concat_tables(self._lacking)
        absent = duckdb_session.one_array(lacking.column(ABSENT))
        last = remaining.column("row_last").combine_chunks()
        lacks = pc.greater(pc.list_value_length(absent.take(last)), 0)
        full, short = remaining.filter(pc.invert(lacks)), remaining.filter(lacks)
        if not len(short):
            return self._net(rows.take(last), remaining, gone)
        joined = compose(changes, short, rows, lacking, self._key.others)
        still = pc.greater(pc.list_value_length(joined.absent), 0)
        is_complete = pc.invert(still)
        written = [rows.take(full.column("row_last").combine_chunks()), joined.rows.filter(is_complete)]
        fresh = short.filter(pa.array(joined.fresh)).column("at_first")
        gone = pa.chunked_array([*gone.chunks, *fresh.chunks], gone.type)
        net = self._net(pa.concat_tables(written), pa.concat_tables([full, short.filter(is_complete)]), gone)
        partial = joined.rows.append_column(ABSENT, joined.absent).append_column(EVENTS, joined.events).filter(still)
        return replace(net, partial=partial if len(partial) else None)

    def _note(self, keys: pa.Table, operations: pa.Array, order: pa.Array, rows: pa.Array) -> None:
        flat = {f"key_{number}": column for number, column in enumerate(self._key.flat(keys))}
        self._keys.append(keys)
        self._found.append(pa.table({**flat, "operation": operations, "order": order, "row": rows}))


def _by_key(changes: pa.Table) -> pa.Table:
    """Return the first and the last operation of each key. Keys that ascend, as those of a load, have one each."""
    names = [name for name in changes.column_names if name.startswith("key_")]
    if len(names) == 1 and _ascends(changes[names[0]]):
        operation, row, at = changes["operation"], changes["row"], changes["at"]
        columns = {"operation_first": operation, "operation_last": operation, "row_last": row, "at_first": at}
        return pa.table({names[0]: changes[names[0]], **columns})
    return changes.group_by(names, use_threads=False).aggregate(
        [("operation", "first", _FIRST), ("operation", "last", _FIRST), ("row", "last", _FIRST), ("at", "first")]
    )


def _ascends(column: pa.ChunkedArray) -> bool:
    """Return whether integers are each greater than the one before."""
    if column.null_count or not pa.types.is_integer(column.type):
        return False
    numbers = column.to_numpy()
    return bool((numbers[1:] > numbers[:-1]).all())


def _empty(schema: pa.Schema) -> pa.Table:
    """Return a table without rows; `Schema.empty_table` knows no lists of UUIDs (Arrow 26)."""
    return pa.Table.from_batches([], schema=schema)

"""Turns the events of one table into rows and deletes: converts, checks the key, reduces to the net effect."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from calve.arrays import RowNumbers
from calve.convert.converter import ConvertedEvents, Converter, ConvertOptions
from calve.convert.defaults import Defaults
from calve.event import duckdb_session
from calve.event.columns import EVENT, JSON, KEY, OPERATION, ORDER, SCHEMA, TYPED
from calve.event.envelope.schema import field_of
from calve.event.operation import Operation
from calve.event.reject import Code, reject_rows
from calve.event.validate_json import is_same
from calve.reduce.absent import Absences
from calve.reduce.key import Key
from calve.reduce.net import KeyedChanges, Net
from calve.table.loaded import Table

__all__ = ["Reducer"]


class Reducer:
    """The changes of one table in one task; runs on an executor.

    Args:
        table: The table.
        key: Its key, which is complete.
        options: How events are converted.
        upsert: An INSERT replaces an older row of the same key.
        keep: An UPDATE keeps the columns that its event lacks.
        from_key: Events are of records whose key has the columns of the table's key.

    Attributes:
        table: The table for writing rows: its key columns are required.
    """

    def __init__(
        self,
        table: Table,
        key: Key,
        options: ConvertOptions,
        upsert: bool,
        keep: bool = False,
        from_key: bool = False,
    ) -> None:
        self.table = key.required
        self.key = key
        self._from_key = from_key
        self._absences = Absences(key, options) if keep else None
        self._defaults = Defaults(self.table, options, key.names)
        may_lack = frozenset(key.others) if keep else frozenset[str]()
        self._rows = Converter(self.table, replace(options, may_lack=may_lack), fills=False)
        only_key = replace(options, look_for_unknown=False, count_ignored=False, rules=())
        self._deletes = Converter(key.only, only_key, fills=False)
        self._needs = dict.fromkeys((EVENT, TYPED, ORDER, SCHEMA, *(name for _, name in options.metadata)))
        self._changes = KeyedChanges(key, self._rows.arrow_schema, upsert)

    def convert(self, events: pa.Table) -> ConvertedEvents:
        """Convert events with the column `_order`, and `_operation` unless all are INSERTs.

        Returns:
            The positions of the accepted events, rejects, nulled values and unknown fields. `rows` are those of inserts
            and updates; this object keeps them for `net`.
        """
        if self._from_key and len(others := _with_other_key(events, self.key.names)):
            return self._without(events, others)
        if OPERATION not in events.column_names:
            operations = pa.repeat(pa.scalar(int(Operation.INSERT), pa.int8()), len(events))
            return self._insert(events, operations, None)
        operations = events.column(OPERATION).combine_chunks()
        is_delete = pc.equal(operations, pa.scalar(int(Operation.DELETE), pa.int8()))
        positions = pc.indices_nonzero(is_delete).cast(pa.int64())
        if not len(positions):
            return self._insert(events, operations, None)
        removed = self._delete(self._part(events, positions), positions)
        others = pc.indices_nonzero(pc.invert(is_delete)).cast(pa.int64())
        written = self._insert(self._part(events, others), operations.take(others), others)
        rejects = pa.concat_tables([written.rejects, removed.rejects])
        return replace(written, row=pa.concat_arrays([written.row, removed.row]), rejects=rejects)

    def _without(self, events: pa.Table, others: RowNumbers) -> ConvertedEvents:
        """Reject the events whose record has a key of other columns, and convert the rest."""
        positions = pa.array(np.setdiff1d(np.arange(len(events)), others))
        converted = self.convert(events.take(positions))
        at = positions.take(converted.rejects["row"].combine_chunks())
        names = ", ".join(self.key.names)
        why = f"the record's key has other columns than the key of the table, {names}"
        rejects = [converted.rejects.set_column(0, "row", at)]
        rejects.append(reject_rows(pa.array(others), Code.KEY_MISMATCH, "", why))
        return replace(converted, row=positions.take(converted.row), rejects=pa.concat_tables(rejects))

    def net(self) -> Net:
        """Return the net effect of all changes."""
        return self._changes.net()

    def _insert(self, events: pa.Table, operations: pa.Array, positions: pa.Array | None) -> ConvertedEvents:
        is_whole = None  # an update that keeps the columns which it lacks has no use for defaults
        if self._absences:
            is_whole = pc.not_equal(operations, pa.scalar(int(Operation.UPDATE), pa.int8())).to_numpy(False)
        converted = self._rows.convert(self._defaults.fill(events, is_whole))
        lacking = None
        if self._absences:
            converted = self._reject_incomplete(converted, operations)
            updates = pc.equal(operations.take(converted.row), pa.scalar(int(Operation.UPDATE), pa.int8()))
            lacking = self._absences.of(events, converted.row, converted.rows, updates)
        if len(converted.rows):
            order = events.column(ORDER).take(converted.row).combine_chunks()
            self._changes.add(converted.rows, operations.take(converted.row), order, lacking)
        return self._finish(converted, positions, (Code.REQUIRED_MISSING,))

    def _reject_incomplete(self, converted: ConvertedEvents, operations: pa.Array) -> ConvertedEvents:
        """Reject inserts that lack a required column; only updates may lack one."""
        inserts = pc.not_equal(operations.take(converted.row), pa.scalar(int(Operation.UPDATE), pa.int8()))
        good, rejects = np.ones(len(converted.rows), bool), [converted.rejects]
        for field in converted.rows.schema:
            column = converted.rows.column(field.name)
            if field.nullable or not column.null_count:
                continue
            bad = good & pc.and_(inserts, column.is_null()).to_numpy()
            why = "a required field is missing"
            rejects.append(reject_rows(converted.row.filter(pa.array(bad)), Code.REQUIRED_MISSING, field.name, why))
            good &= ~bad
        if good.all():
            return converted
        rows, row = converted.rows.filter(pa.array(good)), converted.row.filter(pa.array(good))
        return replace(converted, rows=rows, row=row, rejects=pa.concat_tables(rejects))

    def _delete(self, events: pa.Table, positions: pa.Array) -> ConvertedEvents:
        """Convert deletes; only their key matters."""
        converted = self._deletes.convert(events)
        if len(converted.rows):
            self._changes.delete(converted.rows, events.column(ORDER).take(converted.row).combine_chunks())
        return self._finish(converted, positions, (Code.REQUIRED_MISSING, Code.NO_MATCHING_FIELDS))

    def _finish(
        self, converted: ConvertedEvents, positions: pa.Array | None, codes: tuple[Code, ...]
    ) -> ConvertedEvents:
        """Convert positions to those among all events, and replace the code of a missing key."""
        rejected = []
        for reject in converted.rejects.to_pylist():
            lacks = reject["code"] in codes and (not reject["field"] or self._is_key(reject["field"]))
            name = reject["field"] or ", ".join(self.key.names)
            row = reject["row"] if positions is None else positions[reject["row"]].as_py()
            no_key = {"code": Code.NO_KEY.value, "field": name, "reason": f"the identifier column {name} has no value"}
            rejected.append({**reject, **(no_key if lacks else {}), "row": row})
        rejects = pa.Table.from_pylist(rejected, schema=converted.rejects.schema)
        row = converted.row if positions is None else positions.take(converted.row)
        return replace(converted, row=row, rejects=rejects)

    def _part(self, events: pa.Table, positions: pa.Array) -> pa.Table:
        """Select some events with the columns that conversion needs; a text in two columns is copied once."""
        part = events.select([name for name in self._needs if name in events.column_names]).take(positions)
        if JSON not in events.column_names:
            return part
        if is_same(duckdb_session.one_array(events[EVENT]), duckdb_session.one_array(events[JSON])):
            return part.append_column(JSON, part[EVENT].cast(pa.string()))
        return part.append_column(JSON, events[JSON].take(positions))

    def _is_key(self, field: str) -> bool:
        return any(name == field or name.startswith(f"{field}.") for name in self.key.names)


def _with_other_key(events: pa.Table, names: Sequence[str]) -> RowNumbers:
    """Return the positions of events whose record has no key of exactly these columns, in any order."""
    if KEY not in events.column_names:
        return np.arange(len(events))
    column = duckdb_session.one_array(events[KEY].unify_dictionaries())
    keys = [{field.name for field in field_of(text).fields} for text in column.dictionary.to_pylist()]
    same = [code for code, columns in enumerate(keys) if columns == set(names)]
    return np.flatnonzero(~np.isin(column.indices.fill_null(-1).to_numpy(), same))

"""Finds the tables of each event of a batch: route conditions and `${…}` table names, in one SELECT."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from calve.compiled import events as core
from calve.event import duckdb_session
from calve.event.columns import EVENT, JSON, OPERATION, ORIGINAL, PICKED, SINK, TYPED
from calve.event.operation import Operation, operation_sql
from calve.event.reject import Code, reject_rows
from calve.event.typed import is_typed
from calve.event.validate_json import picked_array, whole_array
from calve.expression import Condition, Format
from calve.route.by_table import ByTable
from calve.route.joined import joined, operations_of
from calve.route.sink_route import Fork, RouteGate, SinkRoute

__all__ = ["Routed", "Router"]

_ROWS_A_CHOICE = 4
"""With less rows for each combination of metadata, every row is evaluated by itself."""
_FEW = 1 << 16  # numbers of 16 bits are sorted by radix


@dataclass
class Routed:
    """The events of one batch, by sink and table.

    Attributes:
        parts: (sink number, table name, positions in the batch or None for all rows), positions ascending.
        rejects: `REJECTS` by sink number: rows whose table name is invalid or cannot be evaluated, or whose operation
            is unknown.
        unrouted: How many rows neither a sink nor a fork gets.
        forks: The rows that each fork gets; None: all.
        operations: The `Operation` of every row (int8) by sink number, for sinks with the setting.
    """

    parts: list[tuple[int, str, pa.Array | None]]
    rejects: dict[int, pa.Table]
    unrouted: int = 0
    operations: dict[int, pa.Array] = field(default_factory=dict)
    forks: list[pa.Array | None] = field(default_factory=list)

    def unpicked(self, rows: pa.Table) -> pa.Table:
        """Return rows without the fields that only routes read."""
        return rows.drop_columns([PICKED]) if PICKED in rows.column_names else rows

    def rows(self, rows: pa.Table, number: int, positions: pa.Array | None = None) -> pa.Table:
        """Select the rows of a part, with `_operation` if the sink has the setting."""
        rows = self.unpicked(rows)
        if number in self.operations:
            rows = rows.append_column(OPERATION, self.operations[number])
        return rows if positions is None else rows.take(positions)


class Router:
    """Compiled routes of a pipeline; runs on executors.

    Args:
        sinks: The sinks, in order.
        numbers: Their numbers in the pipeline; None: these are all of its sinks.
        forks: The ways to other processors.

    Attributes:
        fields: All fields of an event that are read; None if this may be any field, or metadata.
        reads_fields: Whether fields of an event may be read; if only metadata is, typed rows need no text.
    """

    def __init__(
        self, sinks: list[SinkRoute], numbers: Sequence[int] | None = None, forks: Sequence[Fork] = ()
    ) -> None:
        self._sinks = dict(zip(range(len(sinks)) if numbers is None else numbers, sinks, strict=True))
        self._forks = forks
        self._columns = _columns(self._sinks, forks)
        read = [expression for sink in sinks for expression in sink.read]
        read += [condition for fork in forks for condition in fork.read]
        self._metadata = sorted(frozenset[str]().union(*(expression.metadata for expression in read)))
        self.fields = _fields(read)
        self.reads_fields = any(expression.fields is None or expression.fields for expression in read)

    def scan_prefix(self, events: pa.Table) -> pa.Table | None:
        """Return events with the fields that routes read, of which the core finds the first ones; null: none.

        The rest of an event may decide otherwise. None without a core, or where these fields do not decide the table.
        """
        [sink, *others] = self._sinks.values()
        is_enough = not others and not sink.gates and not sink.operations and not self._forks
        scanned = (
            core.pick(whole_array(events[EVENT]), self.fields, is_whole=False) if self.fields and is_enough else None
        )
        return None if scanned is None else events.append_column(PICKED, picked_array(*scanned))

    @property
    def is_static(self) -> bool:
        """Whether every event goes to the same table of every sink, so that nothing needs evaluation."""
        return not self._columns

    def route(self, rows: pa.Table) -> Routed:
        """Route rows that have a `json` column of valid JSON objects (not needed unless `reads_fields`)."""
        evaluated = self._evaluate(rows) if self._columns else pa.table({})
        routed = Routed([], {})
        selected = None
        for number, fork in enumerate(self._forks):
            mask = _matching(evaluated, f"fork_{number}") if fork.gates else None
            mask = _meant_for(fork.sinks, rows, mask)
            selected = _either(selected, mask, len(rows))
            routed.forks.append(mask)
        for number, sink in self._sinks.items():
            mask = _matching(evaluated, f"sink_{number}") if sink.gates else None
            mask = _meant_for([number], rows, mask)
            selected = _either(selected, mask, len(rows))
            rejects: list[pa.Table] = []
            if sink.operations:
                mask, rejects = _operations(routed, number, _words(sink, number, evaluated), mask)
            rejects += self._set_tables(routed, number, evaluated, mask)
            if rejects:
                routed.rejects[number] = pa.concat_tables(rejects)
        if selected is not None and not isinstance(selected, bool):
            routed.unrouted = len(rows) - (pc.sum(selected).as_py() or 0)
        return routed

    def _evaluate(self, rows: pa.Table) -> pa.Table:
        """Evaluate all columns, once for each distinct choice of what they read, where that is less than the rows."""
        columns = ", ".join(f"{sql} as {name}" for name, sql in self._columns.items())
        sql = f"select {columns} from events"
        if choices := self._choices(rows):
            evaluated = self._joined(choices[1])
            return _chosen(duckdb_session.run(sql, events=choices[1]) if evaluated is None else evaluated, choices[0])
        if not self.reads_fields and (evaluated := self._joined(rows)) is not None:
            return evaluated
        structs = {TYPED, ORIGINAL}.intersection(rows.column_names) if is_typed(rows) else ()
        return duckdb_session.run(sql, events=rows.drop_columns([*structs]))

    def _choices(self, rows: pa.Table) -> tuple[pa.Array, pa.Table] | None:
        """Return for each row the number of what is read of it, and a table of all that is read; None: too much."""
        if not self.reads_fields:
            return _combinations(rows, self._metadata)
        if PICKED in rows.column_names:
            picked = duckdb_session.one_array(rows[PICKED])
            return picked.indices, pa.table({JSON: picked.dictionary})
        scanned = core.pick(whole_array(rows[JSON]), self.fields) if self.fields and not is_typed(rows) else None
        if scanned is None or pc.any(pc.less(scanned[0], 0)).as_py():
            return None
        return scanned[0], pa.table({JSON: scanned[1]})

    def _joined(self, rows: pa.Table) -> pa.Table | None:
        """Evaluate all columns without SQL; None: this is not possible."""
        columns: dict[str, pa.Array | None] = {}
        if any(fork.gates for fork in self._forks):
            return None
        for number, sink in self._sinks.items():
            if sink.gates:
                return None
            if sink.table.static is None:
                columns[f"table_{number}"] = joined(sink.table, rows, is_name=True)
            for at, text, is_full in sink.operations:
                words = joined(text, rows)
                columns[f"operation_{number}_{at}"] = None if words is None else operations_of(words, is_full)
            if any(column is None for column in columns.values()):
                return None
        return pa.table(columns)

    def _set_tables(self, routed: Routed, number: int, evaluated: pa.Table, mask: pa.Array | None) -> list[pa.Table]:
        """Set the tables of the rows of a mask; return the rejects."""
        sink = self._sinks[number]
        chosen = None if mask is None or mask.true_count == len(mask) > 0 else _positions(mask)
        if sink.table.static is not None:
            if chosen is None or len(chosen):
                routed.parts.append((number, sink.table.static, chosen))
            return []
        names = evaluated.column(f"table_{number}").combine_chunks()
        names = names if chosen is None else names.take(chosen)
        rejects = []
        missing = _positions(names.is_null())
        if len(missing):
            rejects.append(reject_rows(_back(missing, chosen), *sink.refusal(None)))
        for name, here in _groups(names):
            at = chosen if here is None else _back(here, chosen)
            if sink.fault(name):
                at = pa.array(range(len(names)), pa.int64()) if at is None else at
                rejects.append(reject_rows(at, *sink.refusal(name)))
            else:
                routed.parts.append((number, name, at))
        return rejects


def _words(sink: SinkRoute, number: int, evaluated: pa.Table) -> pa.Array:
    """Return the `Operation` (int8) of each row, by the table that it goes to; null for an unknown word."""
    columns: list[pa.Array | pa.Scalar] = [pa.scalar(int(Operation.INSERT), pa.int8())] * len(sink.operation.values())
    for at, _, _ in sink.operations:
        columns[at] = evaluated.column(f"operation_{number}_{at}").combine_chunks()
    if not sink.operation.own:
        return columns[0]
    names = evaluated.column(f"table_{number}").combine_chunks().dictionary_encode()
    numbers = ByTable(0, tuple((pattern, at) for at, (pattern, _) in enumerate(sink.operation.own, 1)))
    by_name = pa.array([numbers.of(name) if name else 0 for name in names.dictionary.to_pylist()], pa.int64())
    return pc.choose(pc.fill_null(by_name.take(names.indices), 0), *columns)


def _operations(
    routed: Routed, number: int, operations: pa.Array, mask: pa.Array | None
) -> tuple[pa.Array, list[pa.Table]]:
    """Set a sink's operations; return the mask without rejected and skipped rows, and the rejects."""
    routed.operations[number] = operations
    selected = pa.repeat(True, len(operations)) if mask is None else mask
    wrong = _positions(pc.and_(selected, operations.is_null()))
    meant = pc.fill_null(pc.not_equal(operations, pa.scalar(int(Operation.SKIPPED), pa.int8())), False)
    why = "operation is not a word for INSERT, UPDATE or DELETE"
    return pc.and_(selected, meant), [reject_rows(wrong, Code.UNKNOWN_OPERATION, "operation", why)] if len(
        wrong
    ) else []


def _columns(sinks: Mapping[int, SinkRoute], forks: Sequence[Fork]) -> dict[str, str]:
    """Return the columns of the SELECT: `sink_<n>`, `fork_<n>` (does the row match), `table_<n>`, `operation_<n>`."""
    columns = {f"fork_{number}": _all_of(fork.gates) for number, fork in enumerate(forks) if fork.gates}
    for number, sink in sinks.items():
        if sink.gates:
            columns[f"sink_{number}"] = _all_of(sink.gates)
        if sink.table.static is None:
            columns[f"table_{number}"] = sink.table.name_sql
        columns |= {
            f"operation_{number}_{at}": operation_sql(text.sql, is_full) for at, text, is_full in sink.operations
        }
    return columns


def _all_of(gates: Sequence[RouteGate]) -> str:
    return " and ".join(gate.sql for gate in gates)


def _fields(read: Sequence[Condition | Format]) -> list[str] | None:
    """Return the fields of an event that expressions read; None if they may read any, or metadata."""
    names: set[str] = set()
    for expression in read:
        if expression.fields is None or expression.metadata or any("\0" in name for name in expression.fields):
            return None
        names |= expression.fields
    return sorted(names)


def _combinations(rows: pa.Table, names: Sequence[str]) -> tuple[pa.Array, pa.Table] | None:
    """Return for each row the number of a combination of values of some columns, and the table of these combinations.

    None where there are too many of them, or where the columns are nested.
    """
    names = [name for name in names if name in rows.column_names]
    if not names or any(rows.schema.field(name).type.num_fields for name in names):
        return None
    encoded = [duckdb_session.one_array(rows[name]).dictionary_encode("encode") for name in names]
    sizes = [len(column.dictionary) for column in encoded]
    if not 0 < _ROWS_A_CHOICE * math.prod(sizes) <= len(rows):
        return None
    numbers = np.ravel_multi_index([column.indices.to_numpy() for column in encoded], sizes)
    every = np.indices(sizes).reshape(len(sizes), -1)
    values = [column.dictionary.take(pa.array(at)) for column, at in zip(encoded, every, strict=True)]
    return pa.array(numbers), pa.table(values, names)


def _chosen(values: pa.Table, numbers: pa.Array) -> pa.Table:
    """Return the rows with these numbers; texts as a dictionary."""
    arrays = [duckdb_session.one_array(column) for column in values.columns]
    arrays = [array.dictionary_encode() if pa.types.is_string(array.type) else array for array in arrays]
    return pa.table([array.take(numbers) for array in arrays], values.column_names)


def _matching(evaluated: pa.Table, name: str) -> pa.Array:
    return pc.fill_null(evaluated.column(name).combine_chunks(), False)


def _meant_for(numbers: Collection[int], rows: pa.Table, mask: pa.Array | None) -> pa.Array | None:
    """Remove from a mask (None: all rows) the rows that are only for other sinks than these."""
    if SINK not in rows.column_names or not len(rows):
        return mask
    only = rows.column(SINK).combine_chunks()
    mine = pc.or_(only.is_null(), pc.is_in(only, pa.array([*numbers], only.type)))
    return mine if mask is None else pc.and_(mask, mine)


def _either(selected: pa.Array | bool | None, mask: pa.Array | None, count: int) -> pa.Array | bool:
    """Join the rows of earlier sinks with those of this one; True: all rows."""
    if mask is None or selected is True:
        return True
    return mask if selected is None else pc.or_(selected, mask)


def _groups(names: pa.Array) -> Iterator[tuple[str, pa.Array | None]]:
    """Yield each distinct name with its positions; None: all. One sort for any number of names."""
    coded = names.dictionary_encode()
    codes = coded.indices.fill_null(len(coded.dictionary)).to_numpy()  # nulls at the end
    counts = np.bincount(codes, minlength=len(coded.dictionary))[: len(coded.dictionary)]
    if np.count_nonzero(counts) == 1 and not coded.null_count:
        yield coded.dictionary[int(codes[0])].as_py(), None
        return
    few = codes.astype(np.uint16) if len(counts) < _FEW else codes
    order = pa.array(np.argsort(few, kind="stable"))
    start = 0
    for name, count in zip(coded.dictionary.to_pylist(), counts.tolist(), strict=True):
        if count:
            yield name, order.slice(start, count)
            start += count


def _positions(mask: pa.Array) -> pa.Array:
    return pc.indices_nonzero(mask).cast(pa.int64())


def _back(positions: pa.Array, chosen: pa.Array | None) -> pa.Array:
    return positions if chosen is None else chosen.take(positions)

"""Finds the tables of each event of a batch: route conditions and `${…}` table names, in one SELECT."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
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
from calve.route.names import fault

__all__ = ["RouteGate", "Routed", "Router", "SinkRoute"]

DEFAULT_ROUTE = "_default"
_FIXED = "text"
"""The kind of a piece of a format that is no value of an event."""
_ROWS_A_CHOICE = 4
"""With less rows for each combination of metadata, every row is evaluated by itself."""
_FEW = 1 << 16  # numbers of 16 bits are sorted by radix


_NO_OPERATION = ByTable[Format | None](None)


@dataclass(frozen=True)
class RouteGate:
    """The routes of one pipeline that an event must match before a sink.

    Attributes:
        pipeline: Its name.
        conditions: All its routes by name.
        routes: Names of routes, one of which must match; `_default` matches if no route does.
    """

    pipeline: str
    conditions: Mapping[str, Condition]
    routes: tuple[str, ...]

    @property
    def sql(self) -> str:
        """SQL: BOOLEAN, never NULL."""
        anything = " or ".join(f"({condition.sql})" for condition in self.conditions.values()) or "false"
        terms = [
            f"(not ({anything}))" if name == DEFAULT_ROUTE else f"({self.conditions[name].sql})" for name in self.routes
        ]
        return f"({' or '.join(terms)})"


@dataclass(frozen=True)
class SinkRoute:
    """The compiled route and table name of one sink.

    Attributes:
        table: The compiled name of the table or index.
        gates: The gates that an event must match, all of them; empty: every event matches.
        operation: The compiled `operation` of each table; None if every event is an INSERT.
        full_rows: Whether rows of each table have no key; for the same tables as `operation`.
        field: The option with the name.
        fault: Returns what is wrong with a name, or None.
    """

    table: Format
    gates: tuple[RouteGate, ...] = ()
    operation: ByTable[Format | None] = _NO_OPERATION
    full_rows: ByTable[bool] | None = None
    field: str = "table_identifier"
    fault: Callable[[str], str | None] = fault

    def refusal(self, name: str) -> tuple[Code, str, str]:
        """Return code, field and reason of events with a name that is not valid; empty: it cannot be evaluated."""
        fields = [part for kind, part in self.table.pieces if kind != _FIXED]
        if fields and (not name or self._lacks_value(name)):
            which = f"one of {', '.join(fields)}" if len(fields) > 1 else fields[0]
            return Code.NO_FIELD, self.field, f"the name needs a value of {which}, which is missing, null or empty"
        if not name:
            return Code.EXPRESSION_ERROR, self.field, f"{self.field} cannot be evaluated"
        return Code.BAD_TABLE_NAME, self.field, self.fault(name) or ""

    def _lacks_value(self, name: str) -> bool:
        """Return whether a name is what remains without the value of one of its fields."""
        pieces = self.table.pieces
        for empty, (kind, _) in enumerate(pieces):
            parts = [re.escape(part) if of == _FIXED else ".*" * (at != empty) for at, (of, part) in enumerate(pieces)]
            if kind != _FIXED and re.fullmatch("".join(parts), name, re.DOTALL):
                return True
        return False

    @property
    def operations(self) -> list[tuple[int, Format, bool]]:
        """The different values of `operation`, with their numbers, and whether they are of full rows."""
        texts = self.operation.values()
        full_rows = self.full_rows.values() if self.full_rows else [False] * len(texts)
        of_tables = enumerate(zip(texts, full_rows, strict=True))
        return [(at, text, is_full) for at, (text, is_full) in of_tables if text is not None]

    @property
    def metadata(self) -> frozenset[str]:
        """The metadata attributes that it reads."""
        return frozenset().union(*(expression.metadata for expression in self.read))

    @property
    def read(self) -> list[Condition | Format]:
        """All expressions that are evaluated for an event."""
        conditions = [condition for gate in self.gates for condition in gate.conditions.values()]
        return [*conditions, *(text for text in (self.table, *self.operation.values()) if text is not None)]


@dataclass
class Routed:
    """The events of one batch, by sink and table.

    Attributes:
        parts: (sink number, table name, positions in the batch or None for all rows), positions ascending.
        rejects: `REJECTS` by sink number: rows whose table name is invalid or cannot be evaluated, or whose operation
            is unknown.
        unrouted: How many rows no sink gets.
        operations: The `Operation` of every row (int8) by sink number, for sinks with the setting.
    """

    parts: list[tuple[int, str, pa.Array | None]]
    rejects: dict[int, pa.Table]
    unrouted: int = 0
    operations: dict[int, pa.Array] = field(default_factory=dict)

    def rows(self, rows: pa.Table, number: int, positions: pa.Array | None = None) -> pa.Table:
        """Select the rows of a part, with `_operation` if the sink has the setting."""
        if PICKED in rows.column_names:
            rows = rows.drop_columns([PICKED])
        if number in self.operations:
            rows = rows.append_column(OPERATION, self.operations[number])
        return rows if positions is None else rows.take(positions)


class Router:
    """Compiled routes of a pipeline; runs on executors.

    Args:
        sinks: The pipeline's sinks, in order.

    Attributes:
        fields: All fields of an event that are read; None if this may be any field, or metadata.
        reads_fields: Whether fields of an event may be read; if only metadata is, typed rows need no text.
    """

    def __init__(self, sinks: list[SinkRoute]) -> None:
        self._sinks = sinks
        self._columns = _columns(sinks)
        self._metadata = sorted(frozenset().union(*(sink.metadata for sink in sinks)))
        self.fields = _fields(sinks)
        self.reads_fields = any(
            expression.fields is None or expression.fields for sink in sinks for expression in sink.read
        )

    def scan_prefix(self, events: pa.Table) -> pa.Table | None:
        """Return events with the fields that routes read, of which the core finds the first ones; null: none.

        The rest of an event may decide otherwise. None without a core, or where these fields do not decide the table.
        """
        sink = self._sinks[0]
        is_enough = len(self._sinks) == 1 and not sink.gates and not sink.operations
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
        for number, sink in enumerate(self._sinks):
            mask = _any(evaluated, [f"sink_{number}"]) if sink.gates else None
            mask = _meant_for(number, rows, mask)
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
        for number, sink in enumerate(self._sinks):
            if sink.gates:
                return None
            if sink.table.static is None:
                columns[f"table_{number}"] = joined(sink.table, rows)
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
            rejects.append(reject_rows(_back(missing, chosen), *sink.refusal("")))
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


def _columns(sinks: list[SinkRoute]) -> dict[str, str]:
    """Return the columns of the SELECT: `sink_<n>` (does the row match), `table_<n>`, `operation_<n>`."""
    columns = {}
    for number, sink in enumerate(sinks):
        if sink.gates:
            columns[f"sink_{number}"] = " and ".join(gate.sql for gate in sink.gates)
        if sink.table.static is None:
            columns[f"table_{number}"] = sink.table.sql
        columns |= {
            f"operation_{number}_{at}": operation_sql(text.sql, is_full) for at, text, is_full in sink.operations
        }
    return columns


def _fields(sinks: list[SinkRoute]) -> list[str] | None:
    """Return the fields of an event that the sinks read; None if they may read any, or metadata."""
    names: set[str] = set()
    for sink in sinks:
        for expression in sink.read:
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


def _any(evaluated: pa.Table, names: list[str]) -> pa.Array:
    return pc.fill_null(evaluated.column(names[0]).combine_chunks(), False)


def _meant_for(number: int, rows: pa.Table, mask: pa.Array | None) -> pa.Array | None:
    """Remove from a mask (None: all rows) the rows that are only for another sink."""
    if SINK not in rows.column_names or not len(rows):
        return mask
    only = rows.column(SINK).combine_chunks()
    mine = pc.fill_null(pc.equal(only, number), True)
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

"""Converts events to typed rows: the core takes events that certainly fit, the exact converter the rest."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from operator import itemgetter
from typing import Any

import numpy as np
import pyarrow as pa
from pyiceberg.schema import Schema

from calve.arrays import RowNumbers, storage_type
from calve.columns.connect_schema import has_schemas, node_of, rows_by_schema
from calve.columns.core_spec import table_spec
from calve.columns.evolved import evolved
from calve.columns.infer import Inferred, UnknownColumns, may_be_refused
from calve.columns.node import Kind, Node
from calve.columns.options import ConvertOptions
from calve.columns.row_rule import FAILED_RULES
from calve.columns.unknown_fields import NO_UNKNOWN, UnknownFields
from calve.columns.widen import widened
from calve.compiled import events as core
from calve.convert.build import seal
from calve.convert.by_table import ConvertedRows, TableOfRow, TableOrder, divide
from calve.convert.defaults import Defaults
from calve.convert.exact import Exact, ExactResult, rounded
from calve.convert.overflow import Overflow
from calve.convert.row_checks import RowChecks
from calve.convert.scalar import Rounded
from calve.convert.typed import TypedConverter
from calve.convert.typed_texts import with_kinds
from calve.errors import ConvertError
from calve.event.column_names import folded
from calve.event.columns import EVENT, SCHEMA, TYPED
from calve.event.reject import Code, Reject, encodable, rejects_table
from calve.event.typed import is_typed, with_text
from calve.event.validate_json import whole_array
from calve.table.arrow_schema import arrow_schema
from calve.table.loaded import Table

__all__ = ["ConvertOptions", "ConvertedEvents", "Converter"]

_NONE = np.zeros(0, np.int64)
_READ = (EVENT, TYPED, SCHEMA)
"""The columns of events that conversion reads; moving a text costs less than moving the row that becomes of it."""


@dataclass(frozen=True)
class ConvertedEvents:
    """The result of a conversion.

    Attributes:
        rows: The good rows in the order of the events, in the Arrow schema of the table (field ids in the metadata).
        row: Their positions in the input.
        rejects: The rejected rows (`REJECTS`).
        nulled: How many values of each optional column became null because they cannot be converted.
        unknown: The fields that have no column or need a wider one; None if there are none or they were not requested.
        reasons: The reason of the first value of each column in `nulled`.
        ignored: How many events have each field without a column (dotted path), if these are counted, and each key
            that an object repeats (`name (repeated)`, whose last value is written), and each column in which a time
            was rounded (`name (rounded)`), and each field in the column for the overflow (`name (in column)`).
        size_bytes: About the size of the rows.
        failed_rules: How many rows each rule has rejected, tagged or changed.
    """

    rows: pa.Table
    row: pa.Int64Array
    rejects: pa.Table
    nulled: dict[str, int] = field(default_factory=dict)
    unknown: Inferred | None = None
    reasons: dict[str, str] = field(default_factory=dict)
    ignored: dict[str, int] = field(default_factory=dict)
    size_bytes: int = 0
    failed_rules: dict[str, int] = field(default_factory=dict)


class Converter:
    """Converts events for one table, or for all tables with the same columns; compiled once per task (executor).

    Args:
        table: The table, or one of those tables.
        options: How to convert.
        checks: Whether only events that can be written decide the unknown fields; false for a draft itself.
        fills: Whether missing fields get the defaults of their columns here.

    Raises:
        ConvertError: The table has a column that events cannot fill.
    """

    def __init__(
        self, table: Table, options: ConvertOptions | None = None, checks: bool = True, fills: bool = True
    ) -> None:
        self._table = table
        self._options = options or ConvertOptions()
        self._checks = checks
        self._table_schema, self.arrow_schema = _readable(table)
        self._metadata = [field for field in self._options.metadata if field[0] in self.arrow_schema.names]
        names = {name for name, _ in self._metadata}
        self._schema = Schema(*(field for field in self._table_schema.fields if field.name not in names))
        self._columns = pa.schema([field for field in self.arrow_schema if field.name not in names])
        self._storage = [storage_type(field.type) for field in self._columns]
        self._exact = Exact(self._schema, self._options)
        self._wider: dict[str, bool] = {}
        self._core = core.converter(table_spec(self._schema, self._options), self._columns)
        self._typed = TypedConverter(self._columns, self._options)
        self._defaults = Defaults(table, self._options) if fills else None
        self._rules = RowChecks(self._options.rules, self._table_schema) if self._options.rules else None
        self._overflow = Overflow(table, self._options) if checks and self._options.overflow else None

    def convert(self, rows: pa.Table) -> ConvertedEvents:
        """Convert a table with the column `event` or `_typed`."""
        rows, moved = self._prepared(rows)
        return self._finish(rows, self._find(rows), moved)

    def convert_for(
        self, rows: pa.Table, table_of_row: TableOfRow, undecided: list[RowNumbers] | None = None
    ) -> Iterator[tuple[int, ConvertedEvents]]:
        """Convert events of several tables with the same columns at once; yield each table's number and result.

        Args:
            rows: As for `convert`.
            table_of_row: The number of each row's table. Positions in the results are those in `rows`.
            undecided: Gets the positions of events that the core leaves, which are then not converted; None: all are.
        """
        rows, moved = self._prepared(rows)
        by_table = TableOrder.of(table_of_row)
        if len(by_table.tables) < 2:
            yield from ((table, self._finish(rows, self._find(rows, undecided), moved)) for table in by_table.tables)
            return
        if TYPED in rows.column_names or SCHEMA in rows.column_names:
            read = rows.select([name for name in _READ if name in rows.column_names])
            converted = self._find(read.take(pa.array(by_table.order)), undecided)
        else:
            converted = self._find(rows.select([EVENT]), undecided, by_table.order)
        if undecided:
            undecided[-1] = by_table.order[undecided[-1]]
        for table, part in divide(converted, by_table):
            yield table, self._finish(rows, part, moved)

    def _prepared(self, rows: pa.Table) -> tuple[pa.Table, UnknownFields]:
        """Return rows with defaults, whose fields without a column are in that for the overflow; and these fields."""
        rows = self._defaults.fill(rows) if self._defaults else rows
        rows, moved = self._overflow.fill(rows) if self._overflow else (rows, NO_UNKNOWN)
        return self._with_text_if_needed(rows), moved

    def _with_text_if_needed(self, rows: pa.Table) -> pa.Table:
        """Return typed rows unchanged if their columns can be converted, else with their texts."""
        if not is_typed(rows) or self._typed.reader(rows[TYPED].type):
            return rows
        return with_text(with_kinds(rows, self._columns))

    def _fast(self, rows: pa.Table, order: RowNumbers | None) -> core.FastConverted | None:
        """Convert the rows that certainly fit; in this order, if they are no typed ones."""
        typed = self._typed.reader(rows[TYPED].type) if is_typed(rows) else None
        if typed:
            return typed.convert(whole_array(rows[TYPED]))
        return self._core.convert(whole_array(rows[EVENT]), order) if self._core else None

    def _find(
        self, rows: pa.Table, undecided: list[RowNumbers] | None = None, order: RowNumbers | None = None
    ) -> ConvertedRows:
        """Convert rows, of texts alone if there is an order: positions in the result are those in it."""
        fast = self._fast(rows, order)
        slow = _remaining(len(rows), fast.rows if fast else _NONE)
        if undecided is not None:
            undecided.append(slow)
            slow = _NONE
        at = slow if order is None else order[slow]
        texts = with_text(rows.take(pa.array(at)))[EVENT].to_pylist() if len(slow) else []
        outcome = self._exact.convert(zip(slow.tolist(), texts, strict=True))
        if fast and len(fast.deferred.rows):
            fast = self._decide(fast, outcome)
        unknown = UnknownFields(fast.unknown_rows, fast.sets, fast.fields) if fast else NO_UNKNOWN
        has_unknown = np.zeros(len(rows), bool)
        if self._options.look_for_unknown:
            for some in (unknown.rows, np.array(outcome.unknown_rows, np.int64), rows_by_schema(rows, self._is_wider)):
                has_unknown[some] = True
        ignored = unknown if self._options.count_ignored else NO_UNKNOWN
        ignored = ignored.join(UnknownFields.of(outcome.ignored))
        table, positions = self._assemble(fast, outcome)
        odd, new = np.flatnonzero(has_unknown), None
        is_fast = fast and fast.new and len(odd) == len(fast.unknown_rows) and not has_schemas(rows)
        if fast and is_fast and not outcome.rejects:  # the core has read events that it left, too
            new = Node.from_json(fast.new)
        parts = (seal(table), positions, outcome.rejects, outcome.nulled, odd, outcome.wider, ignored, new)
        return ConvertedRows(*parts, size_bytes=table.nbytes)

    def _decide(self, fast: core.FastConverted, outcome: ExactResult) -> core.FastConverted:
        """Let the exact converter decide the values that the core deferred; each distinct value once."""
        columns = fast.columns.columns
        for number in np.unique(fast.deferred.columns).tolist():
            at = np.flatnonzero(fast.deferred.columns == number)
            texts = fast.deferred.texts.take(pa.array(at)).dictionary_encode()
            decided = [self._exact.value(number, text) for text in texts.dictionary.to_pylist()]
            values, reasons, wider = zip(*decided, strict=True)
            codes, indexes = texts.indices.to_numpy(), fast.deferred.rows[at]
            name = self._schema.fields[number].name
            for row, code in zip(fast.rows[indexes].tolist(), codes.tolist(), strict=True):
                if type(values[code]) is Rounded:
                    outcome.ignored.append((row, (rounded(name),)))
                if reasons[code] is not None:
                    outcome.nulled.append((row, (name, reasons[code])))
                    outcome.wider += [(row, node) for node in wider[code]]
            if any(value is not None for value in values):
                order = np.arange(len(fast.rows))
                order[indexes] = len(order) + codes
                both = pa.concat_arrays([columns[number], self._array(number, values)])
                columns[number] = both.take(pa.array(order))
        outcome.nulled.sort(key=itemgetter(0))
        return fast._replace(columns=pa.record_batch(columns, schema=fast.columns.schema))

    def _is_wider(self, schema: str) -> bool:
        """Return whether the columns are too narrow for rows of a schema, and can be widened."""
        if schema not in self._wider:
            declared = self._options.fields.of(node_of(schema).fields)
            self._wider[schema] = bool(widened(Node(Kind.STRUCT, declared), self._schema.as_struct()).fields)
        return self._wider[schema]

    def _finish(self, rows: pa.Table, converted: ConvertedRows, moved: UnknownFields = NO_UNKNOWN) -> ConvertedEvents:
        """Reject the events with a field that cannot become a column, and collect the other unknown fields."""
        converted, unknown = self._needed(rows, converted)
        if unknown and self._checks and (rejects := self._unwritable(rows, converted, unknown)):
            converted, unknown = self._needed(rows, converted.rejecting(rejects))
        failed, tags = dict[str, int](), dict[int, list[str]]()
        if self._rules and not (unknown and self._checks):  # else the rows are converted again, with new columns
            converted, failed, tags = self._rules.check(converted, self._with_metadata(rows, converted))
        nulled = Counter(column for _, (column, _) in converted.nulled)
        reasons = {column: encodable(reason) for _, (column, reason) in reversed(converted.nulled)}
        written_moved = moved.select(np.isin(moved.rows, converted.row))
        rejected, ignored = rejects_table(converted.rejects), converted.ignored.join(written_moved).counts()
        row, lacks = pa.array(converted.row), unknown if unknown else None
        written, size = self._with_metadata(rows, converted, tags), converted.size_bytes
        return ConvertedEvents(written, row, rejected, dict(nulled), lacks, reasons, ignored, size, failed)

    def _needed(self, rows: pa.Table, converted: ConvertedRows) -> tuple[ConvertedRows, Inferred]:
        """Return the result without events that have a field which cannot become a column, and the unknown fields."""
        by_core = self._unknown.of_fields(converted.new, len(converted.unknown_rows)) if converted.new else None
        unknown = by_core or Inferred()
        with_unknown = converted.unknown_rows
        if len(with_unknown) and by_core is None:
            events = with_text(rows if len(with_unknown) == len(rows) else rows.take(pa.array(with_unknown)))
            unknown, rejects = self._unknown.find(events)
            converted = converted.rejecting([reject._replace(row=int(with_unknown[reject.row])) for reject in rejects])
        for _, node in converted.wider:
            unknown = unknown.merge(Inferred(node, 1))
        if self._options.frees_columns and (absent := self._absent(rows, converted.rejects)):
            unknown = unknown.merge(Inferred(absent=absent))
        return converted, unknown

    def _absent(self, rows: pa.Table, rejects: Sequence[Reject]) -> frozenset[str]:
        """Return the columns for whose lack events are rejected, although their schemas do not have these fields."""
        lacking = [(reject.field, reject.row) for reject in rejects if reject.code is Code.REQUIRED_MISSING]
        if not lacking or not has_schemas(rows):
            return frozenset()
        schemas = rows[SCHEMA].take(pa.array([row for _, row in lacking])).to_pylist()
        pairs = {(name, text) for (name, _), text in zip(lacking, schemas, strict=True) if text}
        name_of = folded if self._options.case_insensitive else str
        declared = {text: {name_of(name) for name in node_of(text).fields} for _, text in pairs}
        absent = frozenset(name for name, text in pairs if name_of(name) not in declared[text])
        return absent - self._table_schema.identifier_field_names()

    def _unwritable(self, rows: pa.Table, converted_rows: ConvertedRows, unknown: Inferred) -> list[Reject]:
        """Return the events that could not be written even if all unknown fields had columns.

        Which of several competing fields gets a column is decided by the fields of all tasks, in the driver's draft.
        """
        options, draft = self._options, self._table.draft
        if draft is None:
            are_good = all(reject.code is Code.MALFORMED for reject in converted_rows.rejects)
            if (
                are_good
                and not options.types.types
                and not options.rules
                and not may_be_refused(rows, unknown, options.case_insensitive)
            ):
                return []
            draft = evolved(self._table, self._unknown.needs(self._table, unknown))[0]
            options = replace(options, look_for_unknown=False)
        at = np.sort(
            np.concatenate([converted_rows.row, np.array([reject.row for reject in converted_rows.rejects], np.int64)])
        )
        converted = Converter(draft, options, checks=False).convert(rows.take(pa.array(at)))
        rejects = [
            Reject(int(at[reject["row"]]), Code(reject["code"]), reject["field"], reject["reason"])
            for reject in converted.rejects.to_pylist()
            if options.look_for_unknown or reject["code"] != Code.NO_MATCHING_FIELDS
        ]
        reject_of_row = {
            reject.row: reject for reject in converted_rows.rejects if reject.code is not Code.NO_MATCHING_FIELDS
        }
        return [reject_of_row.get(reject.row, reject) for reject in rejects]

    @cached_property
    def _unknown(self) -> UnknownColumns:
        return UnknownColumns(self._table_schema, self._options)

    def _with_metadata(
        self, events: pa.Table, converted: ConvertedRows, tags: Mapping[int, Sequence[str]] | None = None
    ) -> pa.Table:
        """Return the rows with the columns that get metadata of their events, and `Checked.tags`."""
        if not self._metadata:
            return converted.rows
        columns = dict(zip(converted.rows.column_names, converted.rows.columns, strict=True))
        row = pa.array(converted.row)
        for name, attribute in self._metadata:
            kind, is_there = self.arrow_schema.field(name).type, attribute in events.column_names
            columns[name] = events[attribute].take(row).cast(kind) if is_there else pa.nulls(len(row), kind)
            if attribute == FAILED_RULES and tags:
                names = [", ".join(tags.get(position, ())) or None for position in converted.row.tolist()]
                columns[name] = pa.array(names, kind)
        return pa.table([columns[name] for name in self.arrow_schema.names], schema=self.arrow_schema)

    def _assemble(self, fast: core.FastConverted | None, outcome: ExactResult) -> tuple[pa.Table, RowNumbers]:
        """Merge the rows of both converters in the order of the events, and return them with their positions."""
        at = np.array(outcome.rows, np.int64)
        if fast is None or len(at):
            columns = [self._array(number, values) for number, values in enumerate(outcome.columns)]
            slow = pa.table(columns, schema=self._columns)
        if fast is None:
            return slow, at
        rows = pa.Table.from_batches([fast.columns])
        if not len(at):
            return rows, fast.rows
        positions = np.concatenate([fast.rows, at])
        order = np.argsort(positions, kind="stable")
        return pa.concat_tables([rows, slow]).combine_chunks().take(pa.array(order)), positions[order]

    def _array(self, number: int, values: Sequence[Any]) -> pa.Array:
        return pa.array(values, self._storage[number]).cast(self._columns.field(number).type)


def _remaining(rows: int, done: RowNumbers) -> RowNumbers:
    mask = np.ones(rows, bool)
    mask[done] = False
    return np.flatnonzero(mask)


def _readable(table: Table) -> tuple[Schema, pa.Schema]:
    try:
        return table.schema, arrow_schema(table.schema)
    except ValueError as error:
        hint = "Calve cannot write geometry, geography, and variants as keys of maps"
        message = f"The schema of {table.identifier} has a type that cannot be written"
        raise ConvertError(message, step="convert", target=table.identifier, hint=hint) from error

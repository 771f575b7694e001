"""Events into typed rows of one table: the compiled core takes what certainly fits, the exact converter the rest."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from operator import itemgetter
from typing import Any

import numpy as np
import pyarrow as pa
from pyiceberg.schema import Schema

from calve.arrays import RowNumbers
from calve.columns.connect_schema import has_schemas, node_of, told_by
from calve.columns.core_spec import table_spec
from calve.columns.infer import Inferred, UnknownColumns
from calve.columns.node import Kind, Node
from calve.columns.options import ConvertOptions
from calve.columns.unknown_fields import NO_UNKNOWN, UnknownFields
from calve.columns.widen import widened
from calve.compiled import events as core
from calve.convert.build import seal, storage_type
from calve.convert.by_table import ConvertedRows, TableOfRow, divide
from calve.convert.exact import Exact, ExactResult
from calve.convert.typed import TypedConverter
from calve.errors import ConvertError
from calve.event.columns import EVENT, TYPED
from calve.event.reject import encodable, rejects_table
from calve.event.typed import is_typed, with_text
from calve.event.validate_json import whole_array
from calve.table.arrow_schema import arrow_schema
from calve.table.loaded import Table

__all__ = ["ConvertOptions", "Converted", "Converter"]

_NONE = np.zeros(0, np.int64)


@dataclass(frozen=True)
class Converted:
    """What became of a table of events.

    Attributes:
        rows: The good rows in the order of the events, in the Arrow schema of the table (field ids in the metadata).
        row: Their positions in the input.
        rejects: The other rows (`REJECTS`).
        nulled: How many values of each optional column were not coercible and became null.
        unknown: The fields that have no column or need a wider one, if they were looked for and there are any.
        reasons: Why the first value of each column in `nulled` became null.
        ignored: How many events have each field without a column (dotted path), if these are to be counted; and each
            key that an object repeats (`name (repeated)`), of which the last value is written.
    """

    rows: pa.Table
    row: pa.Int64Array
    rejects: pa.Table
    nulled: dict[str, int] = field(default_factory=dict)
    unknown: Inferred | None = None
    reasons: dict[str, str] = field(default_factory=dict)
    ignored: dict[str, int] = field(default_factory=dict)


class Converter:
    """Converts events for one table, or for all that are alike; compiled once, used for many batches (executor).

    Args:
        table: The table, or one of those with the same columns.
        options: How to convert.

    Raises:
        ConvertError: The table has a column that events cannot fill.
    """

    def __init__(self, table: Table, options: ConvertOptions | None = None) -> None:
        self._options = options or ConvertOptions()
        self._schema, self.arrow_schema = _readable(table)
        self._storage = [storage_type(each.type) for each in self.arrow_schema]
        self._exact = Exact(self._schema, self._options)
        self._wider: dict[str, bool] = {}
        self._core = core.converter(table_spec(self._schema, self._options), self.arrow_schema)
        self._typed = TypedConverter(self.arrow_schema, self._options)

    def convert(self, rows: pa.Table) -> Converted:
        """Convert a table with the column `event` or `_typed`."""
        rows = self._with_text_if_needed(rows)
        return self._looked(rows, self._find(rows))

    def convert_for(self, rows: pa.Table, table_of_row: TableOfRow) -> Iterator[tuple[int, Converted]]:
        """Convert events of several tables that are alike, all at once; yield each owner with what became of its own.

        Args:
            rows: As for `convert`.
            table_of_row: Of each row, the number of its table. Positions in what is yielded are those in `rows`.
        """
        rows = self._with_text_if_needed(rows)
        for owner, found in divide(self._find(rows), table_of_row):
            yield owner, self._looked(rows, found)

    def _with_text_if_needed(self, rows: pa.Table) -> pa.Table:
        """Return typed rows as they are if their columns can be converted, else with their texts."""
        return rows if is_typed(rows) and self._typed.reader(rows[TYPED].type) else with_text(rows)

    def _fast(self, rows: pa.Table) -> core.Converted | None:
        """Convert the rows that certainly fit."""
        typed = self._typed.reader(rows[TYPED].type) if is_typed(rows) else None
        if typed:
            return typed.convert(whole_array(rows[TYPED]))
        return self._core.convert(whole_array(rows[EVENT])) if self._core else None

    def _find(self, rows: pa.Table) -> ConvertedRows:
        taken = self._fast(rows)
        slow = _others(len(rows), taken.rows if taken else _NONE)
        texts = with_text(rows.take(pa.array(slow)))[EVENT].to_pylist() if len(slow) else []
        outcome = self._exact.convert(zip(slow.tolist(), texts, strict=True))
        if taken and len(taken.deferred.rows):
            taken = self._decide(taken, outcome)
        unknown = UnknownFields(taken.strange, taken.sets, taken.fields) if taken else NO_UNKNOWN
        strange = np.zeros(len(rows), bool)
        if self._options.look_for_unknown:
            for some in (unknown.rows, np.array(outcome.strange, np.int64), told_by(rows, self._is_wider)):
                strange[some] = True
        ignored = unknown if self._options.count_ignored else NO_UNKNOWN
        ignored = ignored.join(UnknownFields.of(outcome.ignored))
        table, positions = self._assemble(taken, outcome)
        odd, new = np.flatnonzero(strange), None
        if taken and taken.new and len(odd) == len(taken.strange) and not has_schemas(rows):
            new = Node.from_json(taken.new)
        return ConvertedRows(seal(table), positions, outcome.rejects, outcome.nulled, odd, outcome.wider, ignored, new)

    def _decide(self, taken: core.Converted, outcome: ExactResult) -> core.Converted:
        """Have the exact converter decide the values that the core left within its rows; each distinct one once."""
        columns = taken.columns.columns
        for number in np.unique(taken.deferred.columns).tolist():
            at = np.flatnonzero(taken.deferred.columns == number)
            texts = taken.deferred.texts.take(pa.array(at)).dictionary_encode()
            decided = [self._exact.value(number, text) for text in texts.dictionary.to_pylist()]
            values, reasons, wider = zip(*decided, strict=True)
            codes, places = texts.indices.to_numpy(), taken.deferred.rows[at]
            name = self._schema.fields[number].name
            for row, code in zip(taken.rows[places].tolist(), codes.tolist(), strict=True):
                if reasons[code] is not None:
                    outcome.nulled.append((row, (name, reasons[code])))
                    outcome.wider += [(row, node) for node in wider[code]]
            if any(value is not None for value in values):
                order = np.arange(len(taken.rows))
                order[places] = len(order) + codes
                both = pa.concat_arrays([columns[number], self._array(number, values)])
                columns[number] = both.take(pa.array(order))
        outcome.nulled.sort(key=itemgetter(0))
        return taken._replace(columns=pa.record_batch(columns, schema=taken.columns.schema))

    def _is_wider(self, schema: str) -> bool:
        """Whether the columns are too narrow for rows of a schema, and can be widened."""
        if schema not in self._wider:
            told = self._options.fields.of(node_of(schema).fields)
            self._wider[schema] = bool(widened(Node(Kind.STRUCT, told), self._schema.as_struct()).fields)
        return self._wider[schema]

    def _looked(self, rows: pa.Table, found: ConvertedRows) -> Converted:
        """Reject the events with a field that can have no column, and return what else the table lacks."""
        seen = self._unknown.seen(found.new, len(found.strange)) if found.new else None
        unknown = seen or Inferred()
        if len(found.strange) and seen is None:
            strange = with_text(rows if len(found.strange) == len(rows) else rows.take(pa.array(found.strange)))
            unknown, rejects = self._unknown.look(strange)
            found = found.rejecting([each._replace(row=int(found.strange[each.row])) for each in rejects])
        for _, node in found.wider:
            unknown = unknown.merge(Inferred(node, 1))
        nulled = Counter(column for _, (column, _) in found.nulled)
        reasons = {column: encodable(reason) for _, (column, reason) in reversed(found.nulled)}
        rejected, ignored = rejects_table(found.rejects), found.ignored.counts()
        row, lacks = pa.array(found.row), unknown if unknown else None
        return Converted(found.rows, row, rejected, dict(nulled), lacks, reasons, ignored)

    @cached_property
    def _unknown(self) -> UnknownColumns:
        return UnknownColumns(self._schema, self._options)

    def _assemble(self, taken: core.Converted | None, outcome: ExactResult) -> tuple[pa.Table, RowNumbers]:
        """Return the rows of both, in the order of the events, and their positions."""
        at = np.array(outcome.rows, np.int64)
        if taken is None or len(at):
            columns = [self._array(number, values) for number, values in enumerate(outcome.columns)]
            slow = pa.table(columns, schema=self.arrow_schema)
        if taken is None:
            return slow, at
        fast = pa.Table.from_batches([taken.columns])
        if not len(at):
            return fast, taken.rows
        positions = np.concatenate([taken.rows, at])
        order = np.argsort(positions, kind="stable")
        return pa.concat_tables([fast, slow]).combine_chunks().take(pa.array(order)), positions[order]

    def _array(self, number: int, values: Sequence[Any]) -> pa.Array:
        return pa.array(values, self._storage[number]).cast(self.arrow_schema.field(number).type)


def _others(rows: int, taken: RowNumbers) -> RowNumbers:
    mask = np.ones(rows, bool)
    mask[taken] = False
    return np.flatnonzero(mask)


def _readable(table: Table) -> tuple[Schema, pa.Schema]:
    try:
        return table.schema, arrow_schema(table.schema)
    except ValueError as error:
        hint = "Everything but geometry and geography can be written; variants are no keys of maps"
        message = f"The schema of {table.identifier} has a type that cannot be written"
        raise ConvertError(message, step="convert", target=table.identifier, hint=hint) from error

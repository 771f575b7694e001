"""Events into typed rows of one table: the compiled core takes what certainly fits, the exact converter the rest."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyiceberg.schema import Schema

from calve.compiled import events as core
from calve.convert.arrow_schema import arrow_schema
from calve.convert.build import seal, storage_type
from calve.convert.core_spec import table_spec
from calve.convert.declared import node_of, told_by
from calve.convert.divide import Found, Owners, divide
from calve.convert.exact import Exact, Outcome
from calve.convert.infer import Inferred, UnknownColumns
from calve.convert.node import Kind, Node
from calve.convert.options import ConvertOptions
from calve.convert.table import Table
from calve.convert.unknown import NO_UNKNOWN, UnknownFields
from calve.convert.widen import widened
from calve.errors import ConvertError
from calve.event.columns import EVENT
from calve.event.reject import encodable, rejects_table
from calve.event.sound import whole_array

__all__ = ["ConvertOptions", "Converted", "Converter"]

_Rows = npt.NDArray[np.int64]
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

    def convert(self, rows: pa.Table) -> Converted:
        """Convert a table with the column `event`."""
        return self._looked(rows, self._find(rows))

    def convert_for(self, rows: pa.Table, owners: Owners) -> Iterator[tuple[int, Converted]]:
        """Convert events of several tables that are alike, all at once; yield each owner with what became of its own.

        Args:
            rows: As for `convert`.
            owners: Of each row, the number of its table. Positions in what is yielded are those in `rows`.
        """
        for owner, found in divide(self._find(rows), owners):
            yield owner, self._looked(rows, found)

    def _find(self, rows: pa.Table) -> Found:
        events = whole_array(rows[EVENT])
        taken = self._core.convert(events) if self._core else None
        slow = _others(len(rows), taken.rows if taken else _NONE)
        texts = events.take(pa.array(slow)).to_pylist() if len(slow) else []
        outcome = self._exact.convert(zip(slow.tolist(), texts, strict=True))
        unknown = UnknownFields(taken.strange, taken.sets, taken.fields) if taken else NO_UNKNOWN
        strange = np.zeros(len(rows), bool)
        if self._options.look_for_unknown:
            for some in (unknown.rows, np.array(outcome.strange, np.int64), told_by(rows, self._is_wider)):
                strange[some] = True
        ignored = unknown if self._options.count_ignored else NO_UNKNOWN
        ignored = ignored.join(UnknownFields.of(outcome.ignored))
        table, positions = self._assemble(taken, outcome)
        return Found(
            seal(table), positions, outcome.rejects, outcome.nulled, np.flatnonzero(strange), outcome.wider, ignored
        )

    def _is_wider(self, schema: str) -> bool:
        """Whether the columns are too narrow for rows of a schema, and can be widened."""
        if schema not in self._wider:
            told = self._options.fields.of(node_of(schema).fields)
            self._wider[schema] = bool(widened(Node(Kind.STRUCT, told), self._schema.as_struct()).fields)
        return self._wider[schema]

    def _looked(self, rows: pa.Table, found: Found) -> Converted:
        """Reject the events with a field that can have no column, and return what else the table lacks."""
        unknown = Inferred()
        if len(found.strange):
            strange = rows if len(found.strange) == len(rows) else rows.take(pa.array(found.strange))
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

    def _assemble(self, taken: core.Converted | None, outcome: Outcome) -> tuple[pa.Table, _Rows]:
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


def _others(rows: int, taken: _Rows) -> _Rows:
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

"""Events into typed rows of one table: the compiled SELECT takes what it can prove, the exact converter the rest."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.schema import Schema

from calve.convert.build import build_columns, storage_type
from calve.convert.exact import Exact, Outcome
from calve.convert.infer import Inferred, unknown_fields
from calve.convert.keys import Shapes, closer_look
from calve.convert.proof import finish
from calve.convert.select import Select, compile_select
from calve.convert.table import Table
from calve.errors import ConvertError
from calve.event import duck
from calve.event.columns import EVENT, JSON
from calve.event.reject import Code, rejects_table
from calve.event.scan import Texts
from calve.event.sound import as_text, valid_mask

__all__ = ["ConvertOptions", "Converted", "Converter"]

_Rows = npt.NDArray[np.int64]
_Mask = npt.NDArray[np.bool_]
_UNKNOWN_FROM = frozenset({Code.NO_MATCHING_FIELDS})


@dataclass(frozen=True)
class ConvertOptions:
    """How a sink wants its events converted.

    Attributes:
        look_for_unknown: Report the fields that have no column (`schema_evolution`).
        on_type_mismatch: What becomes of an event with a value that is not coercible into an optional column: the
            value is `null`, or the event goes to the `dlq`.
        case_insensitive: Match field names by case first, then without.
        refused: Fields (paths as in `Evolution.refused`) that may not become columns: an event that has one is rejected.
    """

    look_for_unknown: bool = False
    on_type_mismatch: Literal["null", "dlq"] = "null"
    case_insensitive: bool = False
    refused: frozenset[tuple[str, ...]] = frozenset()


@dataclass(frozen=True)
class Converted:
    """What became of a table of events.

    Attributes:
        rows: The good rows in the order of the events, in the Arrow schema of the table (field ids in the metadata).
        row: Their positions in the input.
        rejects: The other rows (`REJECTS`).
        nulled: How many values of each optional column were not coercible and became null.
        unknown: The fields that have no column, if they were looked for and there are any.
    """

    rows: pa.Table
    row: pa.Int64Array
    rejects: pa.Table
    nulled: dict[str, int] = field(default_factory=dict)
    unknown: Inferred | None = None


class Converter:
    """Converts events for one table; compiled once per table, used for many batches (executor, one thread).

    Args:
        table: The table.
        options: How to convert.

    Raises:
        ConvertError: The table has a column that events cannot fill.
    """

    def __init__(self, table: Table, options: ConvertOptions | None = None) -> None:
        self._options = options or ConvertOptions()
        self._schema = _readable(table)
        self.arrow_schema: pa.Schema = schema_to_pyarrow(self._schema)
        self._storage = [storage_type(each.type) for each in self.arrow_schema]
        self._exact = Exact(
            self._schema,
            reject_mismatches=self._options.on_type_mismatch == "dlq",
            case_insensitive=self._options.case_insensitive,
            refused=self._options.refused,
        )
        self._select = compile_select(self._schema)
        self._shapes = self._select and Shapes(self._select, self._options.case_insensitive)
        self._dirty = False

    def convert(self, rows: pa.Table) -> Converted:
        """Convert a table with the column `event`, and `json` where `event.sound` has run (else malformed rows are found here)."""
        texts = _texts(rows)
        fast = (
            _Fast.none(len(rows)) if self._select is None else self._run(self._select, texts, JSON in rows.column_names)
        )
        slow = np.setdiff1d(np.arange(len(rows)), fast.rows, assume_unique=True)
        events = rows[EVENT].take(pa.array(slow)).to_pylist() if len(slow) else []
        outcome = self._exact.convert(zip(slow.tolist(), events, strict=True))
        unknown = self._unknown(rows, fast.unknown, outcome) if self._options.look_for_unknown else None
        table, positions = self._assemble(fast, outcome)
        return Converted(table, positions, rejects_table(outcome.rejects), outcome.nulled, unknown)

    def _run(self, select: Select, texts: _Texts, sound: bool) -> _Fast:
        at = np.flatnonzero(~texts.odd)
        found, at = self._select_rows(select, texts.array, at)
        if found is None:
            return _Fast.none(len(texts.odd))
        good: _Mask = np.array(found["ok"].combine_chunks().to_numpy(zero_copy_only=False))
        scan = Texts(_pick(texts.array, at))
        if not sound:
            good[scan.lenient()] = False
        if select.long_digits:
            good[scan.long_digits()] = False
        found = finish(select, found, _pick(texts.array, at), good)
        look = closer_look(select, found, scan, _pick(texts.array, at), good, self._shapes)
        good[look.slow] = False
        if self._options.refused:
            good[look.unknown] = False
        unknown = at[look.unknown[good[look.unknown]]]
        return _Fast(found, good, at[good], unknown)

    def _select_rows(self, select: Select, texts: pa.Array, at: _Rows) -> tuple[pa.Table | None, _Rows]:
        """Run the SELECT; DuckDB throws for all rows when one is no JSON, so after that look first."""
        if not self._dirty:
            try:
                return _execute(select, _pick(texts, at)), at
            except duckdb.InvalidInputException:
                self._dirty = True
        at = at[valid_mask(_pick(texts, at))]
        try:
            return _execute(select, _pick(texts, at)), at
        except duckdb.InvalidInputException:
            return None, at

    def _unknown(self, rows: pa.Table, at: _Rows, outcome: Outcome) -> Inferred | None:
        again = [each.row for each in outcome.rejects if each.code in _UNKNOWN_FROM]
        chosen = np.unique(np.concatenate([at, np.array(outcome.rows + again, np.int64)]))
        if not len(chosen):
            return None
        return unknown_fields(rows.take(pa.array(chosen)), self._schema, self._options.case_insensitive)

    def _assemble(self, fast: _Fast, outcome: Outcome) -> tuple[pa.Table, pa.Int64Array]:
        slow = pa.table(
            [
                pa.array(values, storage).cast(each.type)
                for values, storage, each in zip(outcome.columns, self._storage, self.arrow_schema, strict=True)
            ],
            schema=self.arrow_schema,
        )
        if fast.found is None or self._select is None:
            return slow, pa.array(outcome.rows, pa.int64())
        table = pa.table(build_columns(self._select, fast.found, self.arrow_schema), schema=self.arrow_schema)
        if not outcome.rows and fast.good.all():
            return table, pa.array(fast.rows)
        sources = np.concatenate([np.flatnonzero(fast.good), len(table) + np.arange(len(outcome.rows))])
        positions = np.concatenate([fast.rows, np.array(outcome.rows, np.int64)])
        order = np.argsort(positions, kind="stable")
        whole = pa.concat_tables([table, slow]).combine_chunks()
        return whole.take(pa.array(sources[order])), pa.array(positions[order])


@dataclass(frozen=True)
class _Fast:
    """What the SELECT gave: its rows, which of them are proven, where these lie, and those with unknown fields."""

    found: pa.Table | None
    good: _Mask
    rows: _Rows
    unknown: _Rows

    @staticmethod
    def none(rows: int) -> _Fast:
        empty = np.zeros(0, np.int64)
        return _Fast(None, np.zeros(rows, bool), empty, empty)


@dataclass(frozen=True)
class _Texts:
    array: pa.Array
    odd: _Mask  # no text at all, or another one than the event


def _texts(rows: pa.Table) -> _Texts:
    events = as_text(rows[EVENT])
    array = events
    if JSON in rows.column_names:
        array = as_text(rows[JSON])
        same = pc.fill_null(pc.equal(array, events), False)
        return _Texts(array, ~same.to_numpy(zero_copy_only=False))
    return _Texts(array, array.is_null().to_numpy(zero_copy_only=False))


def _pick(texts: pa.Array, at: _Rows) -> pa.Array:
    return texts if len(at) == len(texts) else texts.take(pa.array(at))


def _execute(select: Select, texts: pa.Array) -> pa.Table:
    return duck.run(select.sql, events=pa.table({JSON: texts}))


def _readable(table: Table) -> Schema:
    try:
        return table.schema
    except ValueError as error:
        hint = "Types that can be written: all primitives of format version 2, timestamp_ns, timestamptz_ns, struct, list, map"
        message = f"The schema of {table.identifier} has a type that cannot be written yet, e.g. variant"
        raise ConvertError(message, step="convert", target=table.identifier, hint=hint) from error

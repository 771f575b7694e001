"""Adds the columns of keys to batches of rows. Runs on executors."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from calve.arrays import Mask, RowNumbers
from calve.event.columns import EVENT, JSON, KEY, MALFORMED, ORIGINAL, ROW, SCHEMA
from calve.event.duckdb_session import one_array
from calve.event.envelope.decoder import RECORD_KEY, EnvelopeDecoder, Envelopes
from calve.event.envelope.schema import Field, field_of, text_of
from calve.event.envelope.shape import OPERATION_ATTRIBUTE
from calve.event.keyed.exact import RefusedKeyError, read_key, with_key
from calve.event.keyed.fast import KeyForm, merged
from calve.event.reject import Reject, rejects_table
from calve.event.validate_json import whole_array

__all__ = ["KeyedDecoder", "KeyedRows", "RecordKeys"]


@dataclass(frozen=True)
class RecordKeys:
    """How the keys of a source's records become columns; pickled into the tasks.

    Attributes:
        column: The column for a key that is a single value.
    """

    column: str


class KeyedRows(NamedTuple):
    """A batch with the columns of its keys.

    Attributes:
        rows: In the order of the records: `event` with the columns of the key, which are all that a record without a
            value has; `_original`, `_key`, `operation` (as it is, or `insert`, and `delete` without a value), the other
            columns of the input but `json` and `row`.
        rejects: Records whose key is of no use (`REJECTS`).
    """

    rows: pa.Table
    rejects: pa.Table


class KeyedDecoder:
    """Adds keys to the batches of one task.

    Args:
        keys: How they become columns.
    """

    def __init__(self, keys: RecordKeys) -> None:
        self._column = keys.column
        self._numbers: dict[Field, int] = {}
        self._connect = EnvelopeDecoder(Envelopes("connect_json"))

    def decode(self, events: pa.Table) -> KeyedRows:
        """Add keys to a table with the columns `event` and `kafka_key` (and perhaps `_key`, if they were decoded)."""
        events = self._unwrapped(events)
        values, rejects = whole_array(events[EVENT]), list[Reject]()
        has_keys = RECORD_KEY in events.column_names
        keys = whole_array(events[RECORD_KEY]) if has_keys else pa.nulls(len(events), pa.string())
        malformed = np.flatnonzero(_is_malformed(events))
        parts = [_Part(malformed, values.take(pa.array(malformed)), np.full(len(malformed), -1))]
        for declared, at in _by_schema(events, malformed):
            records = _Records(at, values.take(pa.array(at)), keys.take(pa.array(at)), declared)
            fast, done = self._fast(records)
            parts += [*fast, self._slow(records, done, rejects)]
        return KeyedRows(self._rows(events, parts), rejects_table(rejects))

    def _unwrapped(self, events: pa.Table) -> pa.Table:
        """Return records whose keys are without Connect's schema, which is then in `_key`; odd ones stay."""
        if RECORD_KEY not in events.column_names or KEY in events.column_names:
            return events
        keys = whole_array(events[RECORD_KEY])
        is_wrapped = pc.fill_null(pc.starts_with(keys, '{"schema":'), False)
        at = np.flatnonzero(is_wrapped)
        if not len(at):
            return events
        decoded = self._connect.decode(pa.table({EVENT: keys.filter(is_wrapped).cast(pa.binary())})).rows
        rows, schemas = at[decoded[ROW].to_numpy()], one_array(decoded[SCHEMA].unify_dictionaries())
        mask, codes = np.zeros(len(events), bool), np.full(len(events), -1, np.int32)
        mask[rows], codes[rows] = True, schemas.indices.fill_null(-1).to_numpy()
        texts = pc.replace_with_mask(keys, pa.array(mask), whole_array(decoded[EVENT]).cast(pa.string()))
        declared = pa.DictionaryArray.from_arrays(pa.array(codes, mask=codes < 0), schemas.dictionary)
        events = events.set_column(events.column_names.index(RECORD_KEY), RECORD_KEY, texts)
        return events.append_column(KEY, declared)

    def _fast(self, records: _Records) -> tuple[list[_Part], Mask]:
        """Return the rows of records whose texts alone decide, and which these are."""
        none = np.zeros(len(records.at), bool)
        [first] = records.keys.drop_null().slice(0, 1).to_pylist() or [""]
        try:
            key = read_key(first, records.declared, self._column)
        except RefusedKeyError:
            return [], none
        is_object = records.declared.kind == "struct" if records.declared else first.lstrip().startswith("{")
        rows = merged(records.values, records.keys, KeyForm(key, records.declared, not is_object))
        if rows is None:
            return [], none
        done: Mask = rows.is_valid().to_numpy(zero_copy_only=False)
        codes = np.full(int(done.sum()), self._number(key.schema))
        return [_Part(records.at[done], rows.drop_null(), codes)], done

    def _slow(self, records: _Records, done: Mask, rejects: list[Reject]) -> _Part:
        at, rows, codes = list[int](), list[bytes](), list[int]()
        for number in np.flatnonzero(~done).tolist():
            row = int(records.at[number])
            try:
                key = read_key(records.keys[number].as_py(), records.declared, self._column)
                rows.append(with_key(records.values[number].as_py(), key))
            except RefusedKeyError as refused:
                rejects.append(Reject(row, refused.code, refused.field, str(refused)))
                continue
            at.append(row)
            codes.append(self._number(key.schema))
        return _Part(np.array(at, np.int64), pa.array(rows, pa.binary()), np.array(codes, np.int64))

    def _number(self, schema: Field) -> int:
        return self._numbers.setdefault(schema, len(self._numbers))

    def _rows(self, events: pa.Table, parts: list[_Part]) -> pa.Table:
        """Return the rows in the order of the records, with their metadata."""
        at = np.concatenate([part.at for part in parts])
        order = np.argsort(at, kind="stable")
        texts = pa.concat_arrays([part.rows for part in parts]).take(pa.array(order))
        codes = pa.array(np.concatenate([part.codes for part in parts])[order], pa.int32())
        rows = events.drop_columns([name for name in (JSON, ROW, KEY) if name in events.column_names])
        if ORIGINAL not in rows.column_names:
            rows = rows.append_column(ORIGINAL, rows[EVENT])
        if OPERATION_ATTRIBUTE not in rows.column_names:
            is_gone = rows[EVENT].is_null()
            rows = rows.append_column(OPERATION_ATTRIBUTE, pc.if_else(is_gone, "delete", "insert"))
        rows = rows.take(pa.array(at[order])).set_column(rows.column_names.index(EVENT), EVENT, texts)
        schemas = pa.array(map(text_of, self._numbers), pa.string())
        indices = pc.if_else(pc.less(codes, 0), pa.scalar(None, pa.int32()), codes)
        return rows.append_column(KEY, pa.DictionaryArray.from_arrays(indices, schemas))


class _Records(NamedTuple):
    """Records whose keys were decoded by one schema, or by none: positions, values and keys."""

    at: RowNumbers
    values: pa.Array
    keys: pa.Array
    declared: Field | None


class _Part(NamedTuple):
    """Rows with keys: the records' positions, the texts, and the numbers of the schemas of their keys (-1: none)."""

    at: RowNumbers
    rows: pa.Array
    codes: npt.NDArray[np.int64]


def _is_malformed(events: pa.Table) -> Mask:
    if MALFORMED not in events.column_names:
        return np.zeros(len(events), bool)
    is_malformed: Mask = whole_array(events[MALFORMED]).is_valid().to_numpy(zero_copy_only=False)
    return is_malformed


def _by_schema(events: pa.Table, without: RowNumbers) -> Iterator[tuple[Field | None, RowNumbers]]:
    """Group the records by the schema of their decoded keys (None: not decoded), in ascending positions."""
    codes, texts = np.full(len(events), -1), list[str]()
    if KEY in events.column_names:
        column = one_array(events[KEY].unify_dictionaries())
        codes, texts = column.indices.fill_null(-1).to_numpy(), column.dictionary.to_pylist()
    chosen = np.delete(np.arange(len(events)), without)
    for code in np.unique(codes[chosen]).tolist():
        yield field_of(texts[code]) if code >= 0 else None, chosen[codes[chosen] == code]

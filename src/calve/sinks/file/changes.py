"""Changes of rows as columns: Debezium's envelope, with the old and the new row as structs. Runs on executors."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence

import msgspec
import pyarrow as pa

from calve.arrays import RowNumbers
from calve.convert.build import seal
from calve.event.column_names import folded
from calve.event.validate_json import whole_array
from calve.sinks.records.joined_rows import JoinedRow
from calve.sinks.records.record import OutgoingRecord

__all__ = ["change_table"]

_names = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_NUMBERS = frozenset({"snapshot_id"})
"""The fields of `source` that are no texts."""


def change_table(
    rows: pa.Table, changes: Sequence[JoinedRow], places: Sequence[RowNumbers], time_ms: int, ignores_case: bool
) -> pa.Table:
    """Return the changes, one a row.

    Args:
        rows: The converted rows.
        changes: The changes.
        places: Of each part, the position of each event in `rows`.
        time_ms: The time of the batch, in milliseconds since the epoch.
        ignores_case: Whether fields match columns in any case.
    """
    row = whole_array(rows.to_struct_array())
    sources = [json.loads(change.source) for change in changes]
    columns = {
        "before": row.take(_positions([change.before for change in changes], places)),
        "after": row.take(_positions([change.after for change in changes], places)),
        "source": pa.array(sources, pa.struct([(name, _source_type(name)) for name in sources[0]])),
        "op": pa.array([change.op for change in changes]),
        "unchanged": pa.array(
            [_unchanged(change, rows.column_names, ignores_case) for change in changes], pa.list_(pa.string())
        ),
        "ts_ms": pa.repeat(pa.scalar(time_ms, pa.int64()), len(changes)),
    }
    return seal(pa.table(columns))


def _positions(records: Sequence[OutgoingRecord | None], places: Sequence[RowNumbers]) -> pa.Array:
    return pa.array([record and int(places[record.part][record.row]) for record in records], pa.int64())


def _source_type(name: str) -> pa.DataType:
    return pa.int64() if name in _NUMBERS else pa.string()


def _unchanged(change: JoinedRow, columns: Collection[str], ignores_case: bool) -> list[str] | None:
    """Return the columns that an update leaves as they are, since its event lacks them; None for other changes."""
    if change.op != "u" or change.after is None:
        return None
    names = _names(change.after.value or b"{}").keys()
    if not ignores_case:
        return [column for column in columns if column not in names]
    names_in_any_case = set(map(folded, names))
    return [column for column in columns if folded(column) not in names_in_any_case]

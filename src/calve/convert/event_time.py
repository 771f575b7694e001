"""The event-time column, and the latest event time by the origin of the events."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.schema import Schema
from pyiceberg.types import NestedField, StructType

from calve.table.kinds import primitive

__all__ = ["EventTimes", "fault", "path"]

_DAY_MICROS = 86_400_000_000


def path(schema: Schema, column: str) -> tuple[str, ...] | None:
    """Return the path of names to a time or date column, or None if the table has no such column."""
    return None if fault(schema, column) else _find(schema.fields, column)[0]


def fault(schema: Schema, column: str) -> str | None:
    """Return why a column (dotted name) cannot be the event time, or None if it can."""
    field = _find(schema.fields, column)[1]
    if field is None:
        return f"there is no column {column!r}"
    if not primitive(field.field_type).is_date_time:
        return f"the column {column!r} is a {field.field_type}, not a timestamp, timestamptz or date"
    return None


def _find(fields: Sequence[NestedField], column: str) -> tuple[tuple[str, ...], NestedField | None]:
    for field in fields:
        if field.name == column:
            return (field.name,), field
        if column.startswith(f"{field.name}.") and isinstance(field.field_type, StructType):
            names, kind = _find(field.field_type.fields, column[len(field.name) + 1 :])
            if kind is not None:
                return (field.name, *names), kind
    return (), None


class EventTimes:
    """The latest event time of one table's rows in one task (executor).

    Args:
        column: The path of names to the column.
        origin: The metadata attributes that identify an event's origin, e.g. topic and partition; none: one origin.
        complete: Through which time the table is complete, in microseconds since the epoch; None: unknown.

    Attributes:
        late: How many rows are earlier than that.
    """

    def __init__(self, column: tuple[str, ...], origin: Sequence[str] = (), complete: int | None = None) -> None:
        self._complete = complete
        self.late = 0
        self._column = column
        self._origin = list(origin)
        self.latest: dict[str, int] = {}
        """By origin, microseconds since the epoch, UTC, rounded down; a date counts as its midnight."""

    def add(self, rows: pa.Table, events: pa.Table, row: pa.Int64Array) -> None:
        """Add converted rows; rows without a time are ignored.

        `row` has the positions of their events in `events`, followed by those of other events, e.g. deletes.
        """
        if not len(rows):
            return
        times = rows.column(self._column[0])
        for name in self._column[1:]:
            times = pc.struct_field(times, name)
        if self._complete is not None:
            is_late = pc.less(_as_integers(times), _in_unit(self._complete, times.type))
            self.late += pc.sum(is_late).as_py() or 0
        if not self._origin:
            self._keep("", pc.max(_as_integers(times)).as_py(), times.type)
            return
        origins = events.select(self._origin)
        origins = origins if len(rows) == len(events) else origins.take(row.slice(0, len(rows)))
        latest = (
            origins.append_column("@time", _as_integers(times)).group_by(self._origin).aggregate([("@time", "max")])
        )
        for part in latest.to_pylist():
            self._keep("/".join(str(part[name]) for name in self._origin), part["@time_max"], times.type)

    def _keep(self, origin: str, time: int | None, kind: pa.DataType) -> None:
        if time is not None:
            micros = time * _DAY_MICROS if pa.types.is_date(kind) else time // (1000 if kind.unit == "ns" else 1)
            self.latest[origin] = max(micros, self.latest.get(origin, micros))


def _as_integers(times: pa.ChunkedArray) -> pa.ChunkedArray:
    return times.cast(pa.int32() if pa.types.is_date(times.type) else pa.int64())


def _in_unit(micros: int, kind: pa.DataType) -> int:
    """Return a time in the unit of a column, rounded down."""
    if pa.types.is_date(kind):
        return micros // _DAY_MICROS
    return micros * 1000 if kind.unit == "ns" else micros

"""The hours, days, months and years that a table is partitioned by, and which of them are complete."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any, Literal, NamedTuple

from pyiceberg.transforms import DayTransform, HourTransform, IdentityTransform, MonthTransform, YearTransform

from calve.acknowledge.watermark import to_datetime
from calve.errors import SettingsError
from calve.table.loaded import Table

__all__ = ["MOST_PERIODS", "Period", "Unit", "completed", "first_period", "named", "period_at", "unit_of"]

Unit = Literal["hour", "day", "month", "year"]
MOST_PERIODS = 1_000
"""The most periods that one commit completes: after a longer jump in time the oldest are left out."""
_FORMATS: dict[Unit, str] = {"hour": "%Y-%m-%dT%H", "day": "%Y-%m-%d", "month": "%Y-%m", "year": "%Y"}
_UNITS: tuple[tuple[type, Unit], ...] = (
    (HourTransform, "hour"),
    (DayTransform, "day"),
    (MonthTransform, "month"),
    (YearTransform, "year"),
    (IdentityTransform, "day"),
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Period(NamedTuple):
    """An hour, day, month or year in UTC, e.g. `2026-11-25`.

    Attributes:
        start: Its beginning.
        end: The beginning of the next one: a table that is complete through it is complete in this period.
    """

    unit: Unit
    start: datetime
    end: datetime

    @property
    def name(self) -> str:
        """Its name: `2026-11-25T13`, `2026-11-25`, `2026-11` or `2026`."""
        return self.start.strftime(_FORMATS[self.unit]).rjust(len(_FORMATS[self.unit]), "0")


def period_at(unit: Unit, time: datetime) -> Period:
    """Return the period with a time in it."""
    if unit == "hour":
        start = time.replace(minute=0, second=0, microsecond=0)
        return Period(unit, start, start + timedelta(hours=1))
    start = time.replace(hour=0, minute=0, second=0, microsecond=0)
    if unit == "day":
        return Period(unit, start, start + timedelta(days=1))
    start = start.replace(day=1)
    if unit == "month":
        return Period(unit, start, (start + timedelta(days=31)).replace(day=1))
    start = start.replace(month=1)
    return Period(unit, start, start.replace(year=start.year + 1))


def named(text: str) -> Period:
    """Return the period with a name.

    Raises:
        SettingsError: It is no name of a period.
    """
    for unit, pattern in _FORMATS.items():
        try:
            time = datetime.strptime(text.replace(" ", "T"), pattern).replace(tzinfo=UTC)
        except ValueError:
            continue
        return period_at(unit, time)
    raise SettingsError(
        f"{text!r} is no partition",
        step="wait",
        hint="Write an hour, a day, a month or a year in UTC: 2026-11-25T13, 2026-11-25, 2026-11 or 2026",
    )


def unit_of(table: Table, column: str | None) -> Unit:
    """Return what a table is partitioned by; a day if it is not partitioned by its event time."""
    field = _field(table, column)
    return "day" if field is None else field[1]


def _field(table: Table, column: str | None) -> tuple[int, Unit] | None:
    """Return the position and the unit of the partition field of a column; the finest of several."""
    fields = [
        (position, unit)
        for position, field in enumerate(table.spec.fields)
        for kind, unit in _UNITS
        if isinstance(field.transform, kind) and table.schema.find_column_name(field.source_id) == column
    ]
    return min(fields, key=lambda field: [*_FORMATS].index(field[1]), default=None)


def first_period(table: Table, column: str | None, partitions: Sequence[Sequence[Any]]) -> datetime | None:
    """Return the beginning of the first of some partitions of a table; None if it is not partitioned by a time."""
    field = _field(table, column)
    if field is None:
        return None
    position, unit = field
    values = [partition[position] for partition in partitions if len(partition) > position]
    return min((_start(unit, value) for value in values if value is not None), default=None)


def _start(unit: Unit, value: Any) -> datetime:
    """Return the beginning of a partition value, as staged files have it: a date for days, else a number since 1970."""
    if isinstance(value, str):
        return datetime.combine(date.fromisoformat(value[:10]), datetime.min.time(), UTC)
    if unit == "hour":
        return _EPOCH + timedelta(hours=value)
    if unit == "day":
        return _EPOCH + timedelta(days=value)
    months = value if unit == "month" else 12 * value
    return _EPOCH.replace(year=1970 + months // 12, month=months % 12 + 1)


def completed(unit: Unit, after: datetime | None, through_micros: int) -> list[Period]:
    """Return the periods that end after a time, up to the one through which a table is complete, oldest first.

    Args:
        unit: What the table is partitioned by.
        after: The time through which it was complete before; None: only the last period counts.
        through_micros: The time through which it is complete, in microseconds since the epoch.
    """
    through = to_datetime(through_micros)
    return list(_completed(unit, after, through))[:MOST_PERIODS][::-1]


def _completed(unit: Unit, after: datetime | None, through: datetime) -> Iterator[Period]:
    """Yield them, the newest first."""
    start = period_at(unit, through).start
    for _ in range(MOST_PERIODS if after else 1):
        try:
            period = period_at(unit, start - timedelta(microseconds=1))
        except OverflowError:
            return
        if after is not None and period.end <= after:
            return
        yield period
        start = period.start

"""The latest time of the source's records, for tables without a column of event times. Runs on executors."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["RecordTime", "RecordTimes"]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class RecordTime:
    """Which metadata attribute is the time of a record.

    Attributes:
        attribute: Its name: epoch milliseconds, or ISO 8601 in UTC.
        origin: The metadata attributes that identify the part of the source; the same for all events of a split.
        is_used: Whether anything else needs the attribute.
    """

    attribute: str
    origin: tuple[str, ...]
    is_used: bool


class RecordTimes:
    """Collects the latest times while a task reads.

    Args:
        settings: The attribute.

    Attributes:
        latest: By origin, in microseconds since the epoch.
    """

    def __init__(self, settings: RecordTime) -> None:
        self._settings = settings
        self.latest: dict[str, int] = {}

    def record(self, events: pa.Table) -> pa.Table:
        """Note the times of events of one split; return the events, without the attribute if nothing else needs it."""
        settings = self._settings
        if settings.attribute not in events.column_names:
            return events
        time = pc.max(events.column(settings.attribute)).as_py()
        if time is not None:
            origin = "/".join(str(events.column(name)[0].as_py()) for name in settings.origin)
            micros = _micros(time)
            self.latest[origin] = max(micros, self.latest.get(origin, micros))
        return events if settings.is_used else events.drop_columns([settings.attribute])


def _micros(time: int | str) -> int:
    if isinstance(time, int):
        return time * 1000
    return (datetime.fromisoformat(time) - _EPOCH) // timedelta(microseconds=1)

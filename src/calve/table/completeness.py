"""How a sink decides up to which time its tables are complete."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Completeness"]


@dataclass(frozen=True)
class Completeness:
    """The rules of one table.

    Attributes:
        event_time: The column with the time of an event; None: the time of the source's records counts.
        lateness_micros: So much later than the latest event a time counts as complete.
        idle_seconds: So long an origin without events still counts with its latest event.
        by_watermark: Whether a commit waits until a partition is complete.
    """

    event_time: str | None = None
    lateness_micros: int = 0
    idle_seconds: float = 0.0
    by_watermark: bool = False

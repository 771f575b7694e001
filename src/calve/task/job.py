"""The job that the driver sends to the tasks of one batch; they return a `calve.record.receipt`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from calve.event.envelope.decoder import Envelopes
from calve.record.target import TableRef
from calve.sinks.job import SinkJob
from calve.sources.source import Reader
from calve.task.isolation import WHOLE, Isolation

__all__ = [
    "STEPS",
    "Job",
]

STEPS = ("read", "decode", "route", "convert", "write")
"""The steps whose seconds a receipt has."""


@dataclass(frozen=True)
class Job:
    """One pass over a batch; pickled into its tasks.

    Attributes:
        run: Makes file names unique: pipeline, state and batch.
        origin: The metadata attributes that identify an event's part of the source.
        moment: When the batch was begun, from the ledger (`Planned.moment`).
        places: For each task the numbers of its splits in the batch's plan.
        splits: The number of splits of the batch.
        isolation: Which events of the batch are read, and which become dead letters.
        number: The pass: 0, then 1 and more for the tables that had misfits.
        gatherers: How many tasks write the parts that others hand on; 0: all tasks write everything themselves.
        only: The tables to write in this pass, by the number of the task that could not write them; None: all.
        envelopes: How to decode the envelopes of a change stream; None: events are rows.
    """

    pipeline: str
    run: str
    reader: Reader
    sinks: tuple[SinkJob, ...]
    max_open_writers: int
    origin: tuple[str, ...] = ()
    number: int = 0
    gatherers: int = 0
    only: Mapping[int, frozenset[TableRef]] | None = None
    moment: int = 0
    places: Sequence[Sequence[int]] = ()
    splits: int = 0
    isolation: Isolation = WHOLE
    envelopes: Envelopes | None = None

    @property
    def needs(self) -> frozenset[str]:
        """The columns of events that a sink needs, beside metadata."""
        return frozenset[str]().union(*(sink.needs for sink in self.sinks))

    @property
    def limits(self) -> list[int]:
        """For each sink: parts with less bytes are handed on."""
        return [sink.gathers_bytes for sink in self.sinks]

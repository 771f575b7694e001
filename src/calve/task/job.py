"""What the driver sends to the tasks of one batch; `calve.record.receipt` is what comes back."""

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
"""What a receipt has seconds of."""


@dataclass(frozen=True)
class Job:
    """One pass over a batch; pickled into its tasks.

    Attributes:
        run: Makes file names unique: pipeline, state and batch.
        origin: The metadata attributes that tell where an event came from, as far as its source is divided.
        moment: When the batch was begun, as the ledger has it (`Planned.moment`).
        places: By task: its splits' numbers in the batch's plan.
        splits: How many splits the batch has.
        isolation: Which of the batch's events are read, and which are left out as dead letters.
        number: The pass: 0, then 1 and more for the tables that had misfits.
        gatherers: How many tasks write what the others hand on; 0: these write all of it themselves.
        only: What to write in this pass: tables by the number of the task that could not write them; None for all.
        envelopes: How events are decoded that are envelopes of a change stream; None: they are the rows themselves.
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
        """The columns that some sink needs of events, beside metadata."""
        return frozenset[str]().union(*(sink.needs for sink in self.sinks))

    @property
    def limits(self) -> list[int]:
        """By sink: parts of less bytes are handed on."""
        return [sink.gathers_bytes for sink in self.sinks]

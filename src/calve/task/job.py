"""The job that the driver sends to the tasks of one batch; they return a `calve.record.receipt`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from calve.event.envelope.decoder import Envelopes
from calve.event.keyed.decoder import RecordKeys
from calve.processors.chain import Processors
from calve.processors.key_filter import KeyMemory
from calve.processors.masking import Masks
from calve.record.target import TableRef
from calve.serde.settings import Serde
from calve.sinks.job import SinkJob
from calve.sources.source import Reader
from calve.task.branch import FedPipeline
from calve.task.isolation import WHOLE, Isolation
from calve.task.record_times import RecordTime

__all__ = ["STEPS", "UNMASKED_STEPS", "Job"]

STEPS = ("read", "decode", "process", "route", "convert", "write")
"""The steps whose seconds a receipt has."""
UNMASKED_STEPS = frozenset(("read", "decode"))
"""The steps that see what masks hide; masking is the end of `decode`."""


@dataclass(frozen=True)
class Job:
    """One pass over a batch; pickled into its tasks.

    Attributes:
        run: Makes file names unique: pipeline, state and batch.
        origin: The metadata attributes that identify an event's part of the source.
        time_tenths: When the batch was begun, from the ledger (`Planned.time_tenths`).
        split_numbers: For each task the numbers of its splits in the batch's plan.
        splits: The number of splits of the batch.
        isolation: Which events of the batch are read, and which become dead letters.
        number: The pass: 0, then 1 and more for the tables that had misfits.
        shuffle_partitions: How many reduce tasks write the small parts of the tasks; 0: all tasks write their own.
        only: The tables to write in this pass, by the number of the task that could not write them; None: all.
        serde: How values with a schema become rows; None: events are JSON, or rows already.
        envelopes: How to decode the envelopes of a change stream; None: events are rows.
        masks: What hides columns of the events, before everything else; None: nothing.
        record_keys: How the keys of records become columns of their rows; None: they do not.
        processors: What changes the events before they are routed; None: nothing.
        branches: Fed pipelines with processors, each after the one that its events come from.
        record_time: Which attribute is the time of a record; None: the records have none.
        memory: The keys that were seen before the batch, whose events are then all of one task; None: no event is a
            duplicate.
    """

    pipeline: str
    run: str
    reader: Reader
    sinks: tuple[SinkJob, ...]
    max_open_writers: int
    origin: tuple[str, ...] = ()
    number: int = 0
    shuffle_partitions: int = 0
    only: Mapping[int, frozenset[TableRef]] | None = None
    time_tenths: int = 0
    split_numbers: Sequence[Sequence[int]] = ()
    splits: int = 0
    isolation: Isolation = WHOLE
    serde: Serde | None = None
    envelopes: Envelopes | None = None
    masks: Masks | None = None
    record_keys: RecordKeys | None = None
    processors: Processors | None = None
    branches: tuple[FedPipeline, ...] = ()
    record_time: RecordTime | None = None
    memory: KeyMemory | None = None

    @property
    def needs(self) -> frozenset[str]:
        """The columns of events that a sink needs, beside metadata."""
        return frozenset[str]().union(*(sink.needs for sink in self.sinks))

    @property
    def shuffle_below_bytes(self) -> list[int]:
        """For each sink: smaller parts are shuffled."""
        return [sink.shuffle_below_bytes for sink in self.sinks]

    @property
    def preserves_source_keys(self) -> bool:
        """Whether rows that differ in the key of their source table never change the same row of a target."""
        steps = (self.processors, self.serde, self.envelopes, self.record_keys)
        is_unchanged = not self.branches and all(step is None for step in steps)
        return is_unchanged and all(sink.preserves_source_keys for sink in self.sinks)

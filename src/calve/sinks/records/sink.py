"""The part on the driver that is the same for sinks which send the lines of a batch at its end."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

from calve.columns.fields import Fields
from calve.dead_letters.rejects import DeadLetterLocation
from calve.expression import compile_format
from calve.route.gates import gates
from calve.route.sink_route import SinkRoute
from calve.sinks.records.job import BatchJob, no_fault
from calve.sinks.records.settings import LineSettings, has_operation
from calve.sinks.records.shape import RecordOptions, compile_shape
from calve.sinks.sink import Opening, Order
from calve.sources.source import SourceTable

__all__ = ["LineSink"]


class LineSink(ABC):
    """A sink of lines (`Sink`); runs on the driver.

    Args:
        opening: Its settings and tools.
        target: The text that names where an event goes.
        field: The option that has it, for rejects.
        job_of: Makes a job of this kind of sink from the attributes of a `BatchJob`.
        fault: Returns what is wrong with a name, or None.
    """

    tables = None
    order = Order.ONE_TASK
    """The lines of a batch are in the order of their events."""

    def __init__(
        self,
        opening: Opening,
        target: str,
        field: str,
        job_of: Callable[..., BatchJob],
        fault: Callable[[str], str | None] = no_fault,
    ) -> None:
        entry, metadata = opening.entry, opening.metadata
        settings: LineSettings = entry.value
        has_changes = settings.operation or opening.operation or has_operation(metadata)
        is_envelope = settings.serde_format == "debezium" or (settings.serde_format is None and bool(has_changes))
        options = RecordOptions(field, operation=settings.operation, is_envelope=is_envelope, deletes_need_key=False)
        self._label = opening.label
        self._job_of = job_of
        self._route = SinkRoute(compile_format(target, metadata), gates(entry, metadata), field=field, fault=fault)
        self._shape = compile_shape(options, metadata, opening.operation)
        self._fields = Fields(frozenset(entry.include_keys), frozenset(entry.exclude_keys))
        self.dead_letters = DeadLetterLocation(
            opening.dead_letters, opening.letters_storage({}), limits=opening.letters_limits
        )
        self.flush_seconds = settings.flush_interval.total_seconds()
        self.max_batch_bytes = int(settings.max_batch_bytes)

    @property
    def metadata(self) -> frozenset[str]:
        """The metadata attributes that it reads."""
        return self._route.metadata | self._shape.metadata

    @abstractmethod
    def open(self) -> None:
        """Connect, and create what the first event needs. May be repeated.

        Raises:
            CalveError: The other side does not answer, or refuses.
        """

    def begin_batch(self, tables: Sequence[SourceTable]) -> None:
        """Do nothing: the first record creates what it needs."""
        return

    def job(self, batch: int, time_tenths: int, prefix: str, replays: bool) -> BatchJob:
        """Return its part of the job of a batch.

        Args:
            batch: The batch's number.
            time_tenths: The batch's time.
            prefix: A part of the batch's name, unique to the state and the sink.
            replays: Whether this is a replay of dead letters.
        """
        return self._job_of(
            label=self._label,
            route=self._route,
            dead_letters=self.dead_letters,
            shape=self._shape,
            fields=self._fields,
            name=f"{prefix}{batch:012d}",
            time_ms=time_tenths * 100,
        )

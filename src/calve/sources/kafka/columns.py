"""Reads a range of offsets directly into columns, with the compiled core."""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa
from confluent_kafka import KafkaError, TopicPartition

from calve.errors import SourceError
from calve.sources.kafka.client import ClientTrouble, translate
from calve.sources.kafka.consumer import POLL_SECONDS, Connected, Polled, Range, connected, follow, translated
from calve.sources.kafka.librdkafka import ArrowArray, Complaint, Native, TakeResult
from calve.sources.kafka.record import COSTLY, KEY, OFFSET, EventForm, batch, costly
from calve.sources.kafka.settings import RECORD
from calve.sources.source import EVENT, READ_BYTES, READ_ROWS

__all__ = ["Columns", "Wanted", "batches"]

TYPES = {EVENT: pa.binary(), OFFSET: pa.int64()} | dict(
    zip(COSTLY, (pa.string(), pa.int64(), pa.string(), pa.string(), pa.string()), strict=True)
)
"""In the order of `Records::take` in `core/src/kafka.rs`; each expensive one is requested by a bit."""
_TIMEOUT_MS = round(POLL_SECONDS * 1000)


@dataclass(frozen=True)
class Wanted:
    """The records to read, and their form.

    Attributes:
        range: The records.
        form: The form of the events: the record's value.
        metadata: The requested expensive attributes; None: all.
    """

    range: Range
    form: EventForm
    metadata: frozenset[str] | None


def batches(native: Native, client: dict[str, Any], wanted: Wanted) -> Iterator[pa.RecordBatch]:
    """Yield every record of a range in order; offsets without a record are skipped.

    Raises:
        RefusedError: The settings need a `confluent_kafka.Consumer`.
        SourceError: The broker does not answer, or the records are gone.
    """
    with connected(client, native.consumer) as lent, translated(wanted.range, lent.trouble):
        lent.consumer.assign([TopicPartition(wanted.range.topic, wanted.range.partition, wanted.range.start)])
        columns = Columns(native, wanted)
        for portion in follow(partial(columns.poll, lent), wanted.range, lent.trouble):
            if columns.rows > READ_ROWS - portion.rows or columns.size_bytes > READ_BYTES:
                yield columns.batch()
        if columns.rows:
            yield columns.batch()


class Columns:
    """Collects records of one range into batches.

    Args:
        native: The core.
        wanted: The records, and their form.
    """

    def __init__(self, native: Native, wanted: Wanted) -> None:
        self.rows = 0
        self.size_bytes = 0
        self._core = native.core
        self._range = wanted.range
        self._names = [EVENT, OFFSET, *costly(wanted.metadata)]
        self._hidden = {KEY, RECORD} if wanted.form.key_mode == "discard" else set()
        built = {*self._names} - self._hidden
        bits = sum(1 << bit for bit, name in enumerate(COSTLY) if name in built)
        self._records: int = native.core.calve_kafka_records(bits)
        weakref.finalize(self, native.core.calve_kafka_free, self._records)

    def poll(self, lent: Connected, rows: int) -> Polled:
        """Take at most `rows` records from a consumer's queue.

        Raises:
            SourceError: The partition cannot be read.
        """
        got = TakeResult(reached=self._range.start)
        arguments = self._records, lent.consumer.queue, _TIMEOUT_MS, rows, self._range.end, got
        code = self._core.calve_kafka_take(*arguments)
        self._hear(lent.trouble)
        if code:
            raise _failed(self._range)
        self.rows += got.kept
        self.size_bytes += got.size_bytes
        return Polled(got.rows, got.size_bytes, got.reached)

    def _hear(self, trouble: ClientTrouble) -> None:
        complaint = Complaint()
        while self._core.calve_kafka_complaint(complaint):
            error = KafkaError(complaint.code, complaint.reason.decode(errors="replace"))
            if complaint.is_of_partition:
                raise translate(error, str(self._range), trouble)
            trouble.note(error)

    def batch(self) -> pa.RecordBatch:
        """Return the collected records as one batch, the events first, and start a new batch."""
        out = (ArrowArray * len(TYPES))()
        if self._core.calve_kafka_batch(self._records, out):
            raise _failed(self._range)
        arrays = {
            name: pa.Array._import_from_c(ctypes.addressof(array), kind)
            for array, (name, kind) in zip(out, TYPES.items(), strict=True)
        }
        arrays |= {name: pa.nulls(self.rows, TYPES[name]) for name in self._hidden}
        self.rows = self.size_bytes = 0
        return batch({name: arrays[name] for name in self._names}, self._range.topic, self._range.partition)


def _failed(wanted: Range) -> SourceError:
    hint = "Set the environment variable CALVE_CORE=off, so that it is read without the compiled core"
    return SourceError(f"The compiled core cannot read {wanted}", step="read", target=str(wanted), hint=hint)

"""What tasks get to know of an HTTP sink, and how one sends the requests of a batch, in order. Runs on executors."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from calve.sinks.http.client import HttpClient
from calve.sinks.http.settings import HttpSinkSettings
from calve.sinks.job import Work
from calve.sinks.records.job import BatchJob
from calve.sinks.records.lines import lines
from calve.sinks.records.record import OutgoingRecord
from calve.sinks.records.writer import BatchWriter, Refusal
from calve.stop_point import stop_at

__all__ = ["RequestJob", "RequestWriter"]


@dataclass(frozen=True)
class RequestJob(BatchJob):
    """A sink's part of a job, of which one task sends the requests.

    Attributes:
        settings: The sink's settings.
    """

    settings: HttpSinkSettings

    def writer(self, work: Work) -> RequestWriter:
        """Make what sends requests in a task."""
        return RequestWriter(self, work)


class _Item(NamedTuple):
    """An event of a request, and where it is in the batch."""

    part: int
    row: int
    line: bytes


class RequestWriter(BatchWriter):
    """Sends the records of one batch.

    A request is the same whenever the batch comes again, and so is its key. If the server refuses one because of an
    event, its halves are sent, until the event is alone.

    Args:
        job: The sink's part of the job.
        work: The task.
    """

    def __init__(self, job: RequestJob, work: Work) -> None:
        super().__init__(work, job.shape, job.fields, job.time_ms)
        self._job = job
        self._refused: dict[tuple[int, int], str] = {}

    def send(self, targets: set[str], records: Callable[[], Iterator[OutgoingRecord]]) -> Refusal | None:
        """Send the requests; return what tells the events that the server refuses."""
        client = HttpClient(self._job.settings)
        for number, items in enumerate(self._requests(records())):
            self._send(client, items, f"{self._job.name}-{number}")
            stop_at("task.after-send")
        if not self._refused:
            return None
        return lambda record: self._refused.get((record.part, record.row))

    def _requests(self, records: Iterator[OutgoingRecord]) -> Iterator[list[_Item]]:
        """Yield the events of each request."""
        items, size, settings = list[_Item](), 0, self._job.settings
        for record, line in lines(records):
            if items and (size + len(line) > settings.max_request_size or len(items) == settings.max_events):
                yield items
                items, size = [], 0
            items.append(_Item(record.part, record.row, line))
            size += len(line)
        if items:
            yield items

    def _send(self, client: HttpClient, items: Sequence[_Item], key: str) -> None:
        answer = client.send(_body([item.line for item in items], self._job.settings.body), key)
        if not answer.is_refusal_of_events:
            return
        if len(items) == 1:
            self._refused[items[0].part, items[0].row] = f"the server refuses it with {answer.reason}"
            return
        middle = len(items) // 2
        self._send(client, items[:middle], f"{key}.0")
        self._send(client, items[middle:], f"{key}.1")


def _body(rows: Sequence[bytes], body: str) -> bytes:
    return b"".join(rows) if body == "ndjson" else b"[" + b",".join(row[:-1] for row in rows) + b"]"

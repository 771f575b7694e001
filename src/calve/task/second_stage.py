"""The second stage of a job whose tasks hand small parts on: one task writes all parts of a partition as one file."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from functools import partial

import msgspec
import pyarrow as pa
from msgspec.structs import replace

from calve.record.receipt import Receipt
from calve.record.target import Role, Stream
from calve.task.failure import Doing, attempt, reported
from calve.task.job import STEPS, Job
from calve.task.sink_writers import SinkWriters
from calve.write.shuffle import opened
from calve.write.writer import Writers

__all__ = ["write_handed_on"]


def write_handed_on(job: Job, bucket: int, records: Iterable[tuple[int, bytes]]) -> Iterator[bytes]:
    """Write the parts that other tasks handed on; yield a receipt, and the receipts of those tasks.

    Args:
        job: The job.
        bucket: This task's number.
        records: Receipts as JSON and messages of `write.shuffle`, in any order.
    """
    handed_on: dict[Stream, list[pa.Table]] = {}
    for _, message in records:
        if message.startswith(b"{"):
            yield message
        else:
            stream, rows = opened(message)
            handed_on.setdefault(stream, []).append(rows)
    if any(stream.role is Role.MISFIT for stream in handed_on):
        changes = (Role.CHANGED, Role.GONE, Role.MISFIT)
        handed_on = {stream: tables for stream, tables in handed_on.items() if stream.role not in changes}
    if handed_on:
        writers = Writers(f"{job.run}-{job.number}-g{bucket:05d}-{attempt()}", job.max_open_writers)
        doing = Doing("write")
        yield msgspec.json.encode(reported(job, writers, partial(_write, job, writers, handed_on, doing), doing))


def _write(job: Job, files: Writers, handed_on: dict[Stream, list[pa.Table]], doing: Doing) -> Receipt:
    start = time.perf_counter()
    sinks = SinkWriters(job, -1, files, None, doing, lambda step, function, *arguments: function(*arguments))
    for sink in {stream.sink for stream in handed_on}:
        sinks.of(sink).gather({stream: handed_on.pop(stream) for stream in list(handed_on) if stream.sink == sink})
    receipt = sinks.close()
    if job.isolation.is_probe:
        files.discard()
    return replace(receipt, seconds={**dict.fromkeys(STEPS, 0.0), "write": time.perf_counter() - start})

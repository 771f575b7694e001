"""A reduce task, the second stage of a job whose tasks shuffle small parts: writes a partition's parts as one file."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from functools import partial

import msgspec
import pyarrow as pa
from msgspec.structs import replace

from calve.errors import InvariantError
from calve.record.receipt import Receipt
from calve.record.target import Role, RowStream, TableRef
from calve.task.failure import attempt, reported
from calve.task.job import STEPS, Job
from calve.task.sink_writers import SinkWriters
from calve.task.step_clock import StepClock
from calve.write.shuffle import opened
from calve.write.writer import Writers

__all__ = ["run"]


def run(job: Job, number: int, records: Iterable[tuple[int, bytes]]) -> Iterator[bytes]:
    """Write the parts that other tasks sent; yield a receipt, and the receipts of those tasks.

    Args:
        job: The job.
        number: This task's number among the reduce tasks.
        records: Receipts as JSON and messages of `write.shuffle`, in any order.
    """
    parts: dict[RowStream, list[pa.Table]] = {}
    for _, message in records:
        if message.startswith(b"{"):
            yield message
        else:
            stream, rows = opened(message)
            parts.setdefault(stream, []).append(rows)
    if any(stream.role is Role.MISFIT for stream in parts):
        changes = (Role.CHANGED, Role.GONE, Role.MISFIT)
        parts = {stream: tables for stream, tables in parts.items() if stream.role not in changes}
    if parts:
        files = Writers(f"{job.run}-{job.number}-g{number:05d}-{attempt()}", job.max_open_writers)
        clock = StepClock("write")
        yield msgspec.json.encode(reported(job, files, partial(_write, job, files, parts, clock), clock))


def _write(job: Job, files: Writers, parts: dict[RowStream, list[pa.Table]], clock: StepClock) -> Receipt:
    start = time.perf_counter()
    sinks = SinkWriters(job, -1, files, None, clock, _never_rejected)
    for sink in {stream.sink for stream in parts}:
        sinks.of(sink).write_shuffled({stream: parts.pop(stream) for stream in list(parts) if stream.sink == sink})
    receipt = sinks.close()
    if job.isolation.is_probe:
        files.discard()
    return replace(receipt, seconds={**dict.fromkeys(STEPS, 0.0), "write": time.perf_counter() - start})


def _never_rejected(target: TableRef, events: pa.Table, rejects: pa.Table) -> None:
    raise InvariantError("Shuffled rows are not rejected", step="write", target=target.table)

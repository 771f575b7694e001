"""The second stage of a job whose tasks hand small parts on: one task writes all parts of a partition as one file."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from functools import partial

import msgspec
import pyarrow as pa

from calve.record.receipt import Receipt
from calve.record.target import Stream
from calve.task.failure import Doing, attempt, reported
from calve.task.job import STEPS, Job
from calve.task.merge_by_key import is_change, merge_net, unfit, write_net
from calve.write.shuffle import opened
from calve.write.writer import Writers

__all__ = ["write_handed_on"]


def write_handed_on(job: Job, bucket: int, records: Iterable[tuple[int, bytes]]) -> Iterator[bytes]:
    """Write what other tasks handed on; yield a receipt, and those that they sent along.

    Args:
        job: The job.
        bucket: This task's number.
        records: Receipts as JSON and messages of `write.shuffle`, in any order.
    """
    held: dict[Stream, list[pa.Table]] = {}
    for _, message in records:
        if message.startswith(b"{"):
            yield message
        else:
            stream, rows = opened(message)
            held.setdefault(stream, []).append(rows)
    if unfit(held):
        held = {stream: tables for stream, tables in held.items() if not is_change(stream)}
    if held:
        writers = Writers(f"{job.run}-{job.number}-g{bucket:05d}-{attempt()}", job.max_open_writers)
        doing = Doing("write")
        yield msgspec.json.encode(reported(job, writers, partial(_write, job, writers, held, doing), doing))


def _write(job: Job, writers: Writers, held: dict[Stream, list[pa.Table]], doing: Doing) -> Receipt:
    """Write table by table, each in one go, so that no file of a partition is closed before it has all its rows."""
    start = time.perf_counter()
    for target in {stream.target for stream in held if is_change(stream)}:
        doing.target = target
        write_net(job, writers, target, merge_net(job, target, held))
    while held:
        stream, parts = held.popitem()
        doing.target = stream.target
        writers.write(stream, *job.place(stream), pa.concat_tables(parts))
    doing.target = None
    tables = [job.table_files(stream, one) for stream, one in writers.close().items()]
    if job.isolation.is_probe:
        writers.discard()
    seconds = {**dict.fromkeys(STEPS, 0.0), "write": time.perf_counter() - start}
    return Receipt(tables=tables, seconds=seconds)

"""The second stage of a job whose tasks hand small parts on: one task writes all parts of a partition as one file."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

import msgspec
import pyarrow as pa

from calve.pipeline.changes import is_change, merge_net, unfit, write_net
from calve.pipeline.failure import Doing, attempt, reported
from calve.pipeline.job import SEEN, STEPS, Job
from calve.pipeline.losses import Losses
from calve.write.outbox import opened
from calve.write.writer import Writers

__all__ = ["write_handed_on"]


def write_handed_on(job: Job, bucket: int, records: Iterable[tuple[int, bytes]]) -> Iterator[bytes]:
    """Write what other tasks handed on; yield a receipt, and those that they sent along.

    Args:
        job: The job.
        bucket: This task's number.
        records: Receipts as JSON and messages of `write.outbox`, in any order.
    """
    held: dict[tuple[Any, ...], list[pa.Table]] = {}
    for _, message in records:
        if message.startswith(b"{"):
            yield message
        else:
            key, rows = opened(message)
            held.setdefault(key, []).append(rows)
    if unfit(set(held)):
        held = {key: tables for key, tables in held.items() if not is_change(key)}
    if held:
        writers = Writers(f"{job.run}-{job.number}-g{bucket:05d}-{attempt()}", job.max_open_writers)
        doing = Doing("write")
        yield msgspec.json.encode(reported(job, writers, partial(_write, job, writers, held, doing), doing))


def _write(job: Job, writers: Writers, held: dict[tuple[Any, ...], list[pa.Table]], doing: Doing) -> dict[str, Any]:
    """Write table by table, each in one go, so that no file of a partition is closed before it has all its rows."""
    start = time.perf_counter()
    for target in {key[:2] for key in held if is_change(key)}:
        doing.target = target
        write_net(job, writers, target, merge_net(job, target, held))
    while held:
        key, tables = held.popitem()
        doing.target = key[:2]
        writers.write(key, *job.place(key), pa.concat_tables(tables))
    doing.target = None
    tables = [{**job.receipt(key, one), "event_times": {}} for key, one in writers.close().items()]
    if job.isolation.is_probe:
        writers.discard()
    seconds = {**dict.fromkeys(STEPS, 0.0), "write": time.perf_counter() - start}
    nothing: dict[str, Any] = {"documents": [], "rejects": [], "misfits": [], **dict.fromkeys(SEEN, 0)}
    nothing |= Losses().receipt()
    return {"tables": tables, "first": False, "task": -1, "handed_on": 0, **nothing, "seconds": seconds}

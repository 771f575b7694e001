"""Reads the records of a part of the log. Runs on executors."""

from __future__ import annotations

from collections.abc import Iterator

from calve.sources.log import record
from calve.sources.log.record import BadRecordError, RecordHead
from calve.sources.log.segment import damaged
from calve.sources.log.storage import storage_in
from calve.sources.source import Split
from calve.state.folder import StateFolder

__all__ = ["records"]


def records(folder: StateFolder, split: Split) -> Iterator[tuple[RecordHead, memoryview]]:
    """Yield the records of a split of `SegmentIndex.plan`, in order: each with its head, and everything after it.

    Raises:
        SourceError: The log is not there or damaged.
        WriteError: The object store does not answer.
    """
    start, size = split.body["start"], split.body["end"] - split.body["start"]
    data = memoryview(storage_in(folder).read(split))
    at = 0
    while at < size:
        try:
            head = record.parse_head(data, at, len(data))
            record.check_body(data, at, head)
        except BadRecordError as error:
            raise damaged(f"{folder}/{split.body['file']}", start + at, str(error)) from error
        yield head, data[at + record.HEAD_BYTES : at + head.size]
        at += head.size

"""Reads the records of a part of the log. Runs on executors."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from calve.errors import SourceError
from calve.sources.log import record
from calve.sources.log.record import BadRecordError, Head
from calve.sources.log.segment import damaged
from calve.sources.source import Split

__all__ = ["records"]


def records(folder: Path, split: Split) -> Iterator[tuple[Head, memoryview]]:
    """Yield the records of a split of `Index.plan`, in order: each with its head, and everything after it.

    Raises:
        SourceError: The log is not there or damaged.
    """
    path = folder / split.body["file"]
    start, size = split.body["start"], split.body["end"] - split.body["start"]
    try:
        with path.open("rb") as file:
            file.seek(start)
            data = memoryview(file.read(size))
    except OSError as error:
        raise SourceError(
            f"the log {path} cannot be read: {error.strerror}",
            step="read",
            target=str(path),
            hint="Executors read it: on a cluster the state folder must be one that all machines share",
        ) from error
    at = 0
    while at < size:
        try:
            head = record.parse_head(data, at, len(data))
            record.check_body(data, at, head)
        except BadRecordError as error:
            raise damaged(path, start + at, str(error)) from error
        yield head, data[at + record.HEAD_BYTES : at + head.size]
        at += head.size

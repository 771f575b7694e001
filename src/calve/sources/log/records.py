"""Reads the records of a part of the log. Runs on executors."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from calve.errors import SourceError
from calve.object_store import StateFolder, StoreFolder
from calve.sources.log import record, store_chain
from calve.sources.log.record import BadRecordError, Head
from calve.sources.log.segment import damaged
from calve.sources.source import Split

__all__ = ["records"]

_FETCHES = 8
"""Objects that one task fetches at the same time."""


def records(folder: StateFolder, split: Split) -> Iterator[tuple[Head, memoryview]]:
    """Yield the records of a split of `Index.plan`, in order: each with its head, and everything after it.

    Raises:
        SourceError: The log is not there or damaged.
        WriteError: The object store does not answer.
    """
    path = folder / split.body["file"]
    start, size = split.body["start"], split.body["end"] - split.body["start"]
    data = memoryview(_on_store(folder, split) if isinstance(folder, StoreFolder) else _on_disk(folder, split))
    at = 0
    while at < size:
        try:
            head = record.parse_head(data, at, len(data))
            record.check_body(data, at, head)
        except BadRecordError as error:
            raise damaged(path, start + at, str(error)) from error
        yield head, data[at + record.HEAD_BYTES : at + head.size]
        at += head.size


def _on_disk(folder: Path, split: Split) -> bytes:
    path, start = folder / split.body["file"], split.body["start"]
    try:
        with path.open("rb") as file:
            file.seek(start)
            content: bytes = file.read(split.body["end"] - start)
            return content
    except OSError as error:
        raise SourceError(
            f"the log {path} cannot be read: {error.strerror}",
            step="read",
            target=str(path),
            hint="Executors read it: on a cluster the state folder must be one that all machines share",
        ) from error


def _on_store(folder: StoreFolder, split: Split) -> bytes:
    number, start, end = int(Path(split.body["file"]).stem), split.body["start"], split.body["end"]
    parts, log = split.body["parts"], store_chain.place(folder)

    def read(part: int, stop: int) -> bytes:
        first = max(start, part)
        return log.get_range(store_chain.name(number, part), first - part, min(stop, end) - first)

    try:
        with ThreadPoolExecutor(_FETCHES) as pool:
            return b"".join(pool.map(read, parts, [*parts[1:], end]))
    except FileNotFoundError as error:
        raise SourceError(
            f"the log in {folder} lacks an object of events that were not read: {error}",
            step="read",
            target=str(folder),
            hint="Restore it; if its events may be lost, start the pipeline with a new state",
        ) from error

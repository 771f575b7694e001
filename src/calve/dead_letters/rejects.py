"""Collects rejects for the dead-letter queue: entries by table, as one unpublished file or as rows.

The driver publishes the file when its batch is staged (`calve.dead_letters.publish`), so each reject appears once.
Rows of a table of dead letters become data files, which are committed like those of any other table.
"""

from __future__ import annotations

import datetime
import itertools
import os
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pyarrow as pa
from pyiceberg.io import load_file_io

from calve import structs
from calve.dead_letters.room import RoomLimits, check_batch
from calve.errors import WriteError
from calve.event.dead_letter import letters, line
from calve.event.reject import cut
from calve.files.private import make_private, private
from calve.record.written import Rejects
from calve.state.durable import local_path, sync
from calve.table.arrow_schema import arrow_schema
from calve.table.loaded import Table
from calve.write.parquet import storage_error

__all__ = ["DeadLetterLocation", "TaskRejects"]

_IN_MEMORY_BYTES = 4 << 20
_RECENT = 1000
_RECENT_BYTES = 4 << 20
"""The entries that wait for equal ones, and the bytes of their events."""
_CHECK_BYTES, _SMALL_BYTES = 16 << 20, 1 << 20
"""After so many bytes their room is checked; a smaller file needs no check."""
_ROWS = 8192
"""The entries that are converted to rows at a time."""
_ENCODER = msgspec.json.Encoder()


@dataclass(frozen=True)
class DeadLetterLocation:
    """The location of a sink's dead letters.

    Attributes:
        location: A folder or an object store's prefix.
        io_properties: The properties of a FileIO that can write there.
        table: The table that gets them instead, if any.
        limits: How much room there is; None: as much as they need, as for a replay.
    """

    location: str
    io_properties: dict[str, str] = field(default_factory=dict)
    table: Table | None = None
    limits: RoomLimits | None = None


class TaskRejects:
    """The rejects of one sink in one task attempt; runs on an executor.

    Args:
        location: Their location.
        name: The published file's name without its suffix; the same for every attempt of a task.
        attempt: Makes the unpublished file's name unique for this attempt.
        labels: The entries' `pipeline` and `sink`.
        is_ordered: Whether a replay must send the events in their order: then only neighbours become one entry.
    """

    def __init__(
        self, location: DeadLetterLocation, name: str, attempt: str, labels: dict[str, str], is_ordered: bool = True
    ) -> None:
        self._recent = 1 if is_ordered else _RECENT
        self._location = location
        self._name = name
        self._attempt = attempt
        self._labels = labels
        self._spools: dict[str, _Spool] = {}
        self._counts: dict[str, dict[str, int]] = {}
        self._examples: dict[str, dict[str, str]] = {}
        self._checked_bytes = 0

    def add(self, table: str, events: pa.Table, rejects: pa.Table) -> None:
        """Add rejected rows.

        Args:
            table: Their target table, empty if it is unknown.
            events: The rows with their `event` (or its origin, `_original`) and metadata columns.
            rejects: `REJECTS`: positions in `events`, code, field, reason.

        Raises:
            WriteError: They have no room in their folder.
        """
        if not len(rejects):
            return
        spool = self._spools.get(table)
        if spool is None:
            spool = self._spools[table] = _Spool(self._recent)
        counts, examples = self._counts.setdefault(table, {}), self._examples.setdefault(table, {})
        for entry in letters(events, rejects, {**self._labels, "table": table}):
            spool.add(entry)
            counts[entry["code"]] = counts.get(entry["code"], 0) + 1
            examples.setdefault(entry["code"], ": ".join(filter(None, (cut(entry["field"]), entry["reason"]))))
        self._check_room(_CHECK_BYTES)

    def forget(self, table: str) -> None:
        """Drop a table's rejects, because another pass reads its events again."""
        if (spool := self._spools.pop(table, None)) is not None:
            spool.close()
            del self._counts[table], self._examples[table]

    def rows(self) -> Iterator[pa.Table]:
        """Yield the entries as rows of the table of dead letters, one for each event; nothing without one."""
        table = self._location.table
        schema = arrow_schema(table.schema) if table else pa.schema([])
        number = 0
        for spool in self._spools.values() if table else ():
            events = itertools.chain.from_iterable(map(_repeated, spool.finished()))
            while lines := list(itertools.islice(events, _ROWS)):
                yield _rows(lines, {"task": self._name, "number": range(number, number + len(lines))}, schema)
                number += len(lines)

    def close(self) -> Rejects | None:
        """Write the file, unless the dead letters go to a table; return counts, examples and the file's two names.

        Raises:
            WriteError: They have no room in their folder, or it cannot be written.
        """
        if not self._spools:
            return None
        if self._location.table:
            self._forget_all()
            return Rejects(self._counts, self._examples)
        for spool in self._spools.values():
            spool.finished()
        self._check_room(_SMALL_BYTES)
        name = f"{self._name}.ndjson"
        path = f"{self._location.location}/_{name}-{self._attempt}"
        try:
            self._write(path)
        except OSError as error:
            raise storage_error(self._location.location, error, "reject") from error
        published = f"{self._location.location}/{name}"
        return Rejects(self._counts, self._examples, path, published)

    def _check_room(self, step_bytes: int) -> None:
        """Check, after each so many bytes, that they have room in their folder."""
        written = sum(spool.written_bytes for spool in self._spools.values())
        if written - self._checked_bytes < step_bytes or self._location.limits is None or self._location.table:
            return
        self._checked_bytes = written
        try:
            check_batch(self._location.location, self._location.limits, written)
        except WriteError:
            self._forget_all()
            raise

    def _forget_all(self) -> None:
        for spool in self._spools.values():
            spool.close()
        self._spools = {}

    def _write(self, path: str) -> None:
        local = local_path(path)
        if local is not None:
            make_private(local.parent)
            with open(local, "wb", opener=private) as file:
                self._copy(file)
                file.flush()
                os.fsync(file.fileno())
            sync(local.parent)
            return
        with load_file_io(self._location.io_properties, path).new_output(path).create(overwrite=True) as file:
            self._copy(file)

    def _copy(self, file: Any) -> None:
        for spool in self._spools.values():
            finished = spool.finished()
            while block := finished.read(1 << 20):
                file.write(block)
            spool.close()


class _Spool:
    """The entries of one table; equal ones that are near each other become one entry with a `count`.

    Args:
        recent: So many different entries wait for equal ones; 1 keeps the order of all events.
    """

    def __init__(self, recent: int) -> None:
        self._file: Any = tempfile.SpooledTemporaryFile(_IN_MEMORY_BYTES)  # noqa: SIM115
        self._most = recent
        self._recent: dict[tuple[Any, ...], dict[str, Any]] = {}  # the oldest first
        self._bytes = 0
        self.written_bytes = 0

    def add(self, entry: dict[str, Any]) -> None:
        key = *(entry[name] for name in ("code", "field", "reason", "event")), str(entry["metadata"])
        if (equal := self._recent.get(key)) is not None:
            equal["count"] = equal.get("count", 1) + 1
            return
        self._recent[key] = entry
        self._bytes += len(entry["event"] or "")
        while len(self._recent) > self._most or (self._bytes > _RECENT_BYTES and len(self._recent) > 1):
            self._write_oldest()

    def finished(self) -> Any:
        """Return all entries as a file of lines, at its start."""
        while self._recent:
            self._write_oldest()
        self._file.seek(0)
        return self._file

    def close(self) -> None:
        self._file.close()

    def _write_oldest(self) -> None:
        entry = self._recent.pop(next(iter(self._recent)))
        self._bytes -= len(entry["event"] or "")
        self.written_bytes += self._file.write(line(entry))


class _Counted(msgspec.Struct):
    count: int = 1


def _repeated(line: bytes) -> Iterator[bytes]:
    """Return an entry as often as its event was rejected."""
    return itertools.repeat(line, structs.decode(line, _Counted).count)


def _rows(lines: Sequence[bytes], added: dict[str, Any], schema: pa.Schema) -> pa.Table:
    """Return entries as rows of a schema; columns that are not part of an entry become null."""
    entries = [msgspec.json.decode(line) for line in lines]
    for entry in entries:
        entry["metadata"] = _ENCODER.encode(entry["metadata"]).decode()
        entry["timestamp"] = datetime.datetime.fromisoformat(entry["timestamp"])
    columns: dict[str, Any] = {name: [entry.get(name) for entry in entries] for name in schema.names}
    columns |= {"task": [added["task"]] * len(lines), "number": added["number"]}
    return pa.table([pa.array(columns[field.name], field.type) for field in schema], schema=schema)

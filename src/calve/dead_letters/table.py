"""Dead letters in an Iceberg table: its columns, the note with its location, and how its entries are read.

A folder of dead letters has a note for each table that gets the pipeline's rejects. It has the location of the table's
metadata at the last refresh, so a reader needs no catalog and no password. If the catalog is an SQLite file or only
folders (`hadoop`), or if the reader has the catalog (`LoadLetters`), the current version of the table is read.
"""

from __future__ import annotations

import contextlib
import functools
import json
import re
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.expressions import AlwaysTrue, And, EqualTo, GreaterThanOrEqual, IsNull, LessThan, NotNull, Reference
from pyiceberg.io.pyarrow import ArrowScan
from pyiceberg.schema import Schema
from pyiceberg.table import StaticTable
from pyiceberg.types import LongType, NestedField, StringType, TimestamptzType

from calve.errors import SourceError
from calve.event.columns import WITHHELD
from calve.observe.state_folder import Folder

__all__ = ["LETTERS", "PROPERTIES", "LetterTable", "LoadLetters", "newest_in", "note", "note_name", "tables_in"]

LETTERS = Schema(
    NestedField(1, "timestamp", TimestamptzType(), required=False),
    NestedField(2, "pipeline", StringType(), required=False),
    NestedField(3, "sink", StringType(), required=False),
    NestedField(4, "table", StringType(), required=False),
    NestedField(5, "code", StringType(), required=False),
    NestedField(6, "field", StringType(), required=False),
    NestedField(7, "reason", StringType(), required=False),
    NestedField(8, "event", StringType(), required=False, doc="The original text; Base64 where event_encoding says so"),
    NestedField(9, "event_encoding", StringType(), required=False),
    NestedField(10, "metadata", StringType(), required=False, doc="JSON"),
    NestedField(11, "task", StringType(), required=False, doc="With number: the key of the entry"),
    NestedField(12, "number", LongType(), required=False),
)
"""The columns of a table of dead letters: the keys of an entry, and its identity (`task`, `number`)."""
PROPERTIES = {"write.metadata.metrics.column.task": "full"}
"""A replay reads the entries task by task, so the bounds of `task` must not be truncated."""
_SUFFIX = ".metadata.json"
_CHOSEN = ("pipeline", "sink", "table", "timestamp", "code", "task", "number")
_TOLD = ("s3.endpoint", "s3.region", "s3.force-virtual-addressing", "gcs.project-id", "adls.account-name")
_VERSION = re.compile(r"v(\d+)(\.gz)?\.metadata\.json").fullmatch
_EXPANDED = 4
"""Parquet needs about a quarter of the size of the entries' text."""


@dataclass(frozen=True)
class LetterTable:
    """One version of a table of dead letters.

    Attributes:
        location: The location of its metadata file.
        path: Its name in messages.
        storage: The properties of a FileIO for its files; notes have them without secrets.
    """

    location: str
    path: str = ""
    storage: Mapping[str, str] = field(default_factory=dict)

    @staticmethod
    def is_at(location: str) -> bool:
        """Return whether a location of dead letters is a table."""
        return location.endswith(_SUFFIX)

    @property
    def open_storage(self) -> dict[str, str]:
        """The storage properties that are not secret."""
        return {key: value for key, value in self.storage.items() if key in _TOLD}

    def tasks(self) -> list[str]:
        """Return the tasks that wrote its entries, sorted.

        Raises:
            SourceError: The table cannot be read.
        """
        return list(self._spans)

    def chosen(self, task: str) -> Iterator[dict[str, Any]]:
        """Yield the entries of a task by number, without event and metadata: enough to select entries.

        Of the metadata they have the length of a withheld event, which cannot be replayed.
        """
        start, count = self._spans[task]
        for batch in self._index.slice(start, count).to_batches():
            for entry in map(_entry, batch.to_pylist()):
                withheld = self._withheld.get((task, entry["number"]))
                yield entry if withheld is None else {**entry, "metadata": {WITHHELD: withheld}}

    @cached_property
    def entry_bytes(self) -> int:
        """The estimated size of an entry as text."""
        with self._read_errors():
            files = [task.file for task in self._table.scan().plan_files()]
        rows = sum(file.record_count for file in files)
        return max(1, _EXPANDED * sum(file.file_size_in_bytes for file in files) // max(rows, 1))

    def entries(self) -> Iterator[dict[str, Any]]:
        """Yield every entry, data file by data file in the order of their names, with its `task` and `number`.

        Raises:
            SourceError: The table cannot be read.
        """
        with self._read_errors():
            for task in sorted(self._table.scan().plan_files(), key=lambda task: task.file.file_path):
                scan = ArrowScan(self._table.metadata, self._table.io, self._projected, AlwaysTrue())
                for batch in scan.to_record_batches([task]):
                    yield from map(_entry, batch.to_pylist())

    def lines(self, task: str, spans: Sequence[tuple[int, int]]) -> Iterator[tuple[int, bytes]]:
        """Yield number and NDJSON line of a task's entries with numbers in the spans, in order.

        Raises:
            SourceError: The table cannot be read, or lacks an entry of the spans.
        """
        first, last = min(start for start, _ in spans), max(end for _, end in spans)
        numbers = And(_compared(GreaterThanOrEqual, "number", first), _compared(LessThan, "number", last))
        row_filter = And(_compared(EqualTo, "task", task), numbers)
        with self._read_errors():
            rows = self._table.scan(row_filter=row_filter, selected_fields=self._names).to_arrow().sort_by("number")
        wanted = functools.reduce(pc.or_, (_within(rows["number"], *span) for span in spans))
        rows = rows.filter(wanted)
        if len(rows) != sum(end - start for start, end in spans):
            raise SourceError(
                f"The table {self.path or self.location} no longer has the dead letters of this replay",
                step="read",
                target=self.path or self.location,
                hint="Roll the table back to the snapshot that has them, and replay again",
            )
        for batch in rows.to_batches():
            for entry in map(_entry, batch.to_pylist()):
                yield entry["number"], msgspec.json.encode(entry)

    @property
    def _table(self) -> StaticTable:
        return _opened(self.location, tuple(sorted(self.storage.items())))

    @property
    def _names(self) -> tuple[str, ...]:
        return tuple(LETTERS.column_names)

    @property
    def _projected(self) -> Schema:
        return self._table.schema().select(*self._names)

    @cached_property
    def _index(self) -> pa.Table:
        with self._read_errors():
            rows = self._table.scan(row_filter=NotNull(term=Reference("task")), selected_fields=_CHOSEN).to_arrow()
        return rows.sort_by([("task", "ascending"), ("number", "ascending")])

    @cached_property
    def _withheld(self) -> dict[tuple[str, int], Any]:
        """The lengths of withheld events by task and number; only entries without an event are read for them."""
        row_filter = And(NotNull(term=Reference("task")), IsNull(term=Reference("event")))
        with self._read_errors():
            rows = self._table.scan(row_filter=row_filter, selected_fields=("task", "number", "metadata")).to_arrow()
        entries = [_entry(row) for row in rows.to_pylist()]
        return {
            (entry["task"], entry["number"]): entry["metadata"][WITHHELD]
            for entry in entries
            if WITHHELD in (entry.get("metadata") or {})
        }

    @cached_property
    def _spans(self) -> dict[str, tuple[int, int]]:
        """The first row in the index and the number of rows, by task."""
        spans, start = {}, 0
        for task in self._index["task"].combine_chunks().value_counts().to_pylist():
            spans[task["values"]] = (start, task["counts"])
            start += task["counts"]
        return spans

    @contextlib.contextmanager
    def _read_errors(self) -> Iterator[None]:
        try:
            yield
        except (OSError, ValueError, KeyError) as error:
            raise SourceError(
                f"the dead letters in the table {self.path or self.location} cannot be read: {error}",
                step="observe",
                target=self.location,
                hint="Check your permissions, and that the table exists; for object storage set the credentials of the "
                "environment (AWS_…, GOOGLE_…, AZURE_…)",
            ) from error


LoadLetters = Callable[[str], LetterTable | None]
"""Loads the current version of a table; None if it cannot."""


def note_name(identifier: str) -> str:
    """Return the name of the note about a table."""
    return f"table.{identifier}.json"


def note(table: LetterTable, sqlite: tuple[str, str] | None, hadoop: bool = False) -> dict[str, Any]:
    """Return the note about a table of dead letters.

    Args:
        table: The table; the note has its storage properties without possible secrets.
        sqlite: The file and the name of a catalog on SQLite.
        hadoop: The catalog consists of folders only.
    """
    location = {"table": table.path, "metadata": table.location, "storage": table.open_storage}
    return {**location, "sqlite": sqlite, "hadoop": hadoop}


def newest_in(folder: str) -> str | None:
    """Return the newest metadata file of a table in a catalog of folders; None if there is none.

    Raises:
        OSError: The folder cannot be read.
    """
    names = [info.base_name for info in Folder.at(folder).file_infos()]
    numbered = [(int(match[1]), name) for name in names if (match := _VERSION(name))]
    return f"{folder}/{max(numbered)[1]}" if numbered else None


def tables_in(folder: Folder, load: LoadLetters | None = None) -> list[LetterTable]:
    """Return the tables of the notes in a folder; their current versions if `load` has them.

    Raises:
        OSError: The folder or a note cannot be read.
    """
    names = [info.base_name for info in folder.file_infos()]
    notes = [name for name in names if name.startswith("table.") and name.endswith(".json")]
    contents = [json.loads(folder.read(name)) for name in notes]
    return [(load(note["table"]) if load else None) or _noted(note) for note in contents]


def _noted(content: dict[str, Any]) -> LetterTable:
    location = content["metadata"]
    if content.get("hadoop"):
        with contextlib.suppress(OSError):
            location = newest_in(location.rpartition("/")[0]) or location
    if content["sqlite"]:
        with contextlib.suppress(sqlite3.Error):  # else the recorded version
            file, catalog = content["sqlite"]
            location = _now(file, catalog, content["table"]) or location
    return LetterTable(location, content["table"], content["storage"])


def _compared(comparison: Any, column: str, value: object) -> Any:
    return comparison(column, value)


def _within(numbers: pa.ChunkedArray, start: int, end: int) -> pa.ChunkedArray:
    return pc.and_(pc.greater_equal(numbers, start), pc.less(numbers, end))


def _now(file: str, catalog: str, identifier: str) -> str | None:
    namespace, _, name = identifier.rpartition(".")
    find = (
        "SELECT metadata_location FROM iceberg_tables WHERE catalog_name = ? AND table_namespace = ? AND table_name = ?"
    )
    with contextlib.closing(sqlite3.connect(f"{Path(file).as_uri()}?mode=ro", uri=True)) as database:
        row = database.execute(find, (catalog, namespace, name)).fetchone()
    return str(row[0]) if row else None


@functools.lru_cache(maxsize=8)
def _opened(location: str, storage: tuple[tuple[str, str], ...]) -> StaticTable:
    return StaticTable.from_metadata(location, dict(storage))


def _entry(row: dict[str, Any]) -> dict[str, Any]:
    """Convert a row to an entry as in a file; nulls are left out."""
    entry = {name: value for name, value in row.items() if value is not None}
    if "timestamp" in entry:
        entry["timestamp"] = entry["timestamp"].isoformat(timespec="milliseconds").replace("+00:00", "Z")
    if "metadata" in entry:
        entry["metadata"] = _metadata(entry["metadata"])
    return entry


def _metadata(text: str) -> dict[str, Any] | None:
    """Read metadata; other programs may have written anything."""
    try:
        metadata = json.loads(text)
    except ValueError:
        return None
    return metadata if isinstance(metadata, dict) else None

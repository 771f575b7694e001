"""Finds the rows of keys by a scan of the key columns of data files; runs on the driver.

The columns are found by field id and compared in the table's current types. Files whose bounds exclude all keys are not
read. All others are read in batches and joined with the keys by DuckDB, many files at once: a join for each file would
build the keys' hash table again and again.
"""

from __future__ import annotations

import contextlib
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from decimal import Decimal
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet
from pyiceberg.io import load_file_io
from pyiceberg.schema import Schema
from pyiceberg.types import NestedField

from calve.arrays import RowNumbers
from calve.errors import CommitError, SinkUnavailableError
from calve.event import duckdb_session
from calve.state.durable import local_path
from calve.table.arrow_schema import arrow_schema
from calve.table.loaded import Table

__all__ = [
    "KeyPart",
    "KeyRange",
    "KeySearch",
    "SearchedFile",
    "UnsearchableError",
    "fields_by_id",
    "key_range",
    "reading",
]

_READ_ROWS = 65_536
_JOIN_ROWS = 4_000_000
"""The rows that are joined at once: 100 to 300 MB for most keys."""
_READERS = 8
"""Files of an object store that are read at once."""
_ID = b"PARQUET:field_id"


class UnsearchableError(Exception):
    """A data file that only Spark can search: without field ids, with defaults, or with values of another type."""


class SearchedFile(NamedTuple):
    """A data file whose rows may have keys.

    Attributes:
        path: Its location.
        rows: How many rows it has.
        lower: Iceberg's lower bounds, by field id.
        upper: The upper ones.
        batch: The batch that adds the file, 0 if the table has it; with sequence numbers as batches, its own.
    """

    path: str
    rows: int
    lower: Mapping[int, bytes]
    upper: Mapping[int, bytes]
    batch: int = 0


class KeyPart(NamedTuple):
    """Rows of a file: the file, the number of the first one, and their key's columns `k0`, `k1`, …."""

    file: SearchedFile
    start: int
    columns: pa.Table


class KeySearch:
    """The keys of one set of columns, to be found in data files.

    Args:
        table: The table.
        ids: The field ids of the key.
        keys: Keys, each with the number of its batch or its sequence number: tables with the table's columns and
            field ids.

    Attributes:
        types: The types in which the columns of the key are compared.

    Raises:
        UnsearchableError: The table lacks a column of the key; or a key is null or a floating-point number, which
            Iceberg's readers compare in their own way.
    """

    def __init__(self, table: Table, ids: Sequence[int], keys: Iterable[tuple[int, pa.Table]]) -> None:
        self.table, self.ids = table, tuple(ids)
        self._file_io = load_file_io(table.io_properties, table.location)
        try:
            fields = [
                NestedField(number, f"k{at}", table.schema.find_type(number)) for at, number in enumerate(self.ids)
            ]
            defaults = [table.schema.find_field(number).initial_default for number in self.ids]
        except ValueError as error:
            raise UnsearchableError(str(error)) from error
        self._defaults = defaults
        self.types = [_compared(field.type) for field in arrow_schema(Schema(*fields))]
        if any(map(pa.types.is_floating, self.types)):
            raise UnsearchableError("a key is a floating-point number")
        self._names = [field.name for field in fields]
        parts = [self.columns(rows).append_column("batch", pa.repeat(batch, len(rows))) for batch, rows in keys]
        sql = f"SELECT {', '.join(self._names)}, max(batch) AS last FROM keys GROUP BY ALL"
        self._keys = duckdb_session.run(sql, keys=pa.concat_tables(parts))
        if any(self._keys.column(name).null_count for name in self._names):
            raise UnsearchableError("a key is null")

    @cached_property
    def _ranges(self) -> list[KeyRange | None]:
        """The keys of each column; an index needs none."""
        kinds = zip(self._names, self.types, strict=True)
        return [key_range(self._keys.column(name), kind) for name, kind in kinds]

    def find(self, files: Iterable[SearchedFile]) -> Iterator[tuple[str, RowNumbers]]:
        """Yield the rows that have one of the keys, and were there before the last batch with this key.

        Yields:
            The path of a file, and numbers of its rows; a path may come several times.

        Raises:
            UnsearchableError: A file needs Spark.
            CommitError: A file is damaged.
            SinkUnavailableError: A file cannot be read at the moment.
        """
        parts: list[KeyPart] = []
        rows = 0
        with contextlib.closing(self.read(self.matching(files))) as read:
            for part in read:
                parts.append(part)
                rows += len(part.columns)
                if rows >= _JOIN_ROWS:
                    yield from self._joined(parts)
                    parts, rows = [], 0
        if parts:
            yield from self._joined(parts)

    @property
    def keys(self) -> pa.Table:
        """The distinct keys: columns `k0`, `k1`, … in `types`; DuckDB has changed some."""
        columns = zip(self._names, self.types, strict=True)
        return pa.table([self._keys.column(name).cast(kind) for name, kind in columns], self._names)

    def matching(self, files: Iterable[SearchedFile]) -> list[SearchedFile]:
        """Return the files that may have one of the keys."""
        return [file for file in files if self._may_match(file)]

    def _may_match(self, file: SearchedFile) -> bool:
        """Return whether the bounds of a file leave room for a key in each of its columns."""
        for number, column in zip(self.ids, self._ranges, strict=True):
            lower, upper = file.lower.get(number), file.upper.get(number)
            if column is not None and lower is not None and upper is not None and not column.meets(lower, upper):
                return False
        return True

    def _joined(self, parts: Sequence[KeyPart]) -> Iterator[tuple[str, RowNumbers]]:
        columns = pa.concat_tables([part.columns for part in parts])
        numbered = columns.append_column("row", pa.array(np.arange(len(columns))))
        sql = f"SELECT rows.row, keys.last FROM rows JOIN keys USING ({', '.join(self._names)})"
        hits = duckdb_session.run(sql, rows=numbered, keys=self._keys)
        rows, last = hits.column("row").to_numpy(), hits.column("last").to_numpy()
        starts = np.cumsum([0, *(len(part.columns) for part in parts)])
        which = np.searchsorted(starts, rows, "right") - 1
        is_older = last > np.array([part.file.batch for part in parts])[which]
        rows, which = rows[is_older], which[is_older]
        order = np.argsort(which, kind="stable")
        numbers, firsts = np.unique(which[order], return_index=True)
        for number, hit in zip(numbers, np.split(rows[order], firsts[1:]), strict=False):
            part = parts[number]
            yield part.file.path, hit - starts[number] + part.start

    def read(self, files: Sequence[SearchedFile]) -> Generator[KeyPart, None, None]:
        """Yield the key's columns of files; nothing of a file that lacks one of them.

        Raises:
            UnsearchableError: A file needs Spark.
            CommitError: A file is damaged.
            SinkUnavailableError: A file cannot be read at the moment.
        """
        if local_path(self.table.location) is not None:
            for file in files:
                yield from self._read(file)
            return
        with ThreadPoolExecutor(_READERS, "calve-keys") as pool:
            waiting: deque[Future[list[KeyPart]]] = deque()
            for file in files:
                waiting.append(pool.submit(self._read_whole, file))
                if len(waiting) == _READERS:
                    yield from waiting.popleft().result()
            while waiting:
                yield from waiting.popleft().result()

    def _read_whole(self, file: SearchedFile) -> list[KeyPart]:
        return list(self._read(file))

    def _read(self, file: SearchedFile) -> Iterator[KeyPart]:
        """Yield the key's columns of a file; nothing if it is older than one of them, so that all its keys are null."""
        local, start = local_path(file.path), 0
        with reading(file.path):
            source = self._file_io.new_input(file.path).open() if local is None else pa.memory_map(str(local))
            with source, parquet.ParquetFile(source, pre_buffer=local is None) as opened:
                names = self._stored_names(file.path, opened.schema_arrow)
                for batch in opened.iter_batches(_READ_ROWS, columns=names, use_threads=False) if names else ():
                    columns = self.columns(pa.Table.from_batches([batch]))
                    yield KeyPart(file, start, columns)
                    start += len(columns)

    def _stored_names(self, path: str, schema: pa.Schema) -> list[str]:
        """Return the names of the key's columns in a file; none if it lacks one of them.

        Raises:
            UnsearchableError: It has no field ids, or a column that it lacks has a default value.
        """
        names = {number: ".".join(parts) for number, parts in fields_by_id(schema).items()}
        if not names:
            raise UnsearchableError(f"{path} has no field ids")
        for number, default in zip(self.ids, self._defaults, strict=True):
            if number not in names and default is not None:
                raise UnsearchableError(f"{path} is older than a column with a default value")
        return [names[number] for number in self.ids] if names.keys() >= set(self.ids) else []

    def columns(self, rows: pa.Table) -> pa.Table:
        """Return the key's columns of rows, in the types in which they are compared.

        Raises:
            UnsearchableError: A value does not fit the table's type.
        """
        while any(pa.types.is_struct(field.type) for field in rows.schema):
            rows = rows.flatten()
        columns = {_number(field): column for field, column in zip(rows.schema, rows.columns, strict=True)}
        try:
            typed = [_plain(columns[number]).cast(kind) for number, kind in zip(self.ids, self.types, strict=True)]
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise UnsearchableError(str(error)) from error
        return pa.table(typed, self._names)


def fields_by_id(schema: pa.Schema) -> dict[int, tuple[str, ...]]:
    """Return the path of names to each column and each field of a struct that has a field id."""
    paths: dict[int, tuple[str, ...]] = {}

    def add(fields: Iterable[pa.Field], above: tuple[str, ...]) -> None:
        for field in fields:
            path = (*above, field.name)
            if (number := _number(field)) is not None:
                paths[number] = path
            if pa.types.is_struct(field.type):
                add(field.type.fields, path)

    add(schema, ())
    return paths


def _number(field: pa.Field) -> int | None:
    number = (field.metadata or {}).get(_ID)
    return None if number is None else int(number)


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a column without an extension type."""
    return column.cast(column.type.storage_type) if isinstance(column.type, pa.BaseExtensionType) else column


def _compared(kind: pa.DataType) -> pa.DataType:
    """Return the type in which values are compared: batches are small, and Arrow has no UUIDs to compare."""
    if isinstance(kind, pa.BaseExtensionType):
        return kind.storage_type
    return {pa.large_string(): pa.string(), pa.large_binary(): pa.binary()}.get(kind, kind)


@contextlib.contextmanager
def reading(path: str) -> Iterator[None]:
    """Convert the errors of reading a data file."""
    try:
        yield
    except OSError as error:
        raise SinkUnavailableError(
            f"The data file {path} cannot be read: {error}",
            step="commit",
            target=path,
            hint="Calve tries again; check that the file exists and that the table's storage is reachable",
        ) from error
    except pa.ArrowNotImplementedError as error:
        raise UnsearchableError(str(error)) from error
    except pa.ArrowInvalid as error:
        raise CommitError(
            f"The data file {path} is damaged: {error}",
            step="commit",
            target=path,
            hint="Restore the file, or remove it from the table; Calve then continues",
        ) from error


class KeyRange(NamedTuple):
    """Sorted keys of a column (list or NumPy array), and what makes a bound one of them; None: it cannot be."""

    keys: Any
    decode: Callable[[bytes], Any]

    def meets(self, lower: bytes, upper: bytes) -> bool:
        """Return whether a key may lie between bounds."""
        least, most = self.decode(lower), self.decode(upper)
        if least is None or most is None:
            return True
        at = bisect_left(self.keys, least)
        return at < len(self.keys) and bool(self.keys[at] <= most)


def key_range(column: pa.ChunkedArray, kind: pa.DataType) -> KeyRange | None:
    """Return the keys of a column for comparisons with bounds; None if its type has no bounds to rely on (UUIDs)."""
    if pa.types.is_integer(kind):
        return KeyRange(np.unique(column.to_numpy()), lambda bound: int.from_bytes(bound, "little", signed=True))
    if pa.types.is_date32(kind):
        return KeyRange(np.unique(column.cast(pa.int32()).to_numpy()), lambda bound: _exactly(4, bound))
    if pa.types.is_timestamp(kind) or pa.types.is_time64(kind):
        return KeyRange(np.unique(column.cast(pa.int64()).to_numpy()), lambda bound: _exactly(8, bound))
    if pa.types.is_decimal(kind):
        return KeyRange(sorted(set(column.to_pylist())), lambda bound: _decimal(bound, kind.scale))
    if kind in (pa.string(), pa.binary()):  # as bytes both have the order of the bounds
        return KeyRange(pc.unique(column.cast(pa.large_binary())).sort().to_pylist(), bytes)
    return None


def _decimal(bound: bytes, scale: int) -> Decimal:
    """Return the number of a bound, exactly: arithmetic would round to 28 digits."""
    unscaled = int.from_bytes(bound, "big", signed=True)
    return Decimal((int(unscaled < 0), tuple(map(int, str(abs(unscaled)))), -scale))


def _exactly(width: int, bound: bytes) -> int | None:
    """Return the integer of a bound, or None if it was written before its column got a wider type."""
    return int.from_bytes(bound, "little", signed=True) if len(bound) == width else None

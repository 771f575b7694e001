"""Divides typed rows by the partition spec of their table (Iceberg specification, "Partitioning")."""

from __future__ import annotations

import datetime
import hashlib
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa
from pyiceberg.typedef import Record
from pyiceberg.utils.datetime import datetime_to_micros, time_to_micros

from calve.table.kinds import primitive
from calve.table.loaded import Table
from calve.write.transform import Transformed

__all__ = ["UNPARTITIONED", "Partition", "Partitioner", "json_value"]

_EPOCH = datetime.date(1970, 1, 1)
_EPOCH_TIME = datetime.datetime(1970, 1, 1)
_LONGEST_PART = 128
"""The most bytes of a path's part: local file systems allow 255, object stores 1,024 for all parts."""
_HALF_ESCAPE = re.compile("%.?$")
_NANOS = (pa.timestamp("ns"), pa.timestamp("ns", "UTC"))


@dataclass(frozen=True)
class Partition:
    """One partition of a table.

    Attributes:
        values: Its values in the order of the spec, as the JSON of the REST specification's content files.
        path: Its part of a data file's location, empty for an unpartitioned table.
    """

    values: tuple[Any, ...]
    path: str

    def to_path(self) -> str:
        """Return the path; PyIceberg's location providers call this method."""
        return self.path


UNPARTITIONED = Partition((), "")


class Partitioner:
    """Divides Arrow tables of one Iceberg table; runs on executors."""

    def __init__(self, table: Table) -> None:
        self._schema = table.schema
        self._spec = table.spec
        self._partitions: dict[tuple[Any, ...], Partition] = {}
        self._columns = [Transformed(self._schema, field.source_id, field.transform) for field in self._spec.fields]

    def divide(self, rows: pa.Table) -> Iterator[tuple[Partition, pa.Table]]:
        """Yield each partition with its rows, in their order."""
        if not self._columns:
            yield UNPARTITIONED, rows
            return
        keys = pa.table({str(number): _key(column(rows)) for number, column in enumerate(self._columns)})
        names = keys.column_names
        groups = (
            keys.append_column("row", _positions(len(keys)))
            .group_by(names, use_threads=False)
            .aggregate([("row", "list")])
        )
        for group in groups.to_batches():
            for index in range(group.num_rows):
                key = tuple(group.column(name)[index].as_py() for name in names)
                positions = group.column("row_list")[index].values
                part = rows if len(positions) == len(rows) else rows.take(positions)
                yield self._partition(key), part

    def _partition(self, key: tuple[Any, ...]) -> Partition:
        partition = self._partitions.get(key)
        if partition is None:
            values = tuple(self._value(number, value) for number, value in enumerate(key))
            path = _short(self._spec.partition_to_path(Record(*map(_internal, values)), self._schema))
            partition = self._partitions[key] = Partition(tuple(json_value(value) for value in values), path)
        return partition

    def _value(self, number: int, value: Any) -> Any:
        """Convert a transformed value to the Python type of the transform's result."""
        result = primitive(self._columns[number].result)
        match result.json, value:
            case "timestamp", int():  # nanoseconds (`_key`)
                return _nanos_text(value) + ("+00:00" if result.is_zoned else "")
            case "date", int():
                return _EPOCH + datetime.timedelta(days=value)
            case "uuid", bytes():
                return UUID(bytes=value)
        return value


def _short(path: str) -> str:
    """Shorten the parts of a path for every file system; readers get the values from the metadata."""
    return "/".join(part if len(part) <= _LONGEST_PART else _cut(part) for part in path.split("/"))


def _cut(part: str) -> str:
    """Return the start of a part, without half an escape at its end, and a hash of the complete part."""
    begin = _HALF_ESCAPE.sub("", part[: _LONGEST_PART - 17])
    return f"{begin}-{hashlib.sha256(part.encode()).hexdigest()[:16]}"


def _key(column: pa.Array) -> pa.Array:
    """Convert a column to types that Python has: its datetimes have no nanoseconds."""
    return column.view(pa.int64()) if column.type in _NANOS else column


def _nanos_text(value: int) -> str:
    micros, nanos = divmod(value, 1000)
    return (_EPOCH_TIME + datetime.timedelta(microseconds=micros)).isoformat(timespec="microseconds") + f"{nanos:03d}"


def _internal(value: Any) -> Any:
    """Convert a value to Iceberg's form: days and microseconds since the epoch."""
    if isinstance(value, datetime.datetime):
        return datetime_to_micros(value)
    if isinstance(value, datetime.date):
        return (value - _EPOCH).days
    return time_to_micros(value) if isinstance(value, datetime.time) else value


def json_value(value: Any) -> Any:
    """Convert a single value to JSON (Iceberg specification, "JSON single-value serialization").

    JSON has no infinity and no NaN: these become `["Infinity"]`, which `catalog.attempt` reads.
    """
    if isinstance(value, float) and not math.isfinite(value):
        return ({math.inf: "Infinity", -math.inf: "-Infinity"}.get(value, "NaN"),)
    if isinstance(value, datetime.datetime):
        text = value.replace(tzinfo=None).isoformat(timespec="microseconds")
        return text + "+00:00" if value.tzinfo else text
    if isinstance(value, (datetime.date, datetime.time)):
        return value.isoformat()
    if isinstance(value, (Decimal, UUID)):
        return str(value)
    if isinstance(value, (bytes, bytearray)):
        return bytes(value).hex().upper()
    return value


def _positions(count: int) -> pa.Array:
    return pa.array(np.arange(count, dtype=np.int64))

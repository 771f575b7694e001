"""DataFrames in the state, so that a batch can be written again with the same rows, whatever Spark computes then.

    spark/<frame>/part-….arrow
    spark/<frame>/parts.json     appears last; without it there is no frame

Executors write the parts: Arrow's file format, in the order of the DataFrame by partition.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

import pyarrow as pa
from pyiceberg.io import load_file_io
from pyspark.sql import types as spark_types

from calve.engine.java.errors import JAVA_ERRORS, innermost_message
from calve.engine.pyspark_private import arrow_batches
from calve.errors import CalveError, SettingsError, SourceError, WriteError
from calve.sources.file.rows import repetition
from calve.sources.source import Split
from calve.state import durable, values
from calve.state.folder import StateFolder

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["Frames", "check_columns", "file_name"]

_PARTS = "parts.json"
_PART_BYTES = 32 << 20
_LONGEST_NAME = 120
_TYPES = (
    spark_types.BooleanType,
    spark_types.IntegralType,
    spark_types.FractionalType,
    spark_types.StringType,
    spark_types.CharType,
    spark_types.VarcharType,
    spark_types.BinaryType,
    spark_types.DateType,
    spark_types.TimestampType,
    spark_types.TimestampNTZType,
    spark_types.NullType,
)
"""The types whose values Spark gives Python unchanged, beside structs, arrays and maps of them."""
_REACHABLE = (
    "Keep it where the driver and all executors reach it: state=, or folder of calve_changes: 's3://bucket/prefix'"
)


class Frames:
    """The DataFrames of one pipeline that are not committed; runs on the driver.

    Args:
        folder: `<state>/<pipeline>/spark`, local or on an object store.
        storage: The properties of a FileIO, if the folder is on an object store.
    """

    def __init__(self, folder: StateFolder, storage: Mapping[str, str]) -> None:
        self._folder = folder.absolute()
        self._storage = storage

    def write(self, name: str, frame: DataFrame, is_for_events: bool = True) -> list[Split]:
        """Compute a DataFrame and keep its rows; one that is kept already is not computed again. Durable on return.

        Args:
            name: Of the frame.
            frame: The DataFrame.
            is_for_events: The rows become events; otherwise Spark gets them back, of whatever type.

        Raises:
            SourceError: Spark cannot compute it.
            WriteError: The disk or the store refuses.
        """
        if (kept := self.kept(name)) is not None:
            return kept
        if is_for_events:
            check_columns(frame.schema)
        (self._folder / name).make()
        parts = sorted(self._computed(name, frame))
        (self._folder / name).put(_PARTS, values.encoded(parts))
        return _splits(name, parts)

    def kept(self, name: str) -> list[Split] | None:
        """Return the parts of a DataFrame that is kept, whole; None: it is not."""
        parts = values.read(self._folder / name, _PARTS)
        return None if parts is None else _splits(name, parts)

    def keep_only(self, frames: Collection[str]) -> None:
        """Remove all other frames."""
        self.remove(set(self._folder.folders()) - set(frames))

    def remove(self, frames: Collection[str]) -> None:
        """Remove frames; may be repeated."""
        for name in frames:
            (self._folder / name).remove([_PARTS])
            (self._folder / name).clear()

    def has(self, name: str) -> bool:
        """Return whether a DataFrame is kept, whole."""
        return (self._folder / name).get(_PARTS) is not None

    def _computed(self, name: str, frame: DataFrame) -> list[tuple[str, int]]:
        writer = _PartWriter((self._folder / name).location, self._storage)
        try:
            batches, schema = arrow_batches(frame)
            parts = batches.mapPartitionsWithIndex(partial(writer.write, schema)).collect()
        except JAVA_ERRORS as error:
            reason = innermost_message(error)
            hint = "Try it without Calve: df.count(); executors need Calve, with the same version, in their Python"
            raise SourceError(f"Spark cannot compute the DataFrame: {reason}", step="read", hint=hint) from error
        for failed in (part for part in parts if isinstance(part, CalveError)):
            raise failed
        if "://" not in writer.folder and any(not Path(writer.folder, part).exists() for part, _ in parts):
            message = f"An executor wrote to {writer.folder} on another machine"
            raise SettingsError(message, step="read", hint=_REACHABLE)
        return list(parts)


def _splits(name: str, parts: Iterable[tuple[str, int]]) -> list[Split]:
    return [Split({"frame": name, "part": part}, size_bytes) for part, size_bytes in parts]


def file_name(identity: Sequence[object]) -> str:
    """Return the identity of a batch as the name of a file; the prefix keeps it from being hidden."""
    name = quote("-".join(map(str, identity)), safe="")
    return f"b-{name if len(name) <= _LONGEST_NAME else hashlib.sha256(name.encode()).hexdigest()}"


def check_columns(schema: spark_types.StructType) -> None:
    """Check that the rows of a DataFrame can become events.

    Raises:
        SourceError: Two columns have the same name, or the values of one do not reach Python unchanged.
    """
    if not schema.fields:
        raise SourceError("The DataFrame has no columns", step="read", hint="Select at least one")
    if repeated := repetition(schema.names):
        raise SourceError(f"The DataFrame {repeated}", step="read", hint="Give them unique names")
    for column in schema.fields:
        if (kind := _untravelled(column.dataType)) is not None:
            hint = f"Cast it, e.g. to a string: frame.withColumn({column.name!r}, …)"
            message = f"The column {column.name} of the DataFrame has the type {kind.simpleString()}"
            raise SourceError(f"{message}, which Calve cannot take from Spark", step="read", hint=hint)


def _untravelled(kind: spark_types.DataType) -> spark_types.DataType | None:
    """Return a type within a type that Spark does not give Python unchanged; None: there is none."""
    match kind:
        case spark_types.StructType():
            parts = [field.dataType for field in kind.fields]
            if not parts or len({*kind.names}) < len(parts):
                return kind
        case spark_types.ArrayType():
            parts = [kind.elementType]
        case spark_types.MapType(keyType=spark_types.NullType()):
            return kind
        case spark_types.MapType():
            parts = [kind.keyType, kind.valueType]
        case _:
            return None if isinstance(kind, _TYPES) else kind
    return next((refused for part in parts if (refused := _untravelled(part)) is not None), None)


@dataclass(frozen=True)
class _PartWriter:
    """Writes the rows of partitions as parts; runs on executors."""

    folder: str
    storage: Mapping[str, str] = field(repr=False)

    def write(
        self, schema: pa.Schema, partition: int, messages: Iterable[bytes]
    ) -> Iterator[tuple[str, int] | CalveError]:
        """Write the record batches of a partition; yield the name and the size of each part, or why it is not there."""
        unique = uuid.uuid4().hex[:8]
        try:
            for number, batches in enumerate(_parts(schema, messages)):
                yield self._put(f"part-{partition:06}-{number:06}-{unique}.arrow", batches)
        except CalveError as error:
            yield error
        except OSError as error:
            reason = f"The rows cannot be kept in {self.folder}: {error}"
            yield WriteError(reason, step="read", hint=_REACHABLE)

    def _put(self, name: str, batches: list[pa.RecordBatch]) -> tuple[str, int]:
        out = pa.BufferOutputStream()
        with pa.ipc.new_file(out, batches[0].schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as file:
            for batch in batches:
                file.write_batch(batch)
        content = out.getvalue().to_pybytes()
        if "://" not in self.folder:
            durable.replace(Path(self.folder, name), content)
        else:
            location = f"{self.folder}/{name}"
            with load_file_io(dict(self.storage), location).new_output(location).create(overwrite=True) as stream:
                stream.write(content)
        return name, sum(batch.nbytes for batch in batches)


def _parts(schema: pa.Schema, messages: Iterable[bytes]) -> Iterator[list[pa.RecordBatch]]:
    """Yield the record batches of messages, several together as a part of about `_PART_BYTES`; none is empty."""
    waiting: list[pa.RecordBatch] = []
    for message in messages:
        waiting.append(pa.ipc.read_record_batch(message, schema))
        if sum(batch.nbytes for batch in waiting) >= _PART_BYTES:
            yield waiting
            waiting = []
    if any(map(len, waiting)):
        yield waiting

"""Reads sample events from a file or stdin, as the file source would: with its codec, or as NDJSON."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from calve.errors import SettingsError, SourceError
from calve.event.columns import EVENT, MALFORMED
from calve.event.typed import with_text
from calve.sources.file.codec import FilePart, codec_of, read_part
from calve.sources.file.codec_settings import AvroCodec, CodecSettings, NdjsonCodec, OrcCodec, ParquetCodec
from calve.sources.file.rows import SCHEMA
from calve.sources.file.settings import FileSettings, FormatSettings
from calve.sources.settings import SourceSettings

__all__ = ["SAMPLE_BYTES", "is_text", "read_bytes", "sample_lines", "sample_values", "shown_name", "with_keys"]

KEY = "kafka_key"
"""The metadata attribute with the key of a record."""
SAMPLE_BYTES = 64 << 20
"""A sample is looked at in one piece: more is refused."""
_NDJSON = CodecSettings(ndjson=NdjsonCodec())
_BY_CONTENT = {
    b"PAR1": CodecSettings(parquet=ParquetCodec()),
    b"Obj\x01": CodecSettings(avro=AvroCodec()),
    b"ORC": CodecSettings(orc=OrcCodec()),
}
_PACKED = (b"\x1f\x8b", b"\x28\xb5\x2f\xfd")
"""How gzip and zstd begin."""
_HEAD_BYTES = 1000


def shown_name(name: str) -> str:
    """Return what messages call a sample."""
    return "stdin" if name == "-" else name


def sample_lines(data: bytes, title: str, source: SourceSettings | None = None) -> pa.Table:
    """Return the events of a sample, plain or compressed; `title` is its name in errors.

    A source of files reads it as one of them; otherwise its first bytes tell what it is.

    Raises:
        SourceError: It is too large for a sample, or damaged.
    """
    if len(data) > SAMPLE_BYTES:
        raise _error(f"{title} has more than {SAMPLE_BYTES >> 20} MiB", title, "Use a part of it, e.g. with `head`")
    settings = source.format if isinstance(source, FormatSettings) else None
    codec = codec_of(title, settings) if settings else None
    codec = codec or _by_content(data, title)
    settings = replace(settings or FileSettings(path=""), codec=codec)
    batches = list(read_part(pa.BufferReader(data), FilePart(title, 0, len(data), len(data), 0), settings))
    events = pa.Table.from_batches(batches, None if batches else SCHEMA)
    events = with_text(events)
    if MALFORMED not in events.column_names:  # rows of Parquet
        events = events.append_column(MALFORMED, pa.nulls(len(events), pa.string()))
    if not codec.has_lines:
        events = events.drop_columns(["file_row"]).append_column(SCHEMA.field("file_row"), _unknown(len(events)))
    return events.select([name for name in SCHEMA.names if name in events.column_names])


def sample_values(values: Sequence[bytes | None]) -> pa.Table:
    """Return the table of binary values."""
    columns = {EVENT: pa.array(values, pa.binary()), MALFORMED: pa.nulls(len(values), pa.string())}
    return pa.table({**columns, "file_row": _unknown(len(values))})


def with_keys(events: pa.Table, delimiter: str) -> pa.Table:
    """Return lines that begin with the keys of their records, as `kafka_key` and the rest; without a value: null.

    Args:
        events: The lines.
        delimiter: What ends a key; a line without it has no key.

    Raises:
        SettingsError: The events are not lines, or there is no delimiter.
    """
    lines = events[EVENT].to_pylist()
    if not delimiter or events["file_row"].null_count or None in lines:
        raise SettingsError(
            "The events are no lines of text, or no text divides keys from values",
            step="settings",
            target="--key-delimiter",
        )
    parts = [line.partition(delimiter.encode()) for line in lines]
    keys = [key.decode(errors="replace") if separator else None for key, separator, _ in parts]
    values = [value if separator else key for key, separator, value in parts]
    values = [None if value.strip() in (b"", b"null") else value for value in values]
    at = events.column_names.index(EVENT)
    return events.set_column(at, EVENT, pa.array(values, pa.binary())).append_column(KEY, pa.array(keys, pa.string()))


def is_text(data: bytes) -> bool:
    """Return whether a sample is not of a binary format that is known by its first bytes."""
    return not data.startswith(tuple(_BY_CONTENT))


def _unknown(count: int) -> pa.Array:
    """Return the lines of events that are not lines."""
    return pa.nulls(count, pa.int64())


def _by_content(data: bytes, title: str) -> CodecSettings:
    """Return the codec of a sample whose source has none; text is NDJSON."""
    for start, codec in _BY_CONTENT.items():
        if data.startswith(start):
            return codec
    if b"\0" in data[:_HEAD_BYTES] and not data.startswith(_PACKED):
        hint = "Use NDJSON, or a Parquet, Avro or ORC file; values of a topic need its `serde_format` and `schema`"
        raise _error(f"The sample events {title} are binary, of a format that the pipeline does not name", title, hint)
    return _NDJSON


def read_bytes(name: str) -> bytes:
    """Return the content of a file, or of stdin for `-`, up to a little more than a sample may have.

    Raises:
        SourceError: The file does not exist, or cannot be read.
    """
    title = shown_name(name)
    try:
        if name == "-":
            return sys.stdin.buffer.read(SAMPLE_BYTES + 1)
        with Path(name).open("rb") as file:
            return file.read(SAMPLE_BYTES + 1)
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise _error(f"The sample events {title} cannot be read: {why}", title, "Use an NDJSON file") from error


def _error(message: str, target: str, hint: str) -> SourceError:
    return SourceError(message, step="read", target=target, hint=hint)

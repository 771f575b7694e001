"""Finds the codec of a file, and reads its parts with it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePath
from types import MappingProxyType

import pyarrow as pa
import pyarrow.compute as pc

from calve.event.columns import EVENT, MALFORMED
from calve.event.json_text import to_json
from calve.sources.file.avro import read_avro
from calve.sources.file.codec_settings import (
    AvroCodec,
    CodecSettings,
    CsvCodec,
    JsonCodec,
    NdjsonCodec,
    NewlineCodec,
    OrcCodec,
    ParquetCodec,
)
from calve.sources.file.delimited import read_csv
from calve.sources.file.lines import read_lines
from calve.sources.file.multiline import AHEAD_BYTES, EventJoiner, read_events
from calve.sources.file.orc import read_orc
from calve.sources.file.parquet import read_parquet
from calve.sources.file.paths import readable
from calve.sources.file.rows import FileBatches
from calve.sources.file.settings import FileSettings
from calve.sources.file.stream import BlockStream, FileLines, Plain, Unpacked, compression_of, strip_suffix
from calve.sources.file.values import read_values

__all__ = ["FilePart", "codec_of", "divisible", "ranges", "read_part", "why_unread"]

_BY_SUFFIX = {
    ".ndjson": CodecSettings(ndjson=NdjsonCodec()),
    ".jsonl": CodecSettings(ndjson=NdjsonCodec()),
    ".json": CodecSettings(json=JsonCodec()),
    ".csv": CodecSettings(csv=CsvCodec()),
    ".tsv": CodecSettings(csv=CsvCodec(delimiter="\t")),
    ".parquet": CodecSettings(parquet=ParquetCodec()),
    ".avro": CodecSettings(avro=AvroCodec()),
    ".orc": CodecSettings(orc=OrcCodec()),
    ".txt": CodecSettings(newline=NewlineCodec()),
    ".log": CodecSettings(newline=NewlineCodec()),
}
_UNREAD = {
    ".bz2": "bzip2",
    ".xz": "xz",
    ".lzma": "lzma",
    ".lz4": "LZ4",
    ".br": "Brotli",
    ".snappy": "Snappy",
    ".z": "compress",
    ".zip": "zip",
    ".7z": "7-Zip",
    ".tar": "tar",
    ".tgz": "tar",
}
"""Extensions of what no codec helps to read."""


@dataclass(frozen=True)
class FilePart:
    """A part of a file, and the body of a split.

    Attributes:
        path: The file.
        start: Its first byte.
        end: Its end, exclusive.
        size: The length of the file when it was listed; later bytes are not read.
        modified: When the file was written, by the listing.
    """

    path: str
    start: int
    end: int
    size: int
    modified: int

    @property
    def whole(self) -> bool:
        """Whether this is all of the file."""
        return self.start == 0 and self.end == self.size


def codec_of(path: str, settings: FileSettings) -> CodecSettings | None:
    """Return the codec of a file, from the settings or the file name extension; None if unknown."""
    name = strip_suffix(path).lower()
    if settings.format_:
        return _BY_SUFFIX[".txt" if settings.format_ == "plain" else ".ndjson" if settings.tail else ".json"]
    return settings.codec or next((codec for suffix, codec in _BY_SUFFIX.items() if name.endswith(suffix)), None)


def why_unread(path: str, settings: FileSettings) -> str:
    """Return why a file cannot be read by its name, and what helps; empty: it can be."""
    codec, packing = codec_of(path, settings), _UNREAD.get(PurePath(path).suffix.lower())
    has_own = codec is not None and (codec.parquet or codec.avro or codec.orc)
    if packing and settings.compression == "automatic" and not has_own:
        return f"it is packed with {packing}, which is not read; use gzip or zstd"
    return "" if codec else "its name has no known extension; set `codec`"


def divisible(codec: CodecSettings, compression: str) -> bool:
    """Return whether several tasks may read a file: lines, events or row groups can be found from any position."""
    has_beginning = codec.newline is not None and codec.newline.has_beginning
    return codec.parquet is not None or (compression == "none" and codec.has_lines and not has_beginning)


def ranges(size_bytes: int, part_bytes: int) -> list[tuple[int, int]]:
    """Divide a file that is divisible; the parts are the same in every plan."""
    ends = [*range(part_bytes, size_bytes, part_bytes), size_bytes]
    return list(zip([0, *ends[:-1]], ends, strict=True))


def read_part(file: pa.NativeFile, part: FilePart, settings: FileSettings) -> Iterator[pa.RecordBatch]:
    """Yield the events of a part of an open file, then at most one row with the reason of an early end."""
    rows, codec = FileBatches(readable(part.path)), codec_of(part.path, settings)
    if codec is None:
        yield from rows.broken("has a name without a known extension; set `codec`")
    elif codec.parquet:
        yield from read_parquet(file, rows, part.start, part.end)
    elif codec.orc:
        yield from read_orc(file, rows)
    elif codec.avro:
        yield from read_avro(_stream(file, part, settings), rows)
    elif codec.json:
        yield from read_values(_stream(file, part, settings), rows, codec.json.key_name, codec.json.include_keys)
    elif codec.csv:
        yield from read_csv(_stream(file, part, settings), rows, codec.csv)
    elif codec.multiline:
        stream = _stream(file, part, settings)
        events = EventJoiner(rows, codec.multiline.begins_with, is_first=part.start == 0)
        yield from _messages(read_events(stream, _following(file, part, stream), events), "event")
    else:
        is_text = codec.newline is not None
        batches = read_lines(_stream(file, part, settings), rows, numbered=part.start == 0, is_text=is_text)
        if codec.newline:
            yield from _lines(batches, codec.newline) if codec.newline.has_beginning else _messages(batches, "line")
        else:
            yield from batches


def _stream(file: pa.NativeFile, part: FilePart, settings: FileSettings) -> BlockStream:
    compression = compression_of(part.path, settings.compression, lambda: file.read_at(4, 0))
    if compression != "none":
        return Unpacked(file, compression)
    return Plain(file, part.size) if part.whole else FileLines(file, part.start, part.end, part.size)


def _following(file: pa.NativeFile, part: FilePart, stream: BlockStream) -> BlockStream | None:
    """Return the lines after a part, in which its last event may continue."""
    return FileLines(file, part.end, part.size, part.size, AHEAD_BYTES) if isinstance(stream, FileLines) else None


def _lines(batches: Iterator[pa.RecordBatch], codec: NewlineCodec) -> Iterator[pa.RecordBatch]:
    """Convert the lines of a whole file to objects, without those that are skipped, and with its header."""
    header: dict[str, str] | None = None if codec.header_destination else {}
    for batch in batches:
        number = batch["file_row"]
        rest = batch.filter(pc.or_kleene(pc.greater(number, codec.skip_lines), number.is_null()))
        if header is None and len(rest) and rest[MALFORMED][0].as_py() is None:
            header, rest = {codec.header_destination or "": rest[EVENT][0].as_py().decode(errors="replace")}, rest[1:]
        yield from _messages(iter([rest]), "line", header or {})


def _messages(
    batches: Iterator[pa.RecordBatch], unit: str, others: Mapping[str, str] = MappingProxyType({})
) -> Iterator[pa.RecordBatch]:
    """Convert each text to an object with `message` and other fields; a text that is not UTF-8 is rejected."""
    for batch in batches:
        texts, reasons, *places = batch.columns
        try:
            decoded = texts.cast(pa.string())
        except pa.ArrowInvalid:
            decoded = pa.array([_decoded(text) for text in texts.to_pylist()], pa.string())
            no_text = pa.scalar(f"The {unit} is not UTF-8", pa.string())
            reasons = pc.coalesce(reasons, pc.if_else(decoded.is_valid(), None, no_text))
        fields = {name: pa.repeat(pa.scalar(text, pa.string()), len(decoded)) for name, text in others.items()}
        objects = to_json(pa.table({"message": decoded} | fields)).combine_chunks()
        events = pc.if_else(reasons.is_null(), objects, texts)
        yield pa.record_batch([events, reasons, *places], schema=batch.schema)


def _decoded(text: bytes | None) -> str | None:
    try:
        return text.decode() if text is not None else None
    except UnicodeDecodeError:
        return None

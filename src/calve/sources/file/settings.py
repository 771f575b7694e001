"""The options of the file source."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from datetime import timedelta
from pathlib import Path, PurePath
from typing import ClassVar, Literal

import pyarrow as pa

from calve.event.envelope.placeholder import check_unavailable_value
from calve.event.envelope.shape import SHAPES
from calve.expression.regex import require_pattern
from calve.settings import option
from calve.sources.settings import SourceSettings, StateForm

__all__ = [
    "METADATA",
    "SETTINGS",
    "AvroCodec",
    "CodecSettings",
    "CsvCodec",
    "DebeziumCodec",
    "EnvelopeCodec",
    "FileSettings",
    "FormatSettings",
    "JsonCodec",
    "MultilineCodec",
    "NdjsonCodec",
    "NewlineCodec",
    "OrcCodec",
    "ParquetCodec",
    "S3Settings",
    "line_beginning",
]

METADATA = {"file_path": pa.string(), "file_row": pa.int64()}
_NO_FORMAT: Literal["json", "plain"] | None = None
_WITHOUT_LINES = ("json", "csv", "parquet", "avro", "orc")
_NOT_LINES = (".json", ".csv", ".tsv", ".parquet", ".avro", ".orc")


@dataclass(frozen=True)
class NdjsonCodec:
    """One JSON object per line."""


@dataclass(frozen=True)
class JsonCodec:
    """A JSON array of objects, or JSON objects one after another."""

    key_name: str | None = option(None, "The key under which each top-level object has the array of its events.")
    include_keys: list[str] = option(
        [], "With `key_name`: fields of the top-level object, before the array, that each of its events gets."
    )
    max_event_length: int | None = option(
        None, "Accepted for compatibility with Data Prepper; no effect: an event may have 64 MiB.", minimum=1
    )

    def check(self) -> Iterator[tuple[str, str]]:
        """Require the key of the array for fields beside it."""
        if self.include_keys and self.key_name is None:
            yield "include_keys", "needs key_name: the fields stand beside the array of the events"
        if self.key_name in self.include_keys:
            yield "include_keys", "must not have the key of the array itself"


@dataclass(frozen=True)
class CsvCodec:
    """Rows of text; each row becomes a JSON object, an empty cell becomes null."""

    delimiter: str = option(",", "The character between two cells.", minimum=1, maximum=1)
    quote_character: str = option('"', "The character around a cell that contains a delimiter.", minimum=1, maximum=1)
    header: list[str] | None = option(
        None, "The names of the columns; a first row that only repeats them is skipped.", minimum=1
    )
    detect_header: bool = option(
        True,
        "Whether the first row has the names of the columns, if `header` is not set; otherwise they are "
        "column1, column2, …",
    )

    infer_types: bool = option(
        False,
        "Whether cells with JSON numbers (not `007` or `+1`) become numbers, and `true` and `false` booleans; "
        "otherwise all cells are text.",
    )
    encoding: str = option("utf-8", "Python's name of the text encoding: utf-8, latin-1, windows-1252, utf-16, …")

    def check(self) -> Iterator[tuple[str, str]]:
        """Refuse unusable characters, duplicate names, and unknown encodings."""
        repeated = [name for at, name in enumerate(self.header or ()) if name in (self.header or ())[:at]]
        if repeated:
            yield "header", f"the name {repeated[0]!r} appears twice"
        if not _is_encoding(self.encoding):
            yield "encoding", f"{self.encoding} is not a text encoding; use utf-8, latin-1, windows-1252, utf-16, …"
        if self.delimiter == self.quote_character:
            yield "quote_character", "the quote character and the delimiter are the same"
        for key in ("delimiter", "quote_character"):
            if getattr(self, key) in "\r\n" or not getattr(self, key).isascii():
                yield key, "use one ASCII character that does not end a line"


def _is_encoding(name: str) -> bool:
    try:
        return b"a".decode(name, "replace") is not None
    except (LookupError, UnicodeError):
        return False


@dataclass(frozen=True)
class ParquetCodec:
    """A Parquet file; each row becomes an event."""


@dataclass(frozen=True)
class AvroCodec:
    """An Avro file; each row becomes an event."""


@dataclass(frozen=True)
class OrcCodec:
    """An ORC file; each row becomes an event."""


@dataclass(frozen=True)
class NewlineCodec:
    """Plain text; each line becomes an object with one field, `message`."""

    skip_lines: int = option(0, "How many lines at the beginning of a file are left out.", minimum=0)
    header_destination: str | None = option(
        None, "The field of each event for the first line that is not left out, which is no event itself.", minimum=1
    )

    @property
    def has_beginning(self) -> bool:
        """Whether the first lines of a file are no events; then one task reads all of it."""
        return bool(self.skip_lines) or self.header_destination is not None


def _check_beginning(text: str) -> None:
    require_pattern(text)
    require_pattern(line_beginning(text))  # `\\Q` without an end is valid only alone


def line_beginning(pattern: str) -> str:
    """Return a regular expression that matches a line if the pattern matches its beginning."""
    return f"^(?:{pattern})"


@dataclass(frozen=True)
class MultilineCodec:
    """Plain text; several lines, such as a stack trace, become one object with one field, `message`."""

    begins_with: str = option(
        doc="A regular expression (RE2), e.g. `\\d{4}-\\d{2}-\\d{2}`. A line that begins with a match begins an event; "
        "each other line belongs to the event before it. Lines before the first match are an event of their own.",
        minimum=1,
        check=_check_beginning,
    )


@dataclass(frozen=True)
class EnvelopeCodec:
    """One change per line, in the JSON envelope of the tool that captured it."""


@dataclass(frozen=True)
class DebeziumCodec(EnvelopeCodec):
    """One change per line, in Debezium's JSON envelope."""

    unavailable_value: str | None = option(
        None,
        "Debezium's placeholder for a large value that did not change, if the connector sets "
        "`unavailable.value.placeholder`. Default: `__debezium_unavailable_value`.",
        minimum=1,
        check=check_unavailable_value,
    )


@dataclass(frozen=True)
class CodecSettings:
    """The format of the files: one of these keys, e.g. `codec: {csv: {}}`."""

    ndjson: NdjsonCodec | None = option(None, "One JSON object per line (.ndjson, .jsonl).")
    json: JsonCodec | None = option(None, "A JSON array of objects, or objects one after another (.json).")
    csv: CsvCodec | None = option(None, "Rows of text, with a header (.csv; .tsv with tabs).")
    parquet: ParquetCodec | None = option(None, "Parquet (.parquet).")
    avro: AvroCodec | None = option(None, "Avro, with its schema in the file (.avro).")
    orc: OrcCodec | None = option(None, "ORC (.orc).")
    newline: NewlineCodec | None = option(
        None, "Plain text; each line is an event with the field `message` (.txt, .log)."
    )
    multiline: MultilineCodec | None = option(
        None, "Plain text; several lines, such as a stack trace, are an event with the field `message`."
    )
    debezium: DebeziumCodec | None = option(None, "Changes from Debezium, one JSON envelope per line.")
    maxwell: EnvelopeCodec | None = option(None, "Changes from Maxwell, one JSON object per line.")
    dms: EnvelopeCodec | None = option(None, "Changes from AWS DMS in its streaming format, one JSON object per line.")

    @property
    def name(self) -> str:
        """The key that is set."""
        return next(field.name for field in fields(self) if getattr(self, field.name) is not None)

    @property
    def envelope(self) -> str | None:
        """The format of the change stream in the files, a name in `SHAPES`; None: they have none."""
        return self.name if self.name in SHAPES else None

    @property
    def has_lines(self) -> bool:
        """Whether the events of a file are lines, or begin with one."""
        return self.name not in _WITHOUT_LINES

    def check(self) -> Iterator[tuple[str, str]]:
        """Refuse all but exactly one codec."""
        if sum(getattr(self, field.name) is not None for field in fields(self)) != 1:
            yield "", f"name exactly one codec: {', '.join(field.name for field in fields(self))}"


@dataclass(frozen=True)
class S3Settings:
    """Address and credentials of an S3 object store; missing values come from the environment, as in AWS tools."""

    endpoint: str | None = option(None, "Address of the store, e.g. http://localhost:9000. Default: AWS.")
    region: str | None = option(None, "Region of the bucket.")
    access_key_id: str | None = option(None, "Access key.", secret=True)
    secret_access_key: str | None = option(None, "Secret key.", secret=True)

    def check(self) -> Iterator[tuple[str, str]]:
        """Refuse half a pair of keys."""
        if (self.access_key_id is None) != (self.secret_access_key is None):
            yield "", "set both access_key_id and secret_access_key, or none"


class FormatSettings(SourceSettings):
    """Settings of a source that reads files of a format, each once.

    Attributes:
        codec: The format; None: by the extension.
        compression: As in `FileSettings`.
    """

    codec: CodecSettings | None
    compression: Literal["automatic", "none", "gzip", "zstd"]

    @property
    def format(self) -> FileSettings:
        """The settings with which the readers of files read one, or a sample."""
        return FileSettings(path="", codec=self.codec, compression=self.compression)

    @property
    def envelope(self) -> str | None:
        """The format of the change stream in the files; None: they have none."""
        return self.codec.envelope if self.codec else None

    @property
    def unavailable_value(self) -> str | None:
        """Debezium's placeholder, if the codec sets it."""
        return self.codec.debezium.unavailable_value if self.codec and self.codec.debezium else None


@dataclass(frozen=True)
class FileSettings(FormatSettings):
    """Reads files, each exactly once, from local paths or S3; with `tail` it follows local files that grow."""

    remembers: ClassVar[Mapping[str, StateForm]] = {"": StateForm.LIST, "tail": StateForm.FILES}

    path: str | list[str] = option(
        doc="A path, a glob (`*`, `?`, `[…]`, `**` for folders at any depth), a folder, or a list of these; local or "
        "s3://bucket/key.",
        minimum=1,
    )
    codec: CodecSettings | None = option(None, "The format of the files. Default: by the file name extension.")
    format_: Literal["json", "plain"] | None = option(
        _NO_FORMAT, "Instead of `codec`: `json` (objects, one in each line or in an array), or `plain` (lines of text)."
    )
    record_type: Literal["event", "string"] = option(
        "event", "Accepted for compatibility with Data Prepper; no effect: each record is an event."
    )
    compression: Literal["automatic", "none", "gzip", "zstd"] = option(
        "automatic", "`automatic`: by the extension .gz or .zst, otherwise by the first bytes."
    )
    poll_interval: timedelta = option(
        timedelta(seconds=2), "How often to look for new files.", minimum=timedelta(milliseconds=10)
    )
    settle: timedelta = option(
        timedelta(seconds=2),
        "A local file is read when it has not changed for this time; with --once it is read immediately.",
        minimum=timedelta(0),
    )
    s3: S3Settings | None = option(None, "The object store for s3:// paths.")
    follow_links: bool = option(
        False,
        "Whether a glob or a folder also reads files outside of the folder where it searches, to which symbolic links "
        "in it lead. A path without a glob is read wherever it leads.",
    )
    tail: bool = option(
        False,
        "Whether to follow files: lines are read as they are appended, each once, also when a file is renamed, cut or "
        "removed. For codecs that read lines; `settle` has no effect.",
    )
    start_position: Literal["beginning", "end"] = option(
        "beginning",
        "With `tail`: where files that exist at the first start are read from; later files are read from the "
        "beginning.",
    )
    rotate_wait: timedelta = option(
        timedelta(seconds=5),
        "With `tail`: a renamed or removed file has ended when it has not grown for this time; then its last line "
        "counts even without a line end.",
        minimum=timedelta(0),
    )
    flush_after: timedelta = option(
        timedelta(seconds=5),
        "With `tail` and the codec `multiline`: the last event of a file has ended when the file has not grown for "
        "this time.",
        minimum=timedelta(0),
    )

    @property
    def metadata(self) -> Mapping[str, pa.DataType]:
        """The metadata attributes of an event, and their types."""
        return METADATA

    @property
    def mode(self) -> str:
        """How files are read: positions in files that grow are no counts of files."""
        return "with tail" if self.tail else ""

    @property
    def format(self) -> FileSettings:
        """These settings."""
        return self

    @property
    def datasets(self) -> list[tuple[str, str]]:
        """The paths, with their globs."""
        return [_dataset(pattern) for pattern in self.patterns]

    @property
    def patterns(self) -> list[str]:
        """The paths as a list."""
        return [self.path] if isinstance(self.path, str) else list(self.path)

    def check(self) -> Iterator[tuple[str, str]]:
        """Refuse empty paths and storages that cannot be read."""
        for pattern in self.patterns:
            scheme, separator, _ = pattern.partition("://")
            if not pattern.strip():
                yield "path", "a path is empty"
            elif separator and scheme not in ("s3", "s3a", "file"):
                yield "path", f"{scheme}:// cannot be read; use a local path or s3://bucket/key"
            elif self.tail and scheme in ("s3", "s3a"):
                yield "path", "`tail` follows local files; objects never grow, so read them without `tail`"
            elif self.tail and not self.codec and not self.format_ and PurePath(pattern).suffix in _NOT_LINES:
                yield (
                    "path",
                    f"`tail` reads lines; if {PurePath(pattern).name} has lines of JSON, set codec: {{ndjson: {{}}}}",
                )
        if self.codec and self.format_:
            yield "format", "cannot be combined with codec"
        if self.tail and self.codec and self.codec.newline and self.codec.newline.has_beginning:
            yield "codec.newline", "`tail` reads each line; skip_lines and header_destination are for whole files"
        if self.tail and self.codec and not self.codec.has_lines:
            yield "codec", f"`tail` reads lines, and {self.codec.name} has none; use newline, ndjson or multiline"
        if self.tail and self.compression in ("gzip", "zstd"):
            yield "compression", f"`tail` cannot follow {self.compression} files; read them without `tail`"


def _dataset(pattern: str) -> tuple[str, str]:
    scheme, mark, rest = pattern.partition("://")
    bucket, _, key = rest.partition("/")
    return (f"{scheme}://{bucket}", key) if mark else ("file", str(Path(pattern).absolute()))


SETTINGS = FileSettings

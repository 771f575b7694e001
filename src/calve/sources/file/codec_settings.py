"""The options of the formats of files: one codec each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import ClassVar

from calve.event.envelope.placeholder import check_unavailable_value
from calve.event.envelope.shape import SHAPES
from calve.expression.regex import require_pattern
from calve.settings import option

__all__ = [
    "AvroCodec",
    "CodecSettings",
    "CsvCodec",
    "DebeziumCodec",
    "EnvelopeCodec",
    "JsonCodec",
    "MultilineCodec",
    "NdjsonCodec",
    "NewlineCodec",
    "OrcCodec",
    "ParquetCodec",
    "line_beginning",
]

_WITHOUT_LINES = ("json", "csv", "parquet", "avro", "orc")


@dataclass(frozen=True)
class NdjsonCodec:
    """One JSON object per line."""

    IGNORED_KEYS: ClassVar[Mapping[str, str]] = {
        "include_empty_objects": "an empty object is an event",
        "extension": "codec decides for every file",
    }


@dataclass(frozen=True)
class JsonCodec:
    """A JSON array of objects, or JSON objects one after another."""

    REFUSED_KEYS: ClassVar[Mapping[str, str]] = {
        "include_keys_metadata": (
            "is not supported: name the fields in include_keys, then add_entries makes metadata of them (metadata_key)"
        ),
    }

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

    IGNORED_KEYS: ClassVar[Mapping[str, str]] = {
        **dict.fromkeys(("max_lines", "max_length"), "an event may have 64 MiB"),
    }
    REFUSED_KEYS: ClassVar[Mapping[str, str]] = {
        "event_start_pattern": (
            "is begins_with here, which must match at the beginning of a line; .* before it finds it anywhere"
        ),
        **dict.fromkeys(
            ("event_end_pattern", "continuation_line_start_pattern", "continuation_line_end_pattern"),
            "is not supported: choose the line with which an event begins (begins_with)",
        ),
        "omit_matched_section": "is not supported: a line stays whole; substitute_string can remove a part of message",
        "line_separator": "is not supported: lines are joined by a line feed",
        "encoding": "is not supported: only UTF-8 is read",
    }

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

    REFUSED_KEYS: ClassVar[Mapping[str, str]] = {
        "event_json": "is not supported: let Data Prepper write ndjson",
        **dict.fromkeys(("otel_logs", "otel_traces"), "is not supported: send OTLP to a source otlp"),
    }

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

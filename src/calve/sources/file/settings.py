"""The options of the file source."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path, PurePath
from typing import ClassVar, Literal

import pyarrow as pa

from calve.settings import option
from calve.sources.file.codec_settings import CodecSettings
from calve.sources.settings import SourceSettings, StateForm

__all__ = ["METADATA", "SETTINGS", "FileSettings", "FormatSettings", "S3Settings"]

METADATA = {"file_path": pa.string(), "file_row": pa.int64()}
_NO_FORMAT: Literal["json", "plain"] | None = None
_NOT_LINES = (".json", ".csv", ".tsv", ".parquet", ".avro", ".orc")


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

    IGNORED_KEYS: ClassVar[Mapping[str, str]] = {
        **dict.fromkeys(
            ("acknowledgments", "acknowledgment_timeout", "max_acknowledgment_retries"),
            "progress always follows the commits",
        ),
        **dict.fromkeys(("batch_size", "batch_timeout"), "flush_interval and max_batch_bytes divide batches"),
        **dict.fromkeys(
            ("checkpoint_file", "checkpoint_interval", "checkpoint_cleanup_after"),
            "positions are in the state",
        ),
        "close_inactive": "files are open only while they are read",
        "close_removed": "a removed file is read to its end, see rotate_wait",
        "fingerprint_bytes": "a file is known by its device and inode",
        "include_file_metadata": "file_path and file_row are metadata of each event",
        "max_active_files": "every file is followed",
        "max_line_length": "a line may have 64 MiB, and is never cut",
        "max_read_time_per_file": "every file is read in its turn",
        "read_buffer_size": "Calve chooses it",
        "reader_threads": "Spark's tasks read",
        "rotation_drain_timeout": "rotate_wait decides",
    }
    REFUSED_KEYS: ClassVar[Mapping[str, str]] = {
        "exclude_paths": "is not supported: write a narrower glob as path, or several",
        "encoding": "only UTF-8 is read: leave it out; csv has an option of its own (codec: {csv: {encoding: …}})",
    }

    remembers: ClassVar[Mapping[str, StateForm]] = {"": StateForm.LIST, "tail": StateForm.FILES}

    path: str | list[str] = option(
        aliases=("paths",),
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

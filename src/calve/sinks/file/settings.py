"""The options of the file sink."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import ClassVar, Literal

import pyarrow as pa

from calve.errors import SettingsError
from calve.expression import compile_format
from calve.settings import option
from calve.sinks.file.codec_settings import FileCodec, ParquetFormat
from calve.sinks.records.settings import LineSettings, has_operation
from calve.state.durable import local_path

__all__ = ["SETTINGS", "Compression", "FileSinkSettings", "folder_fault"]

Compression = Literal["none", "gzip", "zstd", "snappy"]
_LINES, _PARQUET = ".ndjson", ".parquet"
_ENDINGS: dict[Compression, str] = {"none": "", "gzip": ".gz", "zstd": ".zst"}
_LONGEST_PART, _LONGEST = 255, 900
_STORES = ("s3://", "gs://", "az://")


def folder_fault(root: str, ending: str, folder: str) -> str | None:
    """Return what is wrong with the folder of an event, or None if files may be written there.

    Args:
        root: What is the same for all events.
        ending: How names of files end.
        folder: The folder, with the values of the event.
    """
    for part in folder[len(root.rstrip("/")) :].split("/")[1:]:  # a slash too many would name the same folder again
        is_hidden = part[:1] in ("", "_", ".")  # also a part that is empty
        is_file = ending in part  # where it would be in the way of one
        if is_hidden or is_file or part[-1] == "=" or len(part.encode()) > _LONGEST_PART or not part.isprintable():
            return f"{part[:100]!r} is no name of a folder"
    return f"the path has more than {_LONGEST} bytes" if len(folder.encode()) > _LONGEST else None


def _check_path(text: str) -> None:
    static = compile_format(text).static
    scheme = text.split("://")[0] if "://" in text else ""
    if scheme and not text.startswith((*_STORES, "file://")):
        raise SettingsError(f"{scheme}:// is no store that files can be written to; use a folder, {', '.join(_STORES)}")
    if static is not None and not (static.isprintable() and static.strip()):
        raise SettingsError("this is no folder")
    fixed = text.split("${")[0]
    if fixed != text and not fixed.split("://")[-1].rpartition("/")[0]:
        raise SettingsError("must begin with a folder that is the same for all events, e.g. out/${/region}")


@dataclass(frozen=True)
class FileSinkSettings(LineSettings):
    """Writes events to files in a folder or an object store, as lines (NDJSON) or Parquet, each event once."""

    IGNORED_KEYS: ClassVar[Mapping[str, str]] = {
        "append": "each batch is a file of its own, and none is overwritten",
    }

    path: str = option(
        doc="The folder, e.g. `out/orders`, `s3://bucket/orders` or `out/region=${/region}`; with `${…}` each event "
        "selects its folder. Each batch is a file of its own.",
        minimum=1,
        check=_check_path,
    )
    codec: FileCodec | None = option(None, "The format of the files, e.g. `{parquet: {}}`. Default: `{ndjson: {}}`.")
    compression: Compression | None = option(
        None, "How files are compressed; `snappy` is for Parquet. Default: `none` for lines, `zstd` for Parquet."
    )
    flush_interval: timedelta = option(
        timedelta(minutes=1), "Maximum time that events wait before they are written: the time of a file.", unit="ms"
    )

    @property
    def parquet(self) -> ParquetFormat | None:
        """The options of Parquet; None: files are lines."""
        return self.codec.parquet if self.codec else None

    @property
    def packing(self) -> Compression:
        """How files are compressed."""
        return self.compression or ("zstd" if self.parquet else "none")

    @property
    def ending(self) -> str:
        """How names of files end, before that of their compression."""
        return _PARQUET if self.parquet else _LINES

    @property
    def endings(self) -> str:
        """How names of files end; Parquet is compressed inside."""
        return _PARQUET if self.parquet else f"{_LINES}{_ENDINGS[self.packing]}"

    @property
    def root(self) -> str:
        """The part of the path that is the same for all events: a whole folder; a local one is absolute."""
        fixed = self.path.split("${")[0]
        folder = fixed if fixed == self.path else fixed.rpartition("/")[0]
        local = local_path(folder or ".")
        return str(local.expanduser().absolute()) if local is not None else folder.rstrip("/")

    @property
    def target(self) -> str:
        """The path, absolute, without a slash at its end."""
        fixed = self.path.split("${")[0]
        folder = fixed if fixed == self.path else fixed.rpartition("/")[0]
        return f"{self.root}/{self.path[len(folder) :].lstrip('/')}".rstrip("/")

    @property
    def stores(self) -> tuple[str, ...]:
        """The folder that it writes to."""
        return (self.root,)

    @property
    def shown_location(self) -> str | None:
        """The folder, for the log at the start of a run."""
        return self.root

    def check(self) -> Iterator[tuple[str, str]]:
        """Refuse options that exclude each other, and a folder that no file can be in."""
        yield from super().check()
        static = compile_format(self.target).static
        if static is not None and (fault := folder_fault(self.root, self.ending, static)):
            yield "path", fault
        if self.packing not in _ENDINGS and not self.parquet:
            yield (
                "compression",
                f"lines are not compressed with {self.packing}; use gzip or zstd, or codec: {{parquet: {{}}}}",
            )
        if self.operation is not None:
            yield from self._required()
        if self.root == "/":
            yield "path", "needs a folder below /"
        if (local := local_path(self.root)) is not None and Path(local).is_file():
            yield "path", "is a file, but must be a folder: each batch is a file of its own"

    def faults(
        self, stream: str | None, has_keys: bool, metadata: Mapping[str, pa.DataType]
    ) -> Iterable[tuple[str, str]]:
        """Refuse changes of rows as plain events, and required columns of rows that are deleted."""
        yield from super().faults(stream, has_keys, metadata)
        if self.operation is None and (stream is not None or has_operation(metadata)):
            yield from self._required()

    def _required(self) -> Iterator[tuple[str, str]]:
        """Refuse required columns of changes: a deleted row may have its key only."""
        if self.parquet and (name := self.parquet.required):
            yield "codec", f"the column {name} cannot be required: a deleted row may have nothing but its key"


SETTINGS = FileSinkSettings

"""The options of the file sink."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import ClassVar, Literal

from calve.errors import SettingsError
from calve.expression import compile_format
from calve.settings import option
from calve.sinks.records.settings import LineSettings
from calve.state.durable import local_path

__all__ = ["FILES", "SETTINGS", "FileSinkSettings", "folder_fault"]

FILES = ".ndjson"
"""How names of files end, before that of their compression."""
_LONGEST_PART, _LONGEST = 255, 900
_STORES = ("s3://", "gs://", "az://")


def folder_fault(root: str, folder: str) -> str | None:
    """Return what is wrong with the folder of an event, or None if files may be written there.

    Args:
        root: What is the same for all events.
        folder: The folder, with the values of the event.
    """
    for part in folder[len(root.rstrip("/")) :].split("/")[1:]:  # a slash too many would name the same folder again
        is_hidden = part[:1] in ("", "_", ".")  # also a part that is empty
        is_file = FILES in part  # where it would be in the way of one
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
    """Writes events to files of lines (NDJSON) in a folder or an object store, each event once."""

    IGNORED_KEYS: ClassVar[Mapping[str, str]] = {
        "append": "each batch is a file of its own, and none is overwritten",
    }

    path: str = option(
        doc="The folder, e.g. `out/orders`, `s3://bucket/orders` or `out/region=${/region}`; with `${…}` each event "
        "selects its folder. Each batch is a file of its own.",
        minimum=1,
        check=_check_path,
    )
    compression: Literal["none", "gzip", "zstd"] = option("none", "How files are compressed.")
    flush_interval: timedelta = option(
        timedelta(minutes=1), "Maximum time that events wait before they are written: the time of a file.", unit="ms"
    )

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
        if static is not None and (fault := folder_fault(self.root, static)):
            yield "path", fault
        if self.root == "/":
            yield "path", "needs a folder below /"
        if (local := local_path(self.root)) is not None and Path(local).is_file():
            yield "path", "is a file, but must be a folder: each batch is a file of its own"


SETTINGS = FileSinkSettings

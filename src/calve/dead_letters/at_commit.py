"""Dead letters of events that only their commit knows to be no rows; runs on the driver.

They are written before the commit, into a file that follows from batch and table. An attempt that is repeated, because
it was killed or another writer was faster, writes the same file anew; once the commit is there nobody does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec
from pyiceberg.io import FileIO, load_file_io

from calve import durable
from calve.durable import local_path
from calve.errors import WriteError
from calve.event.dead_letter import line
from calve.record.written import TableFiles

__all__ = ["Losses", "counted", "keep"]


class _Coded(msgspec.Struct):
    """What is read of a dead letter here."""

    code: str


class Losses:
    """The dead letters of one table's batches that only its commit knows of.

    Args:
        pipeline: The pipeline's name.
        table: The table's.
        entries: What is staged for it, by batch.
        io_properties: Gives what a FileIO needs where the dead letters go.
    """

    def __init__(
        self,
        pipeline: str,
        table: str,
        entries: Mapping[int, Sequence[TableFiles]],
        io_properties: Callable[[], Mapping[str, str]],
    ) -> None:
        self._about = {"pipeline": pipeline, "table": table}
        self._places = {
            batch: one.commit_rejects for batch, found in entries.items() for one in found if one.commit_rejects
        }
        self._io_properties = io_properties

    def keep(self, batch: int, letters: Sequence[bytes]) -> None:
        """Write those of a batch, in place of what an earlier attempt wrote."""
        if place := self._places.get(batch):
            about = {**self._about, "sink": place.sink}
            keep(place.path, letters, about, self._io_properties())

    def counted(self) -> dict[int, Counter[str]]:
        """Count them by batch and code, also if an earlier process committed."""
        found = {batch: counted(place.path, self._io_properties()) for batch, place in self._places.items()}
        return {batch: codes for batch, codes in found.items() if codes}


def keep(path: str, letters: Sequence[bytes], about: Mapping[str, str], io_properties: Mapping[str, str]) -> None:
    """Make a file of dead letters hold these and no others; none of them leaves no file.

    Args:
        path: The file.
        letters: Lines of JSON.
        about: What they all say first.
        io_properties: What a FileIO needs there.

    Raises:
        WriteError: The storage refuses; nothing is committed then, and it is tried again.
    """
    whole = b"".join(line({**about, **msgspec.json.decode(each)}) for each in letters)
    local = local_path(path)
    try:
        if local is not None:
            _keep_here(local, whole)
        else:
            _keep_away(load_file_io(dict(io_properties), path), path, whole)
    except OSError as error:
        raise _refused(path, error) from error


def counted(path: str, io_properties: Mapping[str, str]) -> Counter[str]:
    """Count the dead letters of a file by code.

    Raises:
        WriteError: It cannot be read at the moment.
    """
    local = local_path(path)
    try:
        text = _read_away(load_file_io(dict(io_properties), path), path) if local is None else _read_here(local)
    except OSError as error:
        raise _refused(path, error) from error
    return Counter(msgspec.json.decode(each, type=_Coded).code for each in text.splitlines())


def _read_here(file: Path) -> bytes:
    return file.read_bytes() if file.exists() else b""


def _read_away(io: FileIO, path: str) -> bytes:
    if not io.new_input(path).exists():
        return b""
    with io.new_input(path).open() as stream:
        return stream.read()


def _keep_here(file: Path, whole: bytes) -> None:
    if whole:
        durable.make_folder(file.parent)
        durable.replace_bytes(file, whole)
    else:
        durable.remove(file)


def _keep_away(io: FileIO, path: str, whole: bytes) -> None:
    if whole:
        with io.new_output(path).create(overwrite=True) as stream:
            stream.write(whole)
    elif io.new_input(path).exists():
        io.delete(path)


def _refused(path: str, error: OSError) -> WriteError:
    return WriteError(
        f"Cannot keep the rejects of a commit in {path}: {error.strerror or error}",
        step="reject",
        target=path,
        hint="Check space and permissions of the dead-letter folder; the commit is tried again",
    )

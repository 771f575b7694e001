"""Dead letters of events that only the commit can reject; runs on the driver.

They are written before the commit, to a file whose name depends on batch and table. A repeated attempt, after a kill or
because another writer was faster, overwrites the same file. After the commit the file never changes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec
from pyiceberg.io import FileIO, load_file_io

from calve import structs
from calve.errors import WriteError
from calve.event.dead_letter import line
from calve.record.written import StagedFiles
from calve.state import durable
from calve.state.durable import local_path

__all__ = ["RejectsAtCommit", "counted", "keep"]


class _Coded(msgspec.Struct):
    """The part of a dead letter that is read here."""

    code: str


class RejectsAtCommit:
    """The dead letters of one table that its commits find.

    Args:
        pipeline: The pipeline's name.
        table: The table's identifier.
        entries: The staged files of the table, by batch.
        io_properties: Returns the properties of a FileIO for dead letters, by their location.
    """

    def __init__(
        self,
        pipeline: str,
        table: str,
        entries: Mapping[int, Sequence[StagedFiles]],
        io_properties: Callable[[], Mapping[str, Mapping[str, str]]],
    ) -> None:
        self._labels = {"pipeline": pipeline, "table": table}
        self._locations = {
            batch: staged_table.commit_rejects
            for batch, tables in entries.items()
            for staged_table in tables
            if staged_table.commit_rejects
        }
        self._io_properties = io_properties

    def keep(self, batch: int, letters: Sequence[bytes]) -> None:
        """Write the dead letters of a batch; they replace those of an earlier attempt."""
        if location := self._locations.get(batch):
            labels = {**self._labels, "sink": location.sink}
            keep(location.path, letters, labels, self._io(location.path))

    def counted(self) -> dict[int, Counter[str]]:
        """Count them by batch and code, even if an earlier process committed."""
        counts = {batch: counted(rejects.path, self._io(rejects.path)) for batch, rejects in self._locations.items()}
        return {batch: codes for batch, codes in counts.items() if codes}

    def _io(self, path: str) -> Mapping[str, str]:
        return next(
            (properties for location, properties in self._io_properties().items() if path.startswith(location)), {}
        )


def keep(path: str, letters: Sequence[bytes], labels: Mapping[str, str], io_properties: Mapping[str, str]) -> None:
    """Replace the contents of a file of dead letters; without dead letters the file is removed.

    Args:
        path: The file.
        letters: Lines of JSON.
        labels: The first keys of all entries.
        io_properties: The properties of a FileIO for the file.

    Raises:
        WriteError: The storage refused; nothing is committed, and Calve retries.
    """
    content = b"".join(line({**labels, **msgspec.json.decode(letter)}) for letter in letters)
    local = local_path(path)
    try:
        if local is not None:
            _keep_local(local, content)
        else:
            _keep_remote(load_file_io(dict(io_properties), path), path, content)
    except OSError as error:
        raise _refused(path, error) from error


def counted(path: str, io_properties: Mapping[str, str]) -> Counter[str]:
    """Count the dead letters of a file by code.

    Raises:
        WriteError: It cannot be read at the moment.
    """
    local = local_path(path)
    try:
        text = _read_remote(load_file_io(dict(io_properties), path), path) if local is None else _read_local(local)
    except OSError as error:
        raise _refused(path, error) from error
    return Counter(structs.decode(letter, _Coded).code for letter in text.splitlines())


def _read_local(file: Path) -> bytes:
    return file.read_bytes() if file.exists() else b""


def _read_remote(io: FileIO, path: str) -> bytes:
    if not io.new_input(path).exists():
        return b""
    with io.new_input(path).open() as stream:
        return stream.read()


def _keep_local(file: Path, content: bytes) -> None:
    if content:
        durable.make_folder(file.parent)
        durable.replace(file, content)
    else:
        durable.remove(file)


def _keep_remote(io: FileIO, path: str, content: bytes) -> None:
    if content:
        with io.new_output(path).create(overwrite=True) as stream:
            stream.write(content)
    elif io.new_input(path).exists():
        io.delete(path)


def _refused(path: str, error: OSError) -> WriteError:
    return WriteError(
        f"Cannot keep the rejects of a commit in {path}: {error.strerror or error}",
        step="reject",
        target=path,
        hint="Check space and permissions of the dead-letter folder; Calve retries the commit",
    )

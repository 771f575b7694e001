"""Publishes the rejects of a staged batch; runs on the driver."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from pyiceberg.io import load_file_io

from calve.errors import WriteError
from calve.record.written import Rejects
from calve.state.durable import local_path, sync

__all__ = ["publish"]


def publish(rejects: Iterable[Rejects], io_properties: Mapping[str, Mapping[str, str]]) -> None:
    """Rename each file of rejects to its public name; may be repeated safely.

    A file without its first name is published already: it may also be gone, sent to a topic or moved away by a user.

    Args:
        rejects: From the receipts; without a path they are in a table.
        io_properties: The properties of a FileIO, by a location's prefix.

    Raises:
        WriteError: A file cannot be published; try again.
    """
    for file in rejects:
        if not file.path:
            continue
        source, target = file.path, file.publish
        try:
            old, new = local_path(source), local_path(target)
            if old and new:
                _rename(old, new)
            else:
                _copy(source, target, next((p for at, p in io_properties.items() if source.startswith(at)), {}))
        except OSError as error:
            raise WriteError(
                f"Cannot publish rejects as {target}: {error.strerror or error}",
                step="reject",
                target=target,
                hint="Check space and permissions of the dead-letter folder",
            ) from error


def _rename(old: Path, new: Path) -> None:
    if old.exists() or not new.parent.exists():
        old.replace(new)
        sync(new.parent)


def _copy(source: str, target: str, io_properties: Mapping[str, str]) -> None:
    """Object stores cannot rename: copy, then remove the old name."""
    io = load_file_io(dict(io_properties), source)
    old = io.new_input(source)
    if not old.exists():
        return
    with old.open(seekable=False) as file, io.new_output(target).create(overwrite=True) as copy:
        while block := file.read(1 << 20):
            copy.write(block)
    io.delete(source)

"""A file sink on the driver: its folder, and its part of a job. A task writes; nothing is left to commit."""

from __future__ import annotations

from functools import partial

from pyiceberg.io import load_file_io

from calve.columns.fields import Fields
from calve.engine.engine import Engine
from calve.sinks.file.columns import columns_of
from calve.sinks.file.job import FileJob
from calve.sinks.file.settings import FileSinkSettings, folder_fault
from calve.sinks.records.sink import LineSink
from calve.sinks.sink import Opening, Sink
from calve.state.clients import file_io_at
from calve.state.durable import local_path, make_folder, try_folder
from calve.write.parquet import storage_error

__all__ = ["FileSink", "open", "probe"]


class FileSink(LineSink):
    """The file sink (`Sink`); runs on the driver.

    Args:
        opening: Its settings and tools.
    """

    def __init__(self, opening: Opening) -> None:
        settings: FileSinkSettings = opening.entry.value
        self._settings = settings
        fields = Fields(frozenset(opening.entry.include_keys), frozenset(opening.entry.exclude_keys))
        job_of = partial(
            FileJob,
            root=settings.root,
            endings=settings.endings,
            compression=settings.packing,
            columns=columns_of(settings.parquet, fields) if settings.parquet else None,
        )
        fault = partial(folder_fault, settings.root, settings.ending)
        super().__init__(opening, settings.target, "path", job_of, fault)

    def open(self) -> None:
        """Create the folder, or see that the store answers."""
        local = local_path(self._settings.root)
        if local is None:
            _ask(self._settings.root)
        else:
            make_folder(local, is_private=False)


def open(opening: Opening) -> Sink:
    """Create a file sink; it makes its folder in `Sink.open`."""
    return FileSink(opening)


def probe(settings: FileSinkSettings, spark: Engine | None) -> None:
    """Check that files can be written in the folder, or that the store answers.

    Raises:
        CalveError: It is not so.
    """
    local = local_path(settings.root)
    if local is None:
        _ask(settings.root)
    else:
        try_folder(local)


def _ask(root: str) -> None:
    """Look for a file in a store that need not be there.

    Raises:
        CalveError: The store does not answer, or refuses.
    """
    path = f"{root}/_manifests/none"
    try:
        load_file_io(file_io_at(root), path).new_input(path).exists()
    except OSError as error:
        raise storage_error(root, error, "write") from error

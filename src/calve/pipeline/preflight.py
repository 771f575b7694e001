"""Checks before Spark starts: a folder that cannot be written, a port in use, a missing file."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path

from calve.durable import try_folder
from calve.errors import CalveError
from calve.ledger.ledger import Ledger
from calve.settings import PipelineSettings
from calve.sources.file.settings import FileSettings
from calve.sources.http.settings import HttpSettings

__all__ = ["local_folders", "problems"]


def problems(pipelines: Sequence[PipelineSettings], state: Path, once: bool) -> Iterator[tuple[str, CalveError]]:
    """Yield the problems that prevent a start, by pipeline; no event is read or accepted.

    Args:
        pipelines: The pipelines of a run.
        state: The state folder.
        once: Whether they read only the current events.
    """
    for one in pipelines:
        for look in (
            lambda one=one: _ledger_and_source(one, state / one.name, once),
            *[lambda folder=folder: try_folder(folder) for folder in local_folders(one)],
        ):
            if error := _failure(look):
                yield one.name, error


def local_folders(settings: PipelineSettings) -> list[Path]:
    """Return the local folders of the sinks that the settings have."""
    return list(dict.fromkeys(folder for sink in settings.sinks for folder in sink.value.local_folders))


def _ledger_and_source(settings: PipelineSettings, folder: Path, once: bool) -> None:
    """Take the pipeline's lock briefly, and check that its source can start."""
    with closing(Ledger.open(folder / "ledger", settings.name)) as ledger:
        source = settings.source.value
        if isinstance(source, HttpSettings) and not once:
            from calve.sources.http.server import try_port

            try_port(source)
        if isinstance(source, FileSettings) and once and not source.s3 and ledger.last_batch == 0:
            from calve.sources.file.listing import Listing

            Listing(source, settings.name).require()


def _failure(check: Callable[[], None]) -> CalveError | None:
    try:
        check()
    except CalveError as error:
        return error
    return None

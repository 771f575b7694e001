"""Checks before Spark starts: a folder that cannot be written, a port in use, a missing file."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from calve.errors import CalveError, SettingsError
from calve.ledger.ledger import last_batch_of
from calve.pipeline.plugins import check_start, declared, local_log, source_kind
from calve.settings import PipelineSettings
from calve.state.durable import try_folder
from calve.state.folder import StateFolder

__all__ = ["check_sources", "local_folders", "problems"]


def check_sources(pipelines: Sequence[PipelineSettings], state: StateFolder, standby: bool) -> None:
    """Check that the sources can run with a state on an object store, or as a standby.

    Raises:
        SettingsError: One cannot.
    """
    for pipeline in pipelines:
        problem, hint, source = "", "", declared(pipeline)
        if state.is_shared and source.keeps_events_here and local_log(pipeline) is None:
            problem = "keeps accepted events on a local disk, and the state is on an object store"
            hint = "Run it with a state in a local folder"
            if source.replicates:
                hint = (
                    f"Set `durable: replicated` of {pipeline.source.name} to keep them on the store, or `log_folder` "
                    "to a folder on a durable local disk"
                )
        elif not state.is_shared and source.accepts and not source.keeps_events_here:
            problem = "is to keep accepted events on an object store (durable: replicated), and the state is local"
            hint = "Set --state to s3://bucket/prefix, gs://bucket/prefix or az://container/prefix, or durable: local"
        elif standby and source.emits_changes and not state.is_shared:
            problem = "keeps changes on the disk of its machine, so a standby cannot continue with them"
            hint = "Run it without --standby; or with --state on an object store"
        elif standby and source.keeps_events_here:
            problem = "keeps accepted events on the disk of its machine, so a standby cannot continue with them"
            hint = "Run it without --standby"
            if source.replicates:
                hint += "; or set durable: replicated, with the state on an object store"
        if problem:
            name = f"The source {pipeline.source.name} of {pipeline.name}"
            raise SettingsError(f"{name} {problem}", step="start", target=pipeline.name, hint=hint)


def problems(
    pipelines: Sequence[PipelineSettings], state: StateFolder, once: bool, standby: bool = False
) -> Iterator[tuple[str, CalveError]]:
    """Yield the problems that prevent a start, by pipeline; no event is read or accepted.

    Args:
        pipelines: The pipelines of a run.
        state: The state folder.
        once: Whether they read only the current events.
        standby: Whether another driver may hold the state.
    """
    for pipeline in pipelines:
        for look in (
            lambda pipeline=pipeline: None if standby else _ledger_and_source(pipeline, state / pipeline.name, once),
            *[lambda folder=folder: try_folder(folder) for folder in local_folders(pipeline)],
        ):
            if error := _failure(look):
                yield pipeline.name, error


def local_folders(settings: PipelineSettings) -> list[Path]:
    """Return the local folders of the sinks that the settings have."""
    return list(dict.fromkeys(folder for sink in settings.sinks for folder in sink.value.local_folders))


def _ledger_and_source(settings: PipelineSettings, folder: StateFolder, once: bool) -> None:
    """Check that no other driver has the pipeline's local state, and that its source can start."""
    last_batch = last_batch_of(folder / "ledger", settings.name, source_kind(settings))
    check_start(settings, once, is_new=last_batch == 0)


def _failure(check: Callable[[], None]) -> CalveError | None:
    try:
        check()
    except CalveError as error:
        return error
    return None

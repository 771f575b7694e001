"""The error for a state folder that has nothing to show."""

from __future__ import annotations

from calve.errors import CalveError, SourceError
from calve.observe.state_folder import Folder

__all__ = ["check_known", "no_pipelines"]


def check_known(state: str, pipeline: str) -> None:
    """Check that a state folder has a pipeline.

    Raises:
        SourceError: It has not.
    """
    if pipeline not in Folder.at(state).folders():
        raise no_pipelines(state, pipeline)


def no_pipelines(state: str, pipeline: str | None = None) -> CalveError:
    """Return an error that says what is missing in which folder, and a hint."""
    folder = Folder.at(state)
    if not folder.exists():
        return SourceError(
            f"there is no state folder {folder.path}",
            step="observe",
            target=state,
            hint="Set the folder that `calve run` used: --state URI",
        )
    if pipeline is None:
        return SourceError(
            f"no pipeline has run with the state folder {folder.path} yet",
            step="observe",
            target=state,
            hint="Start one with `calve run`, or set another folder: --state URI",
        )
    names = ", ".join(folder.folders()) or "none"
    return SourceError(
        f"the state folder {folder.path} has no pipeline {pipeline}",
        step="observe",
        target=pipeline,
        hint=f"It has: {names}",
    )

"""What is said when a state folder has nothing to show."""

from __future__ import annotations

from calve.errors import CalveError, SourceError
from calve.observe.state_folder import Folder

__all__ = ["no_pipelines"]


def no_pipelines(state: str, pipeline: str | None = None) -> CalveError:
    """Say what was looked for and where, and how to find it."""
    folder = Folder.at(state)
    if not folder.exists():
        return SourceError(
            f"there is no state folder {folder.path}",
            step="observe",
            target=state,
            hint="Name the one that `calve run` was given: --state URI",
        )
    if pipeline is None:
        return SourceError(
            f"no pipeline has run with the state folder {folder.path} yet",
            step="observe",
            target=state,
            hint="Start one with `calve run`, or name another folder: --state URI",
        )
    known = ", ".join(folder.folders()) or "none"
    return SourceError(
        f"the state folder {folder.path} has no pipeline {pipeline}",
        step="observe",
        target=pipeline,
        hint=f"It has: {known}",
    )

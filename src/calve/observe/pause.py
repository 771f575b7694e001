"""`<state>/<pipeline>/paused`: while this file exists, the pipeline reads no events."""

from __future__ import annotations

import time
from collections.abc import Callable

from calve.errors import SourceError
from calve.observe.state_folder import Folder

__all__ = ["PAUSE_FILE", "Pause", "is_paused", "pause", "resume"]

PAUSE_FILE = "paused"
_CHECK_SECONDS = 1.0
_STORE_CHECK_SECONDS = 5.0
"""On an object store, where each check is a paid request."""


class Pause:
    """The request to pause one pipeline, as the driver sees it: read once a second, on object stores less often.

    Args:
        folder: `<state>/<pipeline>`.
        clock: Monotonic seconds.
    """

    def __init__(self, folder: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._folder = Folder.at(folder)
        self._seconds = _STORE_CHECK_SECONDS if "://" in folder else _CHECK_SECONDS
        self._clock = clock
        self._next_check = float("-inf")
        self._found = False

    def is_requested(self) -> bool:
        """Return whether the pipeline should read nothing now; if the state does not answer, the last answer."""
        if self._clock() >= self._next_check:
            self._next_check = self._clock() + self._seconds
            try:
                self._found = self._folder.has(PAUSE_FILE)
            except (OSError, ValueError):  # Arrow's errors are one or the other
                return self._found
        return self._found


def pause(state: str, pipeline: str) -> None:
    """Ask a pipeline to read nothing until `resume`; also over restarts.

    Raises:
        SourceError: The request cannot be written.
    """
    try:
        (Folder.at(state) / pipeline).write(PAUSE_FILE, b"")
    except OSError as error:
        raise _refused(state, pipeline, error) from error


def resume(state: str, pipeline: str) -> None:
    """Let a pipeline read again.

    Raises:
        SourceError: The request cannot be removed.
    """
    try:
        (Folder.at(state) / pipeline).remove(PAUSE_FILE)
    except OSError as error:
        raise _refused(state, pipeline, error) from error


def is_paused(state: str, pipeline: str) -> bool:
    """Return whether a pipeline is asked to read nothing.

    Raises:
        OSError: The state folder cannot be read.
    """
    return (Folder.at(state) / pipeline).has(PAUSE_FILE)


def _refused(state: str, pipeline: str, error: OSError) -> SourceError:
    return SourceError(
        f"the state of {pipeline} cannot be changed: {error}",
        step="observe",
        target=state,
        hint="Check your permissions for the state folder",
    )

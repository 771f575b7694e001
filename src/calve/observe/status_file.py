"""`<state>/<pipeline>/status.json`: written about once a second by the driver, read by `calve status`."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

import msgspec

from calve import structs
from calve.errors import CalveError, SourceError
from calve.observe.blueprint import BLUEPRINT_FILE, Blueprint
from calve.observe.log import Log
from calve.observe.recent_lines import LINES_FILE, RecentLines
from calve.observe.report import PipelineReport
from calve.observe.state_folder import Folder
from calve.observe.status import PipelineStatus
from calve.observe.ticker import Ticker

__all__ = [
    "REPLAY_FOLDER",
    "STATUS_FILE",
    "CountPending",
    "StatusFile",
    "read_all",
    "read_replay",
    "read_report",
    "read_reports",
]

STATUS_FILE = "status.json"
REPLAY_FOLDER = "replay"
"""The folder with the state of a pipeline's replays, in its state folder."""
INTERVAL_SECONDS = 1.0
_SHARE = 0.05
"""Of a core, which writing the status takes at most on average: with 10,000 tables it is 6 MB."""
_LONGEST_REST_SECONDS = 10.0
STORE_INTERVAL_SECONDS = 5.0
"""On an object store, where each write is a paid request."""

CountPending = Callable[[PipelineReport], "dict[str, dict[str, int]] | None"]
"""Counts the dead letters of a pipeline that wait, by table and code; None: they cannot be counted now."""


class StatusFile:
    """Keeps the status file of one pipeline current; a failed write is logged once and retried.

    Beside it are what the pipeline consists of and the last lines of its log.

    Args:
        status: The status.
        folder: The pipeline's folder in the state.
        interval_seconds: Between two writes; None: as the folder's place allows.
        blueprint: What the pipeline consists of.
        lines: The last lines of the log.
        pending: Counts the dead letters that wait; None: they are not counted.

    Attributes:
        pipeline: The pipeline's name.
    """

    def __init__(
        self,
        status: PipelineStatus,
        folder: str,
        interval_seconds: float | None = None,
        blueprint: Blueprint | None = None,
        lines: RecentLines | None = None,
        pending: CountPending | None = None,
    ) -> None:
        self.pipeline = status.name
        self._status = status
        self._folder = Folder.at(folder)
        self._log = Log(status.name)
        self._refused = self._is_abandoned = False
        self._lines, self._pending = lines, pending
        self._beside = {BLUEPRINT_FILE: msgspec.json.encode(blueprint)} if blueprint else {}
        self._written: dict[str, bytes] = {}
        interval = STORE_INTERVAL_SECONDS if "://" in folder else INTERVAL_SECONDS
        self._rests_until = 0.0
        self._ticker = Ticker(f"calve-status-{status.name}", interval_seconds or interval, self._tick)

    def _tick(self) -> None:
        """Write the status, and then rest for as long as its share of a core wants it."""
        if time.monotonic() < self._rests_until:
            return
        began = time.thread_time()
        self.write()
        rest_seconds = (time.thread_time() - began) * (1 / _SHARE - 1)
        self._rests_until = time.monotonic() + min(rest_seconds, _LONGEST_REST_SECONDS)

    def write(self) -> None:
        """Write the current status."""
        if self._is_abandoned:
            return
        counts = self._pending(self._status.report()) if self._pending else None
        if counts is not None:
            self._status.dead_letters_wait(counts)
        data = msgspec.json.format(self._status.encoded(), indent=2)
        try:
            self._folder.write(STATUS_FILE, data + b"\n")
            self._write_beside()
            self._refused = False
        except (OSError, ValueError) as error:  # Arrow's errors are one or the other
            if not self._refused:
                self._log.warning(f"the status file cannot be written, so `calve status` shows old figures: {error}")
            self._refused = True

    def _write_beside(self) -> None:
        """Write what the dashboard shows besides, if it has changed."""
        if self._lines is not None:
            self._beside[LINES_FILE] = self._lines.content(self.pipeline)
        for name, data in self._beside.items():
            if self._written.get(name) != data:
                self._folder.write(name, data)
                self._written[name] = data

    def close(self) -> None:
        """Write a last time and stop."""
        self._rests_until = math.inf
        self._ticker.close()
        self.write()

    def abandon(self) -> None:
        """Stop without writing again."""
        self._is_abandoned = True
        self._ticker.close()


def read_report(state: str, pipeline: str) -> PipelineReport | None:
    """Return the status of one pipeline; None if it does not exist.

    Raises:
        SourceError: The file exists and cannot be read.
    """
    return _read(Folder.at(state) / pipeline, pipeline)


def read_replay(state: str, pipeline: str) -> PipelineReport | None:
    """Read the joined report of all replays of a pipeline's dead letters; None without a replay.

    Raises:
        SourceError: It exists and cannot be read.
    """
    return _read(Folder.at(state) / pipeline / REPLAY_FOLDER, pipeline)


def _read(folder: Folder, pipeline: str) -> PipelineReport | None:
    try:
        return structs.decode(folder.read(STATUS_FILE), PipelineReport)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as error:
        raise SourceError(
            f"the status file {folder.path}/{STATUS_FILE} cannot be read: {error}",
            step="observe",
            target=pipeline,
            hint="A running pipeline rewrites it every second. If none runs, delete it; nothing depends on it",
        ) from error


def read_all(state: str) -> tuple[list[PipelineReport], dict[str, CalveError]]:
    """Return the status of every pipeline in a state folder, by name, and why others cannot be read.

    Raises:
        CalveError: The folder cannot be opened.
        OSError: The folder cannot be read.
    """
    reports: list[PipelineReport] = []
    broken: dict[str, CalveError] = {}
    for name in Folder.at(state).folders():
        try:
            report = read_report(state, name)
        except SourceError as error:
            broken[name] = error
        else:
            reports += [report] if report else []
    return reports, broken


def read_reports(state: str) -> list[PipelineReport]:
    """Return the status of every pipeline in a state folder, by name; empty without any.

    Raises:
        SourceError: A file exists and cannot be read.
    """
    reports = (read_report(state, name) for name in Folder.at(state).folders())
    return [report for report in reports if report is not None]

"""The one object to which the pipelines of a process report, and from which all observers read."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from types import TracebackType

from calve.credentials import without_credentials
from calve.observe.blueprint import Blueprint
from calve.observe.health import Health
from calve.observe.log import dismiss, listen
from calve.observe.notices import Notices
from calve.observe.recent_lines import RecentLines
from calve.observe.report import PipelineReport
from calve.observe.status import PipelineStatus
from calve.observe.status_file import CountPending, StatusFile
from calve.observe.totals import Totals

__all__ = ["Watch"]


class Watch:
    """The statuses of all pipelines of this process, and the request to stop.

    A context manager: within it the lines of the log are kept, and at its end every status file is written a last time.

    Args:
        show_rejects: The command that shows the rejects.
        notices: Those of earlier runs of the only pipeline, which go on counting; None: each pipeline gets its own.

    Attributes:
        show_rejects: The command that shows the rejects.
        stop: Set when the operator requests the end (SIGTERM, Ctrl-C); running pipelines then commit and end.
    """

    def __init__(self, show_rejects: str = "calve dlq show", notices: Notices | None = None) -> None:
        self.show_rejects = show_rejects
        self._notices = notices
        self.stop = threading.Event()
        self._lock = threading.Lock()
        self._statuses: dict[str, PipelineStatus] = {}
        self._expected: dict[str, str] = {}
        self._files: list[StatusFile] = []
        self._lines = RecentLines()

    def pipeline(
        self,
        name: str,
        folder: str,
        totals: Totals | None = None,
        dlq: str | Sequence[str] = (),
        blueprint: Blueprint | None = None,
        pending: CountPending | None = None,
    ) -> PipelineStatus:
        """Start to watch a pipeline with its state in `folder` and the totals of its earlier runs.

        Call it when this driver owns the pipeline's state: the status file is written from now on.
        """
        status = PipelineStatus(name, totals, dlq, notices=self._notices or Notices(name, self.show_rejects))
        with self._lock:
            self._statuses[name] = status
            file = StatusFile(status, folder, blueprint=blueprint, lines=self._lines, pending=pending)
            self._files.append(file)
        return status

    def leave(self, pipeline: str) -> None:
        """Stop writing the status file of a pipeline, because another driver writes it now."""
        with self._lock:
            removed = [file for file in self._files if file.pipeline == pipeline]
            self._files = [file for file in self._files if file not in removed]
        for file in removed:
            file.abandon()

    def expect(self, pipelines: Iterable[str]) -> None:
        """Register the pipelines that will run; until they begin, they count as starting."""
        with self._lock:
            self._expected |= dict.fromkeys(pipelines, "")

    def failed(self, pipeline: str, why: str) -> None:
        """Record that a pipeline failed, even one that never began."""
        with self._lock:
            self._expected[pipeline] = without_credentials(why)

    def health(self) -> dict[str, Health]:
        """Return the health of each pipeline."""
        with self._lock:
            statuses, expected = dict(self._statuses), dict(self._expected)
        health_of = {name: Health("failed", error=why) if why else Health() for name, why in expected.items()}
        return health_of | {name: status.health() for name, status in statuses.items() if not expected.get(name)}

    @property
    def begun(self) -> bool:
        """Whether any pipeline has started; before that, nothing has to be finished."""
        return bool(self._statuses)

    def reports(self) -> list[PipelineReport]:
        """Return the current report of each pipeline, in the order of their start."""
        with self._lock:
            statuses = list(self._statuses.values())
        return [status.report() for status in statuses]

    def close(self) -> None:
        """Write every status file a last time. May be called twice."""
        with self._lock:
            files, self._files = self._files, []
        for file in files:
            file.close()
        dismiss(self._lines)

    def __enter__(self) -> Watch:
        listen(self._lines)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

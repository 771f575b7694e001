"""Everybody who looks at the running pipelines of a process, in one object that the pipelines report to."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any

from calve.observe.health import Health
from calve.observe.notices import Notices
from calve.observe.report import PipelineReport
from calve.observe.status import PipelineStatus
from calve.observe.status_file import StatusFile

__all__ = ["Watch"]


class Watch:
    """The statuses of all pipelines of this process, and the wish to stop.

    Used as a context manager: on the way out every status file is written a last time.

    Attributes:
        show_rejects: The command that shows what was rejected.
        stop: Set when the operator asked for the end (SIGTERM, Ctrl-C); whoever runs drains then.
    """

    def __init__(self, show_rejects: str = "calve dlq show") -> None:
        self.show_rejects = show_rejects
        self.stop = threading.Event()
        self._lock = threading.Lock()
        self._statuses: dict[str, PipelineStatus] = {}
        self._expected: dict[str, str] = {}
        self._files: list[StatusFile] = []

    def pipeline(
        self, name: str, folder: str, totals: Mapping[str, Any] | None = None, dlq: str | Sequence[str] = ()
    ) -> PipelineStatus:
        """Begin to watch a pipeline whose state is in `folder`, with the totals of its earlier runs.

        Call it when this driver owns the pipeline's state: from here on its status file is written.
        """
        status = PipelineStatus(name, totals, dlq, notices=Notices(name, self.show_rejects))
        with self._lock:
            self._statuses[name] = status
            self._files.append(StatusFile(status, folder))
        return status

    def expect(self, pipelines: Iterable[str]) -> None:
        """Say which pipelines will run, before they begin: until then they count as starting."""
        with self._lock:
            self._expected |= dict.fromkeys(pipelines, "")

    def failed(self, pipeline: str, why: str) -> None:
        """Say that a pipeline ended, also one that never began."""
        with self._lock:
            self._expected[pipeline] = why

    def health(self) -> dict[str, Health]:
        """Return how each pipeline is."""
        with self._lock:
            statuses, expected = dict(self._statuses), dict(self._expected)
        found = {name: Health("failed", error=why) if why else Health() for name, why in expected.items()}
        return found | {name: status.health() for name, status in statuses.items() if not expected.get(name)}

    @property
    def begun(self) -> bool:
        """Whether any pipeline has started; before that, nothing has to be brought to an end."""
        return bool(self._statuses)

    def reports(self) -> list[PipelineReport]:
        """Give what is known now, one report for each pipeline, in the order they began."""
        with self._lock:
            statuses = list(self._statuses.values())
        return [status.report() for status in statuses]

    def close(self) -> None:
        """Write every status file a last time. May be called twice."""
        with self._lock:
            files, self._files = self._files, []
        for file in files:
            file.close()

    def __enter__(self) -> Watch:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

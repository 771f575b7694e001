"""Runs the dashboard beside a run, in a process of its own, so that it cannot slow or break the run."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from pathlib import Path
from types import TracebackType

from calve.observe.log import Log

__all__ = ["Beside"]

_END_SECONDS = 5.0


class Beside:
    """The process of a dashboard within its context; it ends with this process, however that ends.

    Args:
        state: The state folder.
        port: The port of the pages.
        program: The command that stands for `calve`.
        pipelines: The YAML of the pipelines, which has the catalogs of the tables.
    """

    def __init__(
        self,
        state: str,
        port: int,
        program: tuple[str, ...] = (sys.executable, "-m", "calve"),
        pipelines: Path | None = None,
    ) -> None:
        options = ["--state", state, "--port", str(port), *([f"--pipelines={pipelines}"] if pipelines else [])]
        self._command = [*program, "dashboard", "--with-parent", *options]
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Beside:
        try:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                start_new_session=True,  # Ctrl-C is for the run, which then ends the dashboard
            )
        except OSError as error:
            Log().warning(f"no dashboard: its process cannot be started: {error}")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is None:
            return
        with contextlib.suppress(OSError):
            assert self._process.stdin is not None
            self._process.stdin.close()
        try:
            self._process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

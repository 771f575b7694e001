"""The actions of the pages: each is a command of `calve`, run in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from calve.dashboard.access import VARIABLE
from calve.errors import SettingsError
from calve.observe.humanize import harmless
from calve.observe.log import Log
from calve.observe.report import now

__all__ = ["Actions", "CommandCall"]

_MOST_JOBS = 20
_MOST_LINES = 200
_MOST_LINE_CHARACTERS = 2_000


@dataclass
class CommandCall:
    """One call of a command.

    Attributes:
        title: What it does.
        command: The command, as one would type it.
        code: Its exit code; None while it runs.
        lines: The last lines of its output.
    """

    title: str
    command: str
    began: datetime = field(default_factory=now)
    ended: datetime | None = None
    code: int | None = None
    lines: deque[str] = field(default_factory=lambda: deque(maxlen=_MOST_LINES))

    @property
    def output(self) -> str:
        """The lines as one text."""
        return "\n".join(self.lines.copy())


class Actions:
    """Runs one command at a time; a command starts Spark, which needs memory.

    Args:
        state: The state folder.
        path: The YAML file or folder of the pipelines.
        program: The command that stands for `calve`.
    """

    def __init__(self, state: str, path: Path, program: Sequence[str] = (sys.executable, "-m", "calve")) -> None:
        self._state, self._path, self._program = state, path, list(program)
        self._lock = threading.Lock()
        self._jobs: deque[CommandCall] = deque(maxlen=_MOST_JOBS)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def jobs(self) -> list[CommandCall]:
        """The last commands, newest first."""
        with self._lock:
            return list(self._jobs)

    def pause(self, pipeline: str) -> CommandCall:
        """Let a pipeline read nothing."""
        return self._run(f"Pause {pipeline}", ["pause", "--state", self._state, "--", pipeline])

    def resume(self, pipeline: str) -> CommandCall:
        """Let a pipeline read again."""
        return self._run(f"Resume {pipeline}", ["resume", "--state", self._state, "--", pipeline])

    def replay(self, pipeline: str, code: str = "", table: str = "") -> CommandCall:
        """Send the dead letters of a pipeline again, or some of them."""
        chosen = [f"--code={code}"] * bool(code) + [f"--table={table}"] * bool(table)
        options = [f"--pipeline={pipeline}", "--state", self._state, *chosen]
        return self._run(f"Replay dead letters of {pipeline}", ["dlq", "replay", *options, "--", str(self._path)])

    def maintain(self, table: str) -> CommandCall:
        """Run the maintenance of a table."""
        return self._run(f"Maintain {table}", ["maintain", f"--pipelines={self._path}", "--", table])

    def forget(self, pipeline: str, table: str) -> CommandCall:
        """Let a dropped table go: remove its staged files from the state."""
        options = [f"--pipeline={pipeline}", "--state", self._state, "--yes"]
        return self._run(f"Forget staged files of {table}", ["state", "forget", *options, "--", table])

    def close(self) -> None:
        """Ask a running command to end; each may be called again."""
        with self._lock:
            if self._process and self._process.poll() is None:
                self._process.terminate()

    def _run(self, title: str, arguments: list[str]) -> CommandCall:
        """Start a command.

        Raises:
            SettingsError: Another one runs, or it cannot be started.
        """
        with self._lock:
            if self._jobs and self._jobs[0].code is None:
                raise SettingsError(
                    f"{self._jobs[0].title} is still running", step="dashboard", hint="Wait until it has ended"
                )
            job = CommandCall(harmless(title), harmless(f"calve {' '.join(arguments)}"))
            self._process = subprocess.Popen(
                [*self._program, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env={key: value for key, value in os.environ.items() if key != VARIABLE} | {"PYTHONUNBUFFERED": "1"},
                start_new_session=True,  # Ctrl-C ends the dashboard, which then asks it to end
            )
            self._jobs.appendleft(job)
        Log().info(f"dashboard: {job.command}")
        threading.Thread(target=self._follow, args=(job, self._process), name="calve-action", daemon=True).start()
        return job

    def _follow(self, job: CommandCall, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        with process.stdout as output:
            for line in output:
                text = line.decode(errors="backslashreplace").rstrip("\n")
                job.lines.append(harmless(text[:_MOST_LINE_CHARACTERS]))
        code = process.wait()
        with self._lock:
            job.ended, job.code = now(), code
        Log().info(f"dashboard: {job.command} ended with exit code {code}")

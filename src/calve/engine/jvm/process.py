"""The process of the driver's JVM: it starts before Spark's Python is imported, because it takes longest.

It writes the port and the secret of its gateway to a file; PySpark connects to what PYSPARK_GATEWAY_PORT and
PYSPARK_GATEWAY_SECRET name. The JVM exits when its stdin closes, which the operating system does even after `kill -9`.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from calve.engine.jvm import archive
from calve.engine.jvm.output import JvmOutput
from calve.engine.jvm.plan import JvmPlan
from calve.errors import EngineError

__all__ = ["JvmProcess", "abandon_all", "start_early"]

_ADDRESS = "_PYSPARK_DRIVER_CONN_INFO_PATH"
"""The variable with the file into which Spark's gateway writes its port and its secret."""
_POLL_SECONDS = 0.005
_LENGTH_BYTES = 4
_running: set[JvmProcess] = set()
"""Those of this process that were not closed."""


class JvmProcess:
    """A JVM that starts, in a process session of its own: Ctrl-C is for the driver, which drains.

    Args:
        plan: How it is started.

    Attributes:
        plan: As given.
        output: Gets what it prints.
        popen: The process.
        folder: Its private folder, for its address and for what Spark stores on this machine.

    Raises:
        OSError: It cannot be started.
    """

    def __init__(self, plan: JvmPlan) -> None:
        self.plan = plan
        self.output = JvmOutput()
        self.folder = Path(tempfile.mkdtemp(prefix="calve-spark-"))
        self._address = self.folder / "address"
        variables = {**os.environ, **plan.environment(self.folder), _ADDRESS: str(self._address)}
        try:
            self.popen = subprocess.Popen(
                plan.command,
                stdin=subprocess.PIPE,
                stdout=self.output.pipe,
                stderr=self.output.pipe,
                start_new_session=True,
                env={name: value for name, value in variables.items() if value is not None},
            )
        except BaseException:  # a signal, too
            self.folder.rmdir()
            raise
        self.output.read()
        _running.add(self)

    @property
    def has_ended(self) -> bool:
        """Whether the process is gone."""
        return self.popen.poll() is not None

    def gateway(self) -> dict[str, str] | None:
        """Wait for the variables by which PySpark connects; None: it has ended, and `output.reason` tells why."""
        while not self._address.is_file():
            if self.has_ended:
                return None
            time.sleep(_POLL_SECONDS)
        with self._address.open("rb") as file:  # Spark renames the complete file
            port, length = (int.from_bytes(file.read(_LENGTH_BYTES)) for _ in range(2))
            return {"PYSPARK_GATEWAY_PORT": str(port), "PYSPARK_GATEWAY_SECRET": file.read(length).decode()}

    def close(self) -> None:
        """Let it end, by force if it takes too long, and leave nothing of it behind. May be called twice."""
        self._hang_up()
        try:
            self.popen.wait(archive.stop_seconds())
        except subprocess.TimeoutExpired:
            self._kill()
        self._remove()

    def abandon(self) -> None:
        """End it at once, also while it starts, and leave nothing of it behind. May be called twice."""
        self._hang_up()
        self._kill()
        self._remove()

    def _hang_up(self) -> None:
        assert self.popen.stdin is not None
        with contextlib.suppress(OSError):
            self.popen.stdin.close()

    def _remove(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
        _running.discard(self)

    def _kill(self) -> None:
        """Kill it and what it has started."""
        if self.popen.returncode is None:  # else its number may be another process's by now
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.popen.pid, signal.SIGKILL)
            self.popen.wait()


def start_early(master: str | None, conf: Mapping[str, str], needs_s3: bool) -> JvmProcess | None:
    """Start a JVM before Spark's Python is imported; None if that is imported already.

    A JVM that cannot be started is left to `session.start`, which tells why.

    Args:
        master: Spark's master URL; None: `local[*]`.
        conf: Spark's settings.
        needs_s3: Whether a table or a catalog lives on S3.
    """
    if "pyspark" not in sys.modules:
        with contextlib.suppress(EngineError, OSError):
            return JvmProcess(JvmPlan.of(master, conf, needs_s3))
    return None


def abandon_all() -> None:
    """End all JVMs of this process at once."""
    for process in list(_running):
        process.abandon()

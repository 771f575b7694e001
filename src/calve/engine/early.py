"""Starts what a local run needs as soon as the configuration is read, before Spark's Python is imported.

PySpark starts a JVM by itself, and waits for the file in which that writes its address. Here the JVM gets a file of its
own, which is put into PySpark's place when both are there.
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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from calve.engine.forks import Forks, cores_and_tries, master_of
from calve.engine.forks import start as start_forks
from calve.engine.jvm_plan import JvmPlan
from calve.engine.output import JvmOutput
from calve.errors import EngineError

__all__ = ["ADDRESS", "Early", "EarlyJvm", "start", "start_jvm"]

ADDRESS = "_PYSPARK_DRIVER_CONN_INFO_PATH"
"""The variable with the file into which PySpark's JVM writes its port and its secret."""
_LOOK_SECONDS = 0.005


@dataclass(frozen=True)
class Early:
    """What is started.

    Attributes:
        forks: The process that forks workers.
        jvm: The JVM; None where it cannot be started yet, or nothing is gained.
    """

    forks: Forks
    jvm: EarlyJvm | None

    def close(self) -> None:
        """End the workers, and a JVM that nobody is connected to. May be called twice."""
        self.forks.close()
        if self.jvm is not None:
            self.jvm.close()


def start(master: str | None, conf: Mapping[str, str], needs_s3: bool, preload: Sequence[str]) -> Early | None:
    """Start what does not need Spark's Python; None if the master is a cluster.

    A JVM that cannot be started is left to `session.start`, which tells why.

    Args:
        master: Spark's master URL; None: `local[*]`.
        conf: Spark's settings.
        needs_s3: Whether a table or a catalog lives on S3.
        preload: Modules that workers import.
    """
    jvm = None
    if "pyspark" not in sys.modules and any(cores_and_tries(master_of(master, conf))):
        with contextlib.suppress(EngineError, OSError):
            jvm = start_jvm(JvmPlan.of(master, conf, needs_s3))
    forks = start_forks(master, conf, preload, from_here="pyspark" not in sys.modules)
    return Early(forks, jvm) if forks else None


def start_jvm(plan: JvmPlan) -> EarlyJvm | None:
    """Start a JVM for a local master; None: this takes Spark's launcher."""
    command = plan.command
    return EarlyJvm(plan, command) if command else None


class EarlyJvm:
    """A JVM that starts, which nobody is connected to.

    Args:
        plan: How it is started.
        command: Its command.

    Attributes:
        output: Gets what it prints.
        process: The process, in a session of its own: Ctrl-C is for the driver.
    """

    def __init__(self, plan: JvmPlan, command: list[str]) -> None:
        self.plan = plan
        self.output = JvmOutput()
        self._folder = Path(tempfile.mkdtemp(prefix="calve-jvm-"))
        self._address = self._folder / "address"
        variables = {**os.environ, **plan.environment, **plan.of_workers}
        variables |= {ADDRESS: str(self._address), "SPARK_CONNECT_MODE": "0"}
        try:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,  # the JVM ends when this closes
                stdout=self.output.pipe,
                stderr=self.output.pipe,
                start_new_session=True,
                env={name: value for name, value in variables.items() if value is not None},
            )
        except BaseException:  # a signal, too
            self._folder.rmdir()
            raise

    def hand_over(self, address: Path) -> None:
        """Wait for its address, and move that to a file on the same device; return at once if the JVM has ended."""
        while self.process.poll() is None and not self._address.is_file():
            time.sleep(_LOOK_SECONDS)
        with contextlib.suppress(FileNotFoundError):
            self._address.replace(address)
            self._folder.rmdir()

    def close(self) -> None:
        """End it unless it was handed over, and leave nothing behind. May be called twice."""
        if not self._folder.is_dir():
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.communicate()
        shutil.rmtree(self._folder, ignore_errors=True)

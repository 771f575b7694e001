"""Starts the JVM of a local run as soon as the configuration is read, before Spark's Python is imported.

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
from collections.abc import Mapping
from pathlib import Path

from calve.engine.forks import cores_and_tries, master_of
from calve.engine.jvm_plan import JvmPlan
from calve.engine.output import JvmOutput
from calve.errors import EngineError

__all__ = ["ADDRESS", "EarlyJvm", "start"]

ADDRESS = "_PYSPARK_DRIVER_CONN_INFO_PATH"
"""The variable with the file into which PySpark's JVM writes its port and its secret."""
_LOOK_SECONDS = 0.005


def start(master: str | None, conf: Mapping[str, str], needs_s3: bool) -> EarlyJvm | None:
    """Start the JVM; None where this is not possible, or gains nothing: `session.start` does it, or tells why not.

    Args:
        master: Spark's master URL; None: `local[*]`.
        conf: Spark's settings.
        needs_s3: Whether a table or a catalog lives on S3.
    """
    if "pyspark" in sys.modules or not any(cores_and_tries(master_of(master, conf))):
        return None
    with contextlib.suppress(EngineError, OSError):
        plan = JvmPlan.of(master, conf, needs_s3)
        command = plan.command
        return EarlyJvm(plan, command) if command else None
    return None


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
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,  # the JVM ends when this closes
            stdout=self.output.pipe,
            stderr=self.output.pipe,
            start_new_session=True,
            env={name: value for name, value in variables.items() if value is not None},
        )

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

"""A real standalone Spark cluster on loopback: a master and workers, each a process with a folder of its own."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from subprocess import Popen

import pyspark

from calve.engine.jvm import jdk
from services import process

HEAP = "-Xmx256m"
CORES = 2
MEMORY = "4g"
_SPARK = {"SPARK_HOME": str(Path(pyspark.__file__).parent), "SPARK_SCALA_VERSION": "2.13"}
"""What a worker needs to start executors from the jars of the Python package."""
_OLD_SECONDS = 60.0
"""Before that, a folder may be of an executor that starts."""


class SparkCluster:
    """A master and some workers; the workers' executors inherit their environment.

    Args:
        folder: Where each process has its folder.
        workers: How many workers there are.
        environment: Variables of the workers.
    """

    def __init__(self, folder: Path, workers: int, environment: Mapping[str, str]) -> None:
        self._folder = folder
        self._port, *self._ports = process.free_ports(1 + workers)
        self._environment = dict(environment) | _SPARK
        self._master: Popen[bytes] | None = None
        self._workers: list[Popen[bytes]] = []

    @property
    def master(self) -> str:
        """What `--master` takes."""
        return f"spark://127.0.0.1:{self._port}"

    def start(self) -> SparkCluster:
        """Start all processes, and wait until they listen."""
        log = self._folder / "master" / "log"
        self._master = self._start("master.Master", self._port, log, "--host", "127.0.0.1")
        process.wait_for_port(self._master, self._port, log)
        self._workers = [self._worker(number) for number in range(len(self._ports))]
        return self

    def kill_worker(self, number: int) -> None:
        """Kill a worker (-9), and start it again; its executors end when they miss it."""
        process.stop(self._workers[number], kill=True)
        self._workers[number] = self._worker(number)

    def executors(self) -> list[int]:
        """Return the process ids of the executors of this cluster."""
        return [int(one.name) for one in Path("/proc").glob("[0-9]*") if self._is_executor(one)]

    def clean(self) -> None:
        """Remove what killed executors have left: each has unpacked the bundle, which is half a gigabyte."""
        used = b"".join(map(_places, self.executors()))
        for pattern in ("worker-*/work/app-*/[0-9]*", "worker-*/local/spark-*/executor-*"):
            for folder in self._folder.absolute().glob(pattern):
                if str(folder).encode() not in used and time.time() > folder.stat().st_mtime + _OLD_SECONDS:
                    shutil.rmtree(folder, ignore_errors=True)

    def close(self) -> None:
        """End all processes."""
        for one in (*self._workers, *filter(None, (self._master,))):
            process.stop(one)
        for pid in self.executors():
            os.kill(pid, signal.SIGKILL)

    def __enter__(self) -> SparkCluster:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    def _worker(self, number: int) -> Popen[bytes]:
        folder, port = self._folder / f"worker-{number}", self._ports[number]
        host = f"127.0.0.{number + 1}" if sys.platform == "linux" else "127.0.0.1"  # Spark takes them for machines
        given = ["--host", host, "-d", str(folder / "work"), "-c", str(CORES), "-m", MEMORY, self.master]
        worker = self._start("worker.Worker", port, folder / "log", *given)
        process.wait_for_port(worker, port, folder / "log", host=host)
        return worker

    def _start(self, name: str, port: int, log: Path, *given: str) -> Popen[bytes]:
        jars = Path(pyspark.__file__).parent / "jars"
        command = [str(jdk.find().executable), HEAP, "-cp", f"{jars}/*", f"org.apache.spark.deploy.{name}"]
        where = ["--port", str(port), "--webui-port", "0"]
        own = {"SPARK_LOCAL_DIRS": str(log.parent / "local"), "SPARK_LOCAL_IP": "127.0.0.1"}
        own["JAVA_HOME"] = str(jdk.find().home)
        return process.start([*command, *where, *given], log, self._environment | own)

    def _is_executor(self, process: Path) -> bool:
        try:
            folder, command = (process / "cwd").readlink(), (process / "cmdline").read_bytes()
        except OSError:  # it has ended
            return False
        return folder.is_relative_to(self._folder.absolute()) and b"CoarseGrainedExecutorBackend" in command


def _places(executor: int) -> bytes:
    """Return a text with the folders of an executor."""
    process = Path("/proc", str(executor))
    try:
        return bytes((process / "cwd").readlink()) + b"\0" + (process / "environ").read_bytes()
    except OSError:  # it has ended
        return b""

"""Runs the command `calve` as a user does, in a folder of its own, and reads the tables it made without it."""

from __future__ import annotations

import contextlib
import ctypes
import json
import logging
import os
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pyarrow as pa
from click.testing import CliRunner, Result
from pyiceberg.catalog.sql import SqlCatalog
from pyspark.sql import SparkSession

from calve import api, stop_point
from calve.catalog.catalog import Catalog, embedded
from calve.cli.main import calve
from calve.engine import session
from calve.errors import RunError

PATIENCE_SECONDS = 300
TINY = {
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.adaptive.enabled": "false",  # it costs a job for each stage
    "spark.sql.codegen.wholeStage": "false",  # compiling a query takes longer than it does to run
}
"""For tables of a few rows."""
SERIAL = "-XX:-UseParallelGC -XX:+UseSerialGC"
"""For the JVM of few objects: several of them share two cores."""
_CONF = {**TINY, "spark.driver.extraJavaOptions": f"-XX:TieredStopAtLevel=1 {SERIAL}"}
LITTLE = tuple(word for setting in _CONF.items() for word in ("--conf", "=".join(setting)))
"""For a process with such tables: where it reads them, it else spends most of its time on compiling for large ones."""


class Calve:
    """One folder with a configuration, its tables in the embedded catalog, and its state.

    Args:
        spark: A session that `once` and `call` share; without one each starts a process with its own.
    """

    def __init__(self, folder: Path, yaml: str, spark: SparkSession | None = None) -> None:
        self.folder = folder
        self._spark = spark
        self.folder.mkdir(parents=True, exist_ok=True)
        self.log = folder / "calve.log"
        self.configure(yaml)
        self.process: subprocess.Popen[bytes] | None = None

    def configure(self, yaml: str) -> None:
        (self.folder / "pipelines.yaml").write_text(yaml)

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "calve", *arguments]

    def start(self, *more: str, environment: dict[str, str] | None = None) -> subprocess.Popen[bytes]:
        command = self.command("run", "pipelines.yaml", "--metrics-port", "0", "--master", "local[2]", *LITTLE, *more)
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                command,
                cwd=self.folder,
                stdout=log,
                stderr=log,
                start_new_session=True,
                env={**os.environ, "PYTHONFAULTHANDLER": "1", **(environment or {})},
            )
        return self.process

    def once(self, **environment: str) -> int:
        """Work off all that is there; give the exit code. What is to be killed, by `environment`, is a process."""
        if environment or self._spark is None:
            return self.start("--once", environment=environment).wait(PATIENCE_SECONDS * 3)
        ran = self.call("run", "pipelines.yaml", "--once", "--metrics-port", "0")
        with self.log.open("a") as log:
            log.write(ran.output)
        return ran.exit_code

    def killed_at(self, point: str, *arguments: str) -> None:
        """Run a command on the shared session, and leave the folder as `kill -9` at a point of the driver would.

        It is for what changes nothing but this folder: the command goes on behind the point, and the folder is put back.

        Args:
            point: As in `calve.stop_point`, but none of a task.
            *arguments: The command; none: what `once` runs.
        """
        name, _, times = point.partition(":")
        kept = self.folder.with_name(f"{self.folder.name}.killed")
        copy = shlex.join(["cp", "-a", str(self.folder), str(kept)]).encode()
        system = ctypes.PyDLL(None).system  # it keeps the lock of Python: meanwhile no other thread writes
        instead = SimpleNamespace(getpid=os.getpid, kill=lambda *_: system(copy))
        with (
            mock.patch.object(stop_point, "_point", name),
            mock.patch.object(stop_point, "_times_left", int(times or 1)),
            mock.patch.object(stop_point, "os", instead),
        ):
            self.call(*arguments) if arguments else self.once()
        said = self.said()
        assert kept.exists(), f"{point} was never reached: {said[-1500:]}"
        for path in self.folder.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        for path in kept.iterdir():
            path.rename(self.folder / path.name)
        kept.rmdir()
        self.log.write_text(said)

    def call(self, *arguments: str) -> Result:
        """Run a command in this process, on the shared session, as it would run in one of its own."""
        assert self._spark
        kept = mock.patch.object(session, "stop")
        with self._each_batch_is_a_job(), contextlib.chdir(self.folder), _logging_kept(), kept:
            return CliRunner().invoke(calve, arguments, prog_name="calve")

    @contextlib.contextmanager
    def running(self, fails: bool = False) -> Iterator[None]:
        """Run the pipelines on the shared session beside the test, until the end of the block; then drain and commit.

        It is for what is not about the process: a start of one costs 4 seconds of CPU.

        Args:
            fails: Whether one of the pipelines must fail.
        """
        assert self._spark
        with contextlib.ExitStack() as undone:
            undone.enter_context(self._each_batch_is_a_job())
            undone.enter_context(contextlib.chdir(self.folder))
            undone.enter_context(_logging_kept())
            undone.enter_context(mock.patch.object(session, "stop"))
            log = undone.enter_context(contextlib.closing(logging.FileHandler(self.log)))
            logger = logging.getLogger("calve")
            logger.addHandler(log)
            logger.setLevel("INFO")
            thread = undone.enter_context(ThreadPoolExecutor(1))
            stop = threading.Event()
            undone.callback(stop.set)
            ended = thread.submit(api.run, Path("pipelines.yaml"), stop=stop)
            try:
                yield
            finally:
                stop.set()
                ended.exception(PATIENCE_SECONDS)
        if fails:
            assert isinstance(ended.exception(), RunError)
        else:
            ended.result()

    @contextlib.contextmanager
    def _each_batch_is_a_job(self) -> Iterator[None]:
        """Check that Spark had a job in a pipeline's group for each batch of a state that is new: others may be staged."""
        is_new, context = not (self.folder / "calve-state").exists(), session.start().context
        first_job = context._jsc.sc().dagScheduler().numTotalJobs()
        yield
        for pipeline, batches in self._batches().items() if is_new else ():
            jobs = context.statusTracker().getJobIdsForGroup(pipeline)
            assert sum(job >= first_job for job in jobs) >= batches, pipeline

    def _batches(self) -> dict[str, int]:
        """How many batches each pipeline has written since its first start."""
        found = (json.loads(path.read_text()) for path in self.folder.glob("calve-state/*/status.json"))
        return {status["pipeline"]: status["batches"] for status in found}

    def kill(self) -> None:
        """`kill -9` of the whole process group."""
        assert self.process
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def stop(self) -> int:
        """SIGTERM: drain, commit, end; give the exit code."""
        assert self.process
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(PATIENCE_SECONDS)

    def end(self) -> None:
        """Leave nothing running, whatever a test did."""
        if self.process and self.process.poll() is None:
            self.kill()

    def status(self, pipeline: str) -> dict[str, Any]:
        path = self.folder / "calve-state" / pipeline / "status.json"
        return json.loads(path.read_text()) if path.exists() else {}

    def said(self) -> str:
        return self.log.read_text() if self.log.exists() else ""

    def until(self, condition: Callable[[], Any], what: str) -> Any:
        """Wait for a condition while calve runs; a failure shows the end of its output, its stacks and its status."""

        def holds() -> Any:
            found = condition()
            assert found or (self.process and self.process.poll() is None), f"calve ended before: {what}"
            return found

        try:
            return until(holds, what)
        except AssertionError as error:
            said = self.said()[-4000:] + self._stacks()
            states = [path.read_text() for path in sorted(self.folder.glob("calve-state/*/status.json"))]
            raise AssertionError("\n".join([str(error), said, *states])) from error

    def _stacks(self) -> str:
        """End a process that hangs, and return what each of its threads was doing."""
        if not self.process or self.process.poll() is not None:
            return ""
        before = len(self.said())
        self.process.send_signal(signal.SIGABRT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(PATIENCE_SECONDS)
        return self.said()[before:]

    def catalog(self) -> SqlCatalog:
        place = self.folder / "lakehouse"
        return SqlCatalog("lakehouse", uri=f"sqlite:///{place}/catalog.db", warehouse=str(place))

    def tables(self, namespace: str) -> list[str]:
        return [".".join(name) for name in self.catalog().list_tables(namespace)]

    def rows(self, table: str) -> pa.Table:
        return self.catalog().load_table(table).scan().to_arrow()

    def shared_spark(self) -> SparkSession:
        """The shared session, with the embedded catalog as `lakehouse` for Spark's SQL."""
        assert self._spark
        fresh = self._spark.newSession()
        for key, value in embedded(self.folder / "lakehouse").items():
            fresh.conf.set(f"spark.sql.catalog.lakehouse.{key}", value)
        fresh.conf.set("spark.sql.catalog.lakehouse", "org.apache.iceberg.spark.SparkCatalog")
        return fresh

    def java_table(self, table: str) -> Any:
        """Iceberg's own object for a table of the embedded catalog."""
        assert self._spark
        return Catalog(session.start(), embedded(self.folder / "lakehouse")).load_java(table)

    def dead_letters(self, pipeline: str) -> list[dict[str, Any]]:
        """Return an entry for each rejected event."""
        folder = self.folder / "calve-state" / pipeline / "dlq"
        lines = [line for path in sorted(folder.glob("[!_.]*.ndjson")) for line in path.read_bytes().splitlines()]
        return [entry for line in lines for entry in each_event(line)]


def each_event(line: bytes) -> list[dict[str, Any]]:
    """Return the entry of a dead letter, as often as its event was rejected."""
    entry = json.loads(line)
    return [entry] * entry.pop("count", 1)


@contextlib.contextmanager
def _logging_kept() -> Iterator[None]:
    """Undo what a command sets for its process."""
    loggers = [logging.getLogger(name) for name in (None, *logging.root.manager.loggerDict)]
    before = [(logger, logger.handlers[:], logger.propagate, logger.level) for logger in loggers]
    try:
        yield
    finally:
        for logger, handlers, propagate, level in before:
            logger.handlers[:], logger.propagate = handlers, propagate
            logger.setLevel(level)


def until(
    condition: Callable[[], Any], what: str, seconds: float = PATIENCE_SECONDS, every_seconds: float = 0.05
) -> Any:
    """Wait for a condition, with a bound; what is waited for gets most of the processor, however long a look takes."""
    deadline = time.monotonic() + seconds
    while True:
        looked = time.monotonic()
        if found := condition():
            return found
        if time.monotonic() > deadline:
            raise AssertionError(f"did not happen in {seconds} s: {what}")
        time.sleep(max(every_seconds, 4 * (time.monotonic() - looked)))


def post(port: int, events: Any, key: str = "", timeout: float = 10, path: str = "/log/ingest") -> int:
    """Send one request; give the status, 0 when there was no answer."""
    body = json.dumps(events).encode()
    headers = {"Content-Type": "application/json", **({"Idempotency-Key": key} if key else {})}
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", body, headers)
    try:
        with urllib.request.urlopen(request, timeout=timeout) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code
    except (urllib.error.URLError, OSError):
        return 0

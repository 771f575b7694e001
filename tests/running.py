"""Runs the command `calve` as a user does, in a folder of its own, and reads the tables it made without it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog

PATIENCE_SECONDS = 120
_IN_SPARK = """
from pathlib import Path
from calve.commit.catalog import Catalog, embedded
from calve.engine import session

properties = embedded(Path("lakehouse"))
prefix = "spark.sql.catalog." + properties["name"]
conf = {prefix + "." + key: value for key, value in properties.items() if key != "name"}
spark = session.start("local[1]", {prefix: "org.apache.iceberg.spark.SparkCatalog", **conf})
try:
    catalog = Catalog(spark, properties)
%s
finally:
    session.stop(spark)
"""


class Calve:
    """One folder with a configuration, its tables in the embedded catalog, and its state."""

    def __init__(self, folder: Path, yaml: str) -> None:
        self.folder = folder
        self.folder.mkdir(parents=True, exist_ok=True)
        self.log = folder / "calve.log"
        self.configure(yaml)
        self.process: subprocess.Popen[bytes] | None = None

    def configure(self, yaml: str) -> None:
        (self.folder / "pipelines.yaml").write_text(yaml)

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "calve", *arguments]

    def start(self, *more: str, environment: dict[str, str] | None = None) -> subprocess.Popen[bytes]:
        command = self.command("run", "pipelines.yaml", "--metrics-port", "0", "--master", "local[2]", *more)
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                command,
                cwd=self.folder,
                stdout=log,
                stderr=log,
                start_new_session=True,
                env={**os.environ, **(environment or {})},
            )
        return self.process

    def once(self, **environment: str) -> int:
        """Work off all that is there; give the exit code."""
        return self.start("--once", environment=environment).wait(PATIENCE_SECONDS * 3)

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
        """Wait for a condition while calve runs; a failure shows the end of its output and its status."""

        def holds() -> Any:
            found = condition()
            assert found or (self.process and self.process.poll() is None), f"calve ended before: {what}"
            return found

        try:
            return until(holds, what)
        except AssertionError as error:
            states = [path.read_text() for path in sorted(self.folder.glob("calve-state/*/status.json"))]
            raise AssertionError("\n".join([str(error), self.said()[-4000:], *states])) from error

    def catalog(self) -> SqlCatalog:
        place = self.folder / "lakehouse"
        return SqlCatalog("lakehouse", uri=f"sqlite:///{place}/catalog.db", warehouse=str(place))

    def tables(self, namespace: str) -> list[str]:
        return [".".join(name) for name in self.catalog().list_tables(namespace)]

    def rows(self, table: str) -> pa.Table:
        return self.catalog().load_table(table).scan().to_arrow()

    def in_spark(self, code: str) -> str:
        """Run Python in a process of its own, with `spark` on the embedded catalog and `catalog`; give what it prints."""
        done = subprocess.run(
            [sys.executable, "-c", _IN_SPARK % textwrap.indent(code, "    ")],
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def dead_letters(self, pipeline: str) -> list[dict[str, Any]]:
        folder = self.folder / "calve-state" / pipeline / "dlq"
        lines = [line for path in sorted(folder.glob("[!_.]*.ndjson")) for line in path.read_text().splitlines()]
        return [json.loads(line) for line in lines]


def until(condition: Callable[[], Any], what: str, seconds: float = PATIENCE_SECONDS) -> Any:
    """Wait for a condition, with a bound."""
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"did not happen in {seconds} s: {what}")
        time.sleep(0.05)
    return found


def post(port: int, events: list[Any], key: str = "", timeout: float = 10) -> int:
    """Send one request; give the status, 0 when there was no answer."""
    body = json.dumps(events).encode()
    headers = {"Content-Type": "application/json", **({"Idempotency-Key": key} if key else {})}
    request = urllib.request.Request(f"http://127.0.0.1:{port}/log/ingest", body, headers)
    try:
        with urllib.request.urlopen(request, timeout=timeout) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code
    except (urllib.error.URLError, OSError):
        return 0

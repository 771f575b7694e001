"""Debezium's embedded engine as a peer: it reads a database's rows and changes as JSON, and its consumer counts them.

It has less to do than Calve: what its consumer gets is thrown away, no table is written. Its settings are those of
its documentation, with larger batches and without schemas in the JSON, which would take three times as long.
"""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from subprocess import Popen

from bench.measure import Figures, measured
from bench.peers import WAIT_SECONDS, started
from calve.engine.jvm import jdk
from services import jars

VERSION = "3.6.1.Final"
COORDINATES = (
    *(
        f"io.debezium:debezium-{name}:{VERSION}"
        for name in ("api", "embedded", "connector-postgres", "connector-mysql")
    ),
    "org.slf4j:slf4j-simple:2.0.18",
)
PROGRAM = Path(__file__).with_name("DebeziumCount.java")
SHARED = {
    "name": "bench",
    "topic.prefix": "bench",
    "snapshot.mode": "initial",
    "offset.storage": "org.apache.kafka.connect.storage.FileOffsetBackingStore",
    "key.converter.schemas.enable": "false",
    "value.converter.schemas.enable": "false",
    "tombstones.on.delete": "false",
    "max.batch.size": "8192",
    "max.queue.size": "32768",
    "poll.interval.ms": "50",
}


class Debezium:
    """One engine with its offsets in a folder; each run goes on where the one before ended.

    Args:
        folder: Where its files go.
        connector: The properties of its connector.
    """

    def __init__(self, folder: Path, connector: Mapping[str, str]) -> None:
        folder.mkdir(parents=True)
        self._folder = folder
        self._properties = folder / "engine.properties"
        files = {"offset.storage.file.filename": f"{folder}/offsets"}
        if "mysql" in connector["connector.class"]:
            files |= {
                "schema.history.internal": "io.debezium.storage.file.history.FileSchemaHistory",
                "schema.history.internal.file.filename": f"{folder}/history",
            }
        lines = (f"{name}={value}\n" for name, value in {**SHARED, **files, **connector}.items())
        self._properties.write_text("".join(lines))
        self._command = _compiled(folder)
        self._runs = 0

    def run(self, expected: Sequence[int]) -> Figures:
        """Start the engine; measure until its consumer has what is expected.

        Args:
            expected: How many loaded rows, and how many inserts, updates and deletes.
        """
        self._runs += 1
        log, count = self._folder / f"{self._runs}.log", sum(expected)
        command = [*self._command, str(self._properties), str(count)]
        with started(command, log) as running:
            with measured(count) as found:
                reached = _until_reached(running, log)
            running.wait(WAIT_SECONDS)
        if reached != list(expected):
            end = log.read_text(errors="replace")[-2000:]
            raise SystemExit(f"Debezium got {reached} records instead of {list(expected)}:\n{end}")
        return found


def _until_reached(running: Popen[bytes], log: Path) -> list[int]:
    """Wait until the consumer has all records; return how many of each kind."""
    deadline = time.monotonic() + WAIT_SECONDS
    while not (reached := re.search(r"^reached (.*)\n", log.read_text(errors="replace"), re.M)):
        if running.poll() is not None or time.monotonic() > deadline:
            raise SystemExit(f"Debezium did not get all records:\n{log.read_text(errors='replace')[-3000:]}")
        time.sleep(0.05)
    return [int(each) for each in reached[1].split()]


def _compiled(folder: Path) -> list[str]:
    """Compile the program into a folder; return the command that runs it."""
    executable = str(jdk.find().executable)
    path = os.pathsep.join(map(str, jars.resolve(f"debezium-{VERSION}", *COORDINATES).glob("*.jar")))
    command = [executable, "-m", "jdk.compiler/com.sun.tools.javac.Main", "-d", str(folder), "-cp", path, str(PROGRAM)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{PROGRAM.name} cannot be compiled; it needs a JDK:\n{done.stdout}{done.stderr}")
    quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"
    return [executable, "-Xmx2g", quiet, "-cp", f"{folder}:{path}", PROGRAM.stem]

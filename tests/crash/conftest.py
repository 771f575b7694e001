from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from calve.stop_point import VARIABLE
from kit.running import LITTLE, Calve


class Doomed(Calve):
    """A folder whose processes are killed at named points."""

    def feed(self, number: int, events: Iterable[Any], *broken: str) -> None:
        """Put a file of events and of broken lines into `in/`, whole."""
        folder = self.folder / "in"
        folder.mkdir(exist_ok=True)
        unfinished = folder / f".{number}"
        unfinished.write_text("".join(f"{line}\n" for line in [*map(json.dumps, events), *broken]))
        unfinished.rename(folder / f"{number:03}.ndjson")

    def dies_at(self, point: str) -> None:
        """Run until the point is reached. A task that dies there ends the run before its events are suspected."""
        patience = "1ms" if point.startswith("task.") else "2s"
        self.start("--once", "--give-up-after", patience, environment={VARIABLE: point})
        self.has_died_at(point)

    def has_died_at(self, point: str) -> None:
        """Wait until the process has reached the point where it dies."""
        assert self.process
        try:
            code = self.process.wait(240)
        except subprocess.TimeoutExpired as error:
            raise AssertionError(f"{point}: {self.said()[-4000:]}{self._stacks()}") from error
        assert code != 0, f"{point} was never reached: {self.said()[-1500:]}"

    def replay_dies_at(self, point: str) -> None:
        """Send dead letters again until the point is reached."""
        command = self.command(
            "dlq", "replay", "pipelines.yaml", "--master", "local[2]", *LITTLE, "--give-up-after", "2s"
        )
        environment = {**os.environ, VARIABLE: point}
        done = subprocess.run(command, cwd=self.folder, capture_output=True, timeout=240, env=environment, check=False)
        assert done.returncode != 0, f"{point} was never reached"


@pytest.fixture
def doomed(spark: SparkSession, tmp_path: Path) -> Iterator[Callable[[str], Doomed]]:
    """Make a folder with a configuration; what runs in it ends with the test."""
    made: list[Doomed] = []

    def make(yaml: str) -> Doomed:
        made.append(Doomed(tmp_path, yaml, spark))
        return made[-1]

    yield make
    for each in made:
        each.end()

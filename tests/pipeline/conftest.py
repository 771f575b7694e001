from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from running import Calve


@pytest.fixture
def calve(spark: SparkSession, tmp_path: Path) -> Iterator[Callable[..., Calve]]:
    """Make a folder with a configuration, on the shared session; what runs in it ends with the test."""
    made: list[Calve] = []

    def make(yaml: str, name: str = "calve") -> Calve:
        made.append(Calve(tmp_path / name, yaml, spark))
        return made[-1]

    yield make
    for each in made:
        each.end()

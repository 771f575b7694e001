"""Java that is compiled in Spark's JVM, from the files beside the modules that use it."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import calve
from calve.engine.compiled import java_class

SOURCE = Path(calve.__file__).parent
FILES = sorted(SOURCE.rglob("*.java"))


@pytest.mark.spark
@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_every_java_file_compiles_and_has_the_class_of_its_name(spark: SparkSession, file: Path) -> None:
    module = ".".join(("calve", *file.relative_to(SOURCE).parent.parts, "module"))
    first, second = (java_class(spark.sparkContext._jvm, module, file.stem) for _ in range(2))
    assert first.getSimpleName() == file.stem
    assert first.getName() != second.getName(), "py4j remembers methods by the class's name"

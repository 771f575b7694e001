"""Java that is compiled in Spark's JVM, from the files beside the modules that use it."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import pytest
from pyspark.sql import SparkSession

import calve
from calve.engine.java import compiled

SOURCE = Path(calve.__file__).parent
FILES = sorted(SOURCE.rglob("*.java"))


@pytest.mark.spark
@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_every_java_file_is_compiled_once_and_comes_from_the_cache_from_then_on(
    spark: SparkSession, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CALVE_CACHE", str(tmp_path))
    module = ".".join(("calve", *file.relative_to(SOURCE).parent.parts, "module"))

    def load() -> Any:
        monkeypatch.setattr(compiled, "_loaded", WeakKeyDictionary())  # as another process would
        found, again = (compiled.java_class(spark.sparkContext._jvm, module, file.stem) for _ in range(2))
        assert found is again, "py4j remembers methods by the class's name"
        assert found.getSimpleName() == file.stem
        return found

    first = load()
    [kept] = (tmp_path / "java").iterdir()
    content, number = kept.read_bytes(), kept.stat().st_ino
    second = load()
    assert kept.stat().st_ino == number, "it was not compiled again"
    kept.write_bytes(content[:-30])
    third = load()
    assert zipfile.is_zipfile(kept), "a damaged file is replaced"
    assert first.getName() == second.getName() == third.getName()

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest
from py4j.java_gateway import JavaPackage

from calve.engine import adopt
from calve.engine.jvm import spark_package
from calve.errors import EngineError


def jvm(build: object) -> object:
    iceberg = SimpleNamespace(IcebergBuild=build)
    return SimpleNamespace(org=SimpleNamespace(apache=SimpleNamespace(iceberg=iceberg)))


@pytest.mark.parametrize(
    ("spark", "build", "said"),
    [
        ("3.5.1", None, r"The session runs Spark 3\.5\.1"),
        (spark_package.version(), JavaPackage("org.apache.iceberg.IcebergBuild", None), "has no Iceberg"),
        (spark_package.version(), SimpleNamespace(version=lambda: "1.9.0"), r"has Iceberg 1\.9\.0"),
    ],
)
def test_a_session_that_calve_cannot_use_is_refused_with_what_to_set(spark: str, build: object, said: str) -> None:
    with pytest.raises(EngineError, match=said) as error:
        adopt._check_versions(spark, jvm(build))
    assert "Calve needs" in error.value.hint or "spark.jars.packages=org.apache.iceberg" in error.value.hint


def test_a_session_of_spark_connect_is_refused() -> None:
    with pytest.raises(EngineError, match="Spark Connect"):
        adopt.adopt(SimpleNamespace())


@pytest.mark.parametrize(
    ("master", "settings", "environment", "runs"),
    [
        ("spark://host:7077", {"spark.pyspark.python": "./calve/bin/python"}, {}, "./calve/bin/python"),
        ("spark://host:7077", {"spark.pyspark.python": "ignored"}, {"PYSPARK_PYTHON": "chosen"}, "as it was"),
        ("spark://host:7077", {}, {}, "as it was"),
        ("local[2]", {}, {}, sys.executable),
        ("local[2]", {"spark.pyspark.python": "chosen"}, {}, "chosen"),
    ],
)
def test_workers_run_the_python_that_the_session_names(
    master: str, settings: dict[str, str], environment: dict[str, str], runs: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    for name, text in environment.items():
        monkeypatch.setenv(name, text)
    context = SimpleNamespace(master=master, getConf=lambda: settings, pythonExec="as it was")
    adopt._use_this_python(context)
    assert context.pythonExec == runs

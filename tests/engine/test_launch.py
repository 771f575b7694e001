"""The JVM of a local run is started without Spark's launcher where that would add nothing that is not known."""

from __future__ import annotations

from pathlib import Path

import pytest

from calve.engine.java import Java
from calve.engine.launch import command, keep

JAVA = Java(Path("/jdk/bin/java"), 17, Path("/wrapped"))
SETTINGS = {
    "spark.driver.extraClassPath": "iceberg.jar:sqlite.jar",
    "spark.driver.extraJavaOptions": "-Dlog=off -XX:SharedArchiveFile=a.jsa",
    "spark.driver.memory": "2g",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.session.timeZone": "UTC",
}
PATH = "iceberg.jar:sqlite.jar:spark/jars/core.jar"
OPTIONS = ["-Xmx1g", "-Dlog=off", "--add-opens=java.base/java.nio=ALL-UNNAMED", "--add-modules=jdk.incubator.vector"]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    keep(tmp_path / "kept", PATH, OPTIONS, "-Dlog=off -XX:ArchiveClassesAtExit=x")
    return tmp_path / "kept"


def test_the_command_has_the_options_of_the_launcher_and_the_settings(file: Path) -> None:
    expected = ["/jdk/bin/java", "-cp", PATH, "-Xmx2g", "--add-opens=java.base/java.nio=ALL-UNNAMED", "-Dlog=off"]
    expected += ["-XX:SharedArchiveFile=a.jsa", "org.apache.spark.api.python.PythonGatewayServer"]
    assert command(JAVA, file, SETTINGS, "") == expected
    expected[2] = f"{PATH}:aws.jar"
    assert command(JAVA, file, SETTINGS, "aws.jar") == expected


@pytest.mark.parametrize(
    "more",
    [
        {"spark.jars": "mine.jar"},
        {"spark.jars.packages": "a:b:1"},
        {"spark.driver.extraClassPath": "mine.jar"},
        {"spark.driver.extraLibraryPath": "/native"},
        {"spark.submit.pyFiles": "a.py"},
    ],
)
def test_what_only_the_launcher_knows_is_left_to_it(file: Path, more: dict[str, str]) -> None:
    assert command(JAVA, file, SETTINGS | more, "") is None


def test_without_what_was_kept_the_launcher_is_needed(tmp_path: Path) -> None:
    assert command(JAVA, tmp_path / "none", SETTINGS, "") is None
    (tmp_path / "damaged").write_text("{")
    assert command(JAVA, tmp_path / "damaged", SETTINGS, "") is None

"""The class-data archive is used when it is there and fits, and nothing depends on it."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pyspark
import pytest

from calve.engine.jvm import archive, jars, jdk
from calve.engine.jvm.jdk import Java
from calve.pipeline.plugins import PLUGINS
from calve.pipeline.spark_needs import needs_s3
from calve.settings import parse

JAVA = Java(Path("/jdk/bin/java"), 17, Path("/home"))
SETTINGS = {
    "spark.driver.extraClassPath": "iceberg.jar:sqlite.jar",
    "spark.driver.extraJavaOptions": "-Dlog=off -XX:SharedArchiveFile=a.jsa",
    "spark.driver.memory": "2g",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.session.timeZone": "UTC",
}
PATH = "iceberg.jar:sqlite.jar:spark/jars/core.jar"
OPTIONS = ["-Xmx1g", "-Dlog=off", "--add-opens=java.base/java.nio=ALL-UNNAMED", "--add-modules=jdk.incubator.vector"]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CALVE_CACHE", str(tmp_path))


def test_without_an_archive_java_gets_no_option() -> None:
    assert archive.options(JAVA, [Path("a.jar")]) == ""


def test_an_archive_belongs_to_one_java_and_one_class_path() -> None:
    file = archive.archive_file(JAVA, [Path("a.jar")])
    file.parent.mkdir()
    file.write_bytes(b"classes")
    assert str(file) in archive.options(JAVA, [Path("a.jar")])
    assert archive.options(JAVA, [Path("a.jar"), Path("b.jar")]) == ""
    assert archive.options(Java(Path("/other/bin/java"), 17, JAVA.home), [Path("a.jar")]) == ""


def aged(file: Path, days: float) -> Path:
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(b"classes")
    file.chmod(0o444)
    os.utime(file, times=(time.time() - days * 86_400,) * 2)
    return file


def test_archives_that_nobody_used_for_a_month_and_abandoned_ones_are_removed(tmp_path: Path) -> None:
    kept = [aged(tmp_path / "java" / name, days) for name, days in (("a.jsa", 29), (".d.jsa.7", 0.5), ("x.txt", 99))]
    gone = [
        aged(tmp_path / "java" / name, days) for name, days in (("b.jsa", 31), (".c.jsa.7", 2), ("compiled1.jar", 31))
    ]
    archive.remove_unused(tmp_path / "java")
    assert [file.exists() for file in kept + gone] == [True, True, True, False, False, False]
    archive.remove_unused(tmp_path / "missing")


def test_an_archive_that_a_run_uses_is_not_removed() -> None:
    file = aged(archive.archive_file(JAVA, [Path("a.jar")]), 31)
    assert archive.options(JAVA, [Path("a.jar")])
    archive.remove_unused(file.parent)
    assert file.exists()


def test_old_archives_are_removed_whenever_one_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = aged(tmp_path / "java" / "old.jsa", 31)
    aged(archive.archive_file(JAVA, []), 0)
    monkeypatch.setattr(jdk, "find", lambda: JAVA)
    monkeypatch.setattr(jars, "resolve", lambda _: [])
    assert archive._main() == 0
    assert not old.exists()


@pytest.mark.spark
def test_an_archive_that_is_removed_while_a_jvm_uses_it_does_not_disturb_it(tmp_path: Path) -> None:
    found = jdk.find()
    file = archive.archive_file(found, [])
    source = tmp_path / "Waits.java"
    source.write_text(
        "public class Waits { public static void main(String[] a) throws Exception { System.out.println(1);"
        " System.in.read(); System.out.println(new java.util.concurrent.ConcurrentSkipListMap()); } }"
    )
    spark = Path(pyspark.__file__).parent / "jars"
    path = ":".join(str(jar) for name in ("janino", "commons-compiler") for jar in spark.glob(f"{name}-*.jar"))
    executable, main = str(found.home / "bin" / "java"), ["org.codehaus.janino.SimpleCompiler", str(source), "Waits"]
    making = [executable, "-cp", path, f"-XX:ArchiveClassesAtExit={file}", "-Xlog:disable", *main]
    subprocess.run(making, check=True, capture_output=True, input=b"")
    command = [executable, "-cp", path, *archive.options(found, []).split(), *main]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        assert process.stdout.readline() == "1\n"
        assert str(file) in Path(f"/proc/{process.pid}/maps").read_text()
        os.utime(file, times=(0, 0))
        archive.remove_unused(file.parent)
        assert not file.exists()
        assert process.communicate("\n") == ("{}\n", None)
    without = subprocess.run(command, capture_output=True, text=True, check=True, input="")
    assert (without.stdout, without.stderr) == ("1\n{}\n", ""), "one that vanishes before the JVM starts is no failure"


def test_an_archive_is_made_by_a_run_of_every_write_mode_on_the_class_path_that_it_is_for(tmp_path: Path) -> None:
    (tmp_path / "made.yaml").write_text(archive._configuration())
    pipelines = parse(tmp_path / "made.yaml", PLUGINS).pipelines
    sinks = [sink.value for sink in pipelines[0].sinks]
    assert not needs_s3(pipelines)
    assert [sink.write_mode for sink in sinks if sink.changes] == ["equality-delete", "merge-on-read", "copy-on-write"]
    assert [sink.changes for sink in sinks].count(False) == 1


@pytest.mark.spark
def test_a_damaged_archive_is_left_alone_in_silence(tmp_path: Path) -> None:
    found = jdk.find()
    file = archive.archive_file(found, [])
    file.write_bytes(b"not an archive")
    command = [found.home / "bin" / "java", *archive.options(found, []).split(), "-version"]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    assert (ran.stdout, "version" in ran.stderr.splitlines()[0]) == ("", True)


def command(settings: dict[str, str], last: str = "") -> list[str] | None:
    return archive.command(JAVA, [], settings, last)


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of a command that was kept when an archive was made."""
    file = archive.archive_file(JAVA, [])
    file.parent.mkdir()
    with monkeypatch.context() as making:
        making.setenv("CALVE_MAKE_ARCHIVE", str(file))
        archive.keep_command(PATH, OPTIONS, "-Dlog=off -XX:ArchiveClassesAtExit=x")
        assert command(SETTINGS) is None, "the launcher starts the JVM whose archive is made"
    return Path(f"{file}.command")


def test_the_command_has_the_options_of_the_launcher_and_the_settings(kept: Path) -> None:
    expected = ["/jdk/bin/java", "-cp", PATH, "-Xmx2g", "--add-opens=java.base/java.nio=ALL-UNNAMED", "-Dlog=off"]
    expected += ["-XX:SharedArchiveFile=a.jsa", "org.apache.spark.api.python.PythonGatewayServer"]
    assert command(SETTINGS) == expected
    expected[2] = f"{PATH}:aws.jar"
    assert command(SETTINGS, "aws.jar") == expected


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
def test_what_only_the_launcher_knows_is_left_to_it(kept: Path, more: dict[str, str]) -> None:
    assert command(SETTINGS | more) is None


def test_without_what_was_kept_the_launcher_is_needed(kept: Path) -> None:
    kept.write_text("{")
    assert command(SETTINGS) is None
    kept.unlink()
    assert command(SETTINGS) is None

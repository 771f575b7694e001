"""A class-data archive of the JVM, with which Spark starts in half the time, and the command that needs no launcher.

`python -m calve.engine.jvm.archive` creates it (190 MB in the cache), with the classes that a run of each mode
loads. It also removes archives unused for a month: those of other versions of Java, of jars and of Calve. An archive
belongs to one Java and to class paths that begin with one, so each place of Spark has its own; the JVM itself checks
this, and ignores an archive that does not fit.

Spark's launcher is another JVM, which takes a quarter of a second to print a command. It knows the class path and the
options for Java's modules: they are kept with the archive, by the JVM that the launcher has started.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from calve.engine.jvm import jars, jdk, spark_package
from calve.engine.jvm.cache import cache_folder
from calve.engine.jvm.jdk import Java

__all__ = ["archive_file", "command", "is_being_made", "keep_command", "options", "remove_unused", "stop_seconds"]

_MAKE = "CALVE_MAKE_ARCHIVE"
_COMMAND = ".command"
"""The end of the name of the file with what the launcher knows."""
_MAIN = "org.apache.spark.api.python.PythonGatewayServer"
_PATH, _OPTIONS, _MEMORY = "spark.driver.extraClassPath", "spark.driver.extraJavaOptions", "spark.driver.memory"
_OF_LAUNCHER = ("spark.jars", "spark.files", "spark.archives", "spark.submit.", "spark.driver.")
"""Settings that Spark's launcher, or what it starts, must see before there is a context."""
_NOT_OF_LAUNCHER = (_PATH, _OPTIONS, _MEMORY, "spark.driver.host", "spark.driver.bindAddress")
_UNKNOWN_MODULE = "--add-modules=jdk.incubator.vector"
"""Small images of Java lack it."""
_CONTENT = "7"
"""Increase it when the runs below change: then old archives are no longer used."""
_UNUSED_SECONDS = 30 * 86_400
"""Archives unused for this time are removed."""
_ABANDONED_SECONDS = 86_400
"""An archive unfinished after this time is abandoned: its process was killed."""
_AT_ITS_ADDRESS = "-XX:+UnlockDiagnosticVMOptions -XX:ArchiveRelocationMode=0"
"""Map the archive where it was made for: else Java changes each of its pointers at the start, which takes 0.1 s."""
_MODES = ("equality-delete", "merge-on-read", "copy-on-write")
_BATCHES = ('{"op": "c", "id": 1}\n{"op": "c", "id": 2}\n', '{"op": "u", "id": 1}\n{"op": "d", "id": 2}\n')
"""The second batch changes rows of the first."""


def archive_file(java: Java, files: Sequence[Path]) -> Path:
    """Return the archive's file for a Java and the jars on its class path: those of this Spark, and these."""
    spark = [spark_package.version(), spark_package.home()]
    identity = "\n".join([_CONTENT, str(java.executable), str(java.version), *spark, *map(str, files)])
    return cache_folder() / "java" / f"{hashlib.sha256(identity.encode()).hexdigest()[:16]}.jsa"


def options(java: Java, files: Sequence[Path]) -> str:
    """Return the options with which the JVM uses the archive, or creates it."""
    file = archive_file(java, files)
    if unpublished := os.environ.get(_MAKE):
        return f"-XX:ArchiveClassesAtExit={unpublished} -Xlog:disable"
    if not file.is_file():
        return ""
    for used in (file, Path(f"{file}{_COMMAND}")):
        with contextlib.suppress(OSError):  # another user's file, or a read-only cache
            os.utime(used)  # the time of its last use
    return f"-XX:SharedArchiveFile={file} {_AT_ITS_ADDRESS} -Xlog:disable"


def keep_command(path: str, arguments: Iterable[str], ours: str) -> None:
    """Keep how the launcher has started the JVM whose archive is being made.

    Args:
        path: The class path.
        arguments: All options of the JVM.
        ours: Those of `spark.driver.extraJavaOptions`.
    """
    ours_or_unknown = {*shlex.split(ours), _UNKNOWN_MODULE}
    of_launcher = [option for option in arguments if option not in ours_or_unknown and not option.startswith("-Xm")]
    Path(f"{os.environ[_MAKE]}{_COMMAND}").write_text(json.dumps([path, *of_launcher]))


def command(java: Java, files: Sequence[Path], settings: Mapping[str, str], last: str) -> list[str] | None:
    """Return the command of a JVM that uses the archive; None: Spark's launcher is needed.

    Args:
        java: The Java.
        files: The archive's jars.
        settings: Spark's settings.
        last: The end of the class path.
    """
    if is_being_made() or any(key.startswith(_OF_LAUNCHER) and key not in _NOT_OF_LAUNCHER for key in settings):
        return None
    with contextlib.suppress(OSError, ValueError):
        path, *options = json.loads(Path(f"{archive_file(java, files)}{_COMMAND}").read_text())
        if path.startswith(settings[_PATH]):
            options = [f"-Xmx{settings[_MEMORY]}", *options, *shlex.split(settings[_OPTIONS])]
            return [str(java.executable), "-cp", os.pathsep.join(filter(None, [path, last])), *options, _MAIN]
    return None


def remove_unused(folder: Path) -> None:
    """Remove archives and compiled classes that are long unused, and unfinished archives of killed processes.

    Safe beside other processes: a running JVM keeps its open archive, and a starting one that misses it starts without.
    """
    for pattern, seconds in (
        ("*.jsa", _UNUSED_SECONDS),
        (f"*.jsa{_COMMAND}", _UNUSED_SECONDS),
        ("compiled*.jar", _UNUSED_SECONDS),
        (".*.jsa.*", _ABANDONED_SECONDS),
    ):
        for file in folder.glob(pattern):
            _remove(file, time.time() - seconds)


def _remove(file: Path, before: float) -> None:
    """Remove a file that is older than a time; ignore a file that is gone or belongs to another user."""
    with contextlib.suppress(OSError):
        if file.stat().st_mtime < before:
            file.unlink()


def is_being_made() -> bool:
    """Return whether this process creates an archive."""
    return _MAKE in os.environ


def stop_seconds() -> float:
    """Return how long a JVM may take to end: writing an archive takes long."""
    return 300 if is_being_made() else 10


def _configuration() -> str:
    """Return a pipeline that writes a table in each mode."""
    tables = [{"table_identifier": "made.append", "auto_create": True, "max_batch_bytes": "32b"}]
    for mode in _MODES:
        keyed = {"operation": "${/op}", "identifier_columns": ["id"], "write_mode": mode}
        tables.append({**tables[0], **keyed, "table_identifier": f"made.{mode}"})
    sinks = [{"iceberg": table} for table in tables]
    return json.dumps({"archive": {"source": {"file": {"path": "*.ndjson"}}, "sink": sinks}})


def _main() -> int:
    """Run a pipeline with a little of everything, and archive the loaded classes."""
    file = archive_file(jdk.find(), jars.resolve(jars.ALWAYS))
    remove_unused(file.parent)
    if file.is_file():
        return 0
    unpublished = file.with_name(f".{file.name}.{os.getpid()}")
    print("Preparing Java for fast starts (once) …", file=sys.stderr, flush=True)
    with tempfile.TemporaryDirectory(prefix="calve-archive-") as name:
        folder = Path(name)
        (folder / "made.yaml").write_text(_configuration())
        for number, lines in enumerate(_BATCHES):
            (folder / f"{number}.ndjson").write_text(lines)
        command = [sys.executable, "-m", "calve", "run", "made.yaml", "--once", "--metrics-port", "0"]
        ran = subprocess.run(
            [*command, "--master", "local[2]"],
            cwd=folder,
            env={**os.environ, _MAKE: str(unpublished)},
            capture_output=True,
            text=True,
            check=False,
        )
    if ran.returncode or not unpublished.is_file():
        unpublished.unlink(missing_ok=True)
        print(ran.stderr, file=sys.stderr)
        return 1
    Path(f"{unpublished}{_COMMAND}").replace(f"{file}{_COMMAND}")
    unpublished.replace(file)
    return 0


if __name__ == "__main__":
    sys.exit(_main())

"""A class-data archive of the JVM: with it Spark starts in half the time.

`python -m calve.engine.archive` creates it (190 MB in the cache), with the classes that a run of each mode
loads. It also removes archives unused for a month: those of other versions of Java, of jars and of Calve. An archive
belongs to one Java and to class paths that begin with one, so each place of Spark has its own; the JVM itself checks
this, and ignores an archive that does not fit.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from calve.engine import launch, spark_package
from calve.engine.cache import cache_folder
from calve.engine.java import Java

__all__ = ["archive_file", "command", "is_being_made", "keep_command", "options", "remove_unused", "stop_seconds"]

_MAKE = "CALVE_MAKE_ARCHIVE"
_COMMAND = ".command"
"""The end of the name of the file with what the launcher knows."""
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
    """Keep how the JVM was started whose archive is being made (`launch.keep`)."""
    launch.keep(Path(f"{os.environ[_MAKE]}{_COMMAND}"), path, arguments, ours)


def command(java: Java, files: Sequence[Path], settings: Mapping[str, str], last: str) -> list[str] | None:
    """Return the command of a JVM that uses the archive (`launch.command`); None: Spark's launcher is needed."""
    kept = Path(f"{archive_file(java, files)}{_COMMAND}")
    return None if is_being_made() else launch.command(java, kept, settings, last)


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
    from calve.engine import jars, java

    file = archive_file(java.find(), jars.resolve(jars.ALWAYS))
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

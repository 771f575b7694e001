"""The checks of `calve doctor`: each has a result, and a fix if something is wrong."""

from __future__ import annotations

import os
import platform
import shutil
import socket
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Literal

from calve.compiled import library
from calve.engine.jvm import jars, jdk
from calve.engine.jvm.cache import cache_folder
from calve.errors import CalveError, EngineError
from calve.observe.humanize import size
from calve.state.folder import StateFolder

__all__ = ["Check", "checks"]

PYTHON = (3, 11)
PACKAGES = {
    "pyspark": ("4.1.", "4.1.4"),
    "duckdb": ("2.", "2.0"),
    "pyarrow": ("", "26"),
    "pyiceberg": ("0.12.", "0.12"),
}
"""The required prefix of a version, and the tested version."""
MEMORY_BYTES = 2 << 30
"""1 GiB for the JVM, plus the driver and two workers."""
DISK_BYTES = 1 << 30
HTTP_PORT = 2021


@dataclass(frozen=True)
class Check:
    """One line: what was checked, what was found, and the fix unless it is ok."""

    name: str
    outcome: Literal["ok", "note", "wrong"]
    found: str
    fix: str = ""


def checks(state: StateFolder, needs_s3: bool = False) -> Iterator[Check]:
    """Run one check after the other."""
    yield _python()
    yield from (_package(name) for name in PACKAGES)
    yield _core()
    yield _java()
    yield from _jars(needs_s3)
    yield _memory()
    if state.is_shared:
        yield _store(state)
    else:
        folder = _existing(Path(state.location).expanduser().absolute())
        yield _disk(folder)
        yield _writable(state, folder)
    yield _port()


def _python() -> Check:
    version = platform.python_version()
    if sys.version_info >= PYTHON:
        return Check("python", "ok", f"{version} at {sys.executable}")
    return Check("python", "wrong", f"{version} is too old", "Install Python 3.11 or newer")


def _package(name: str) -> Check:
    prefix, tested = PACKAGES[name]
    fix = f"pip install '{name}=={tested}'" if tested.count(".") > 1 else f"pip install '{name}~={tested}.0'"
    try:
        version = metadata.version(name)
    except metadata.PackageNotFoundError:
        return Check(name, "wrong", "is not installed", fix)
    if version.startswith(prefix):
        return Check(name, "ok", version)
    return Check(name, "wrong", f"{version} is not supported", fix)


def _core() -> Check:
    if missing := library.missing():
        return Check("core", "note", missing.message, missing.hint)
    return Check("core", "ok", f"version {library.VERSION} at {library.file()}")


def _java() -> Check:
    try:
        java = jdk.find()
    except EngineError as error:
        return Check("java", "wrong", error.message, error.hint)
    if ignored := jdk.ignored_home():
        return Check("java", "note", ignored, jdk.HOME_HINT)
    return Check("java", "ok", f"{java.version} at {java.executable}")


def _jars(needs_s3: bool) -> Iterator[Check]:
    try:
        cache = cache_folder()
    except EngineError as error:
        yield Check("cache", "wrong", error.message, error.hint)
        return
    if cache.parent == Path(tempfile.gettempdir()):
        fix = "Set CALVE_CACHE to a folder that stays, or what is in it is downloaded again"
        yield Check("cache", "note", f"is {cache}, as the home cannot be written", fix)
    folder = cache / "jars"
    for coordinate in jars.needed(needs_s3):
        _, artifact, version = coordinate.split(":")
        if any(folder.glob(f"*{artifact}-{version}.jar")):
            yield Check("jar", "ok", f"{artifact} {version} in {folder}")
        else:
            fix = "The first run downloads it. To download it now: calve doctor --fetch" + " --s3" * needs_s3
            yield Check("jar", "note", f"{artifact} {version} is not in {folder} yet", fix)


def _memory() -> Check:
    total = _memory_bytes()
    if total >= MEMORY_BYTES:
        return Check("memory", "ok", size(total))
    return Check(
        "memory",
        "wrong",
        f"only {size(total)} in total",
        f"Give this machine or container at least {size(MEMORY_BYTES)}",
    )


def _memory_bytes() -> int:
    """Return the memory that this process may use: of the machine, or of the container."""
    limits = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for file in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        try:
            limits.append(int(Path(file).read_text(encoding="ascii")))
        except (OSError, ValueError):
            continue  # not in a container, or no limit ("max")
    return min(limits)


def _disk(folder: Path) -> Check:
    free = shutil.disk_usage(folder).free
    if free >= DISK_BYTES:
        return Check("disk", "ok", f"{size(free)} free at {folder}")
    return Check(
        "disk", "wrong", f"only {size(free)} free at {folder}", "Free some space, or choose another disk: --state URI"
    )


def _writable(state: StateFolder, folder: Path) -> Check:
    if folder.is_dir() and os.access(folder, os.W_OK | os.X_OK):
        return Check("state", "ok", f"{state} can be written")
    fix = f"Get write permission for {folder}, or choose another folder: --state URI"
    return Check("state", "wrong", f"{state} cannot be written", fix)


def _store(state: StateFolder) -> Check:
    try:
        state.check_conditions()
    except CalveError as error:
        return Check("state", "wrong", error.message, error.hint)
    return Check("state", "ok", f"{state} can be written, and honours the conditions of writes")


def _existing(path: Path) -> Path:
    return next(folder for folder in (path, *path.parents) if folder.exists())


def _port() -> Check:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("", HTTP_PORT))
        except OSError as error:
            fix = "If this is not Calve itself, set another `port` for the http source"
            return Check(
                "port", "note", f"{HTTP_PORT}, the default of the http source, is in use ({error.strerror})", fix
            )
    return Check("port", "ok", f"{HTTP_PORT}, the default of the http source, is free")

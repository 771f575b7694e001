"""The jars of servers and all that they need, resolved by the Ivy that PySpark brings; downloaded once."""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path

import pyspark

from calve.engine.jvm import jdk
from calve.engine.jvm.cache import cache_folder
from calve.engine.jvm.jars import REPOSITORY

PATTERN = "[artifact]-[revision](-[classifier]).[ext]"


def resolve(name: str, *coordinates: str) -> Path:
    """Give a folder with the jars of Maven coordinates and all they need; downloaded once, then offline.

    Args:
        name: The folder's name in the cache; it should tell the version.
        coordinates: `group:artifact:version`; a `!` behind it takes the jar without what it needs.

    Raises:
        RuntimeError: Ivy could not get them; with its output.
    """
    folder = cache_folder() / "services" / name
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
    command = [
        str(jdk.find().executable),
        "-jar",
        str(_ivy()),
        *_settings(work),
        "-warn",
        "-ivy",
        str(work / "ivy.xml"),
        "-types",
        "jar",
        "bundle",
    ]
    command += ["-cache", str(work / "cache"), "-retrieve", str(work / "lib" / PATTERN)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode or not (work / "lib").is_dir():
        raise RuntimeError(f"cannot get {', '.join(coordinates)}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")


def _dependency(coordinate: str) -> str:
    group, artifact, version = coordinate.rstrip("!").split(":")
    alone = ' transitive="false"' if coordinate.endswith("!") else ""
    return f'<dependency org="{group}" name="{artifact}" rev="{version}" conf="*->default"{alone}/>'


def _ivy() -> Path:
    return next((Path(pyspark.__file__).parent / "jars").glob("ivy-*.jar"))


def _settings(work: Path) -> list[str]:
    mirror = os.environ.get(REPOSITORY)
    if not mirror:
        return []
    (work / "settings.xml").write_text(
        '<ivysettings><settings defaultResolver="mirror"/><resolvers>'
        f'<ibiblio name="mirror" root="{mirror}" m2compatible="true"/></resolvers></ivysettings>'
    )
    return ["-settings", str(work / "settings.xml")]

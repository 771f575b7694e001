"""The additional jars of Spark, which PySpark's Ivy fetches once into the cache.

`python -m calve.engine.jars [--s3]` fetches them ahead of the first run.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from xml.sax.saxutils import quoteattr

import pyspark

from calve.engine import java
from calve.engine.cache import cache_folder
from calve.errors import EngineError

__all__ = ["AWS", "ICEBERG", "SQLITE", "needed", "resolve"]

ICEBERG = "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0"
SQLITE = "org.xerial:sqlite-jdbc:3.50.3.0"
AWS = "org.apache.iceberg:iceberg-aws-bundle:1.12.0"

IVY_SETTINGS = "CALVE_IVY_SETTINGS"
"""The environment variable that names an Ivy settings file, for a mirror of Maven's repository."""


def needed(needs_s3: bool = False) -> list[str]:
    """Return the coordinates that a session needs."""
    return [ICEBERG, SQLITE, AWS] if needs_s3 else [ICEBERG, SQLITE]


def resolve(coordinates: Sequence[str], cache: Path | None = None) -> list[Path]:
    """Return the jar of each coordinate (`group:artifact:version`), downloading only what the cache lacks.

    Dependencies of the jars are not fetched: Calve uses bundles. Safe to run in parallel.

    Raises:
        EngineError: A jar is missing and cannot be downloaded.
    """
    folder = (cache or cache_folder()) / "jars"
    files = [folder / _file_name(coordinate) for coordinate in coordinates]
    missing = [text for text, file in zip(coordinates, files, strict=True) if not file.is_file()]
    if missing:
        _download(missing, folder)
    return files


def _file_name(coordinate: str) -> str:
    group, artifact, version = coordinate.split(":")
    return f"{group}_{artifact}-{version}.jar"


def _download(coordinates: Sequence[str], folder: Path) -> None:
    """Let Ivy fetch into a temporary folder, then publish file by file: a jar in the cache is always complete."""
    print(f"Downloading {', '.join(text.split(':')[1] for text in coordinates)} (once) …", file=sys.stderr, flush=True)
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".download-", dir=folder) as name:
        scratch = Path(name)
        output = _run_ivy(coordinates, scratch)
        for coordinate in coordinates:
            file = scratch / "jars" / _file_name(coordinate)
            if not file.is_file():
                raise _not_downloaded(coordinate, output)
            file.replace(folder / file.name)


def _run_ivy(coordinates: Sequence[str], scratch: Path) -> str:
    module = scratch / "ivy.xml"
    module.write_text(_ivy_module(coordinates))
    command: list[str | Path] = [java.find().home / "bin" / "java", "-cp", _ivy_jar(), "org.apache.ivy.Main"]
    if settings := os.environ.get(IVY_SETTINGS):
        command += ["-settings", settings]
    pattern = scratch / "jars" / "[organisation]_[artifact]-[revision].[ext]"
    command += ["-ivy", module, "-cache", scratch / "cache", "-types", "jar", "bundle", "-retrieve", pattern]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    shutil.rmtree(scratch / "cache", ignore_errors=True)
    return ran.stdout + ran.stderr


def _ivy_module(coordinates: Sequence[str]) -> str:
    lines = []
    for coordinate in coordinates:
        org, name, rev = map(quoteattr, coordinate.split(":"))
        lines.append(f'<dependency org={org} name={name} rev={rev} transitive="false" conf="default->master"/>')
    return (
        '<ivy-module version="2.0"><info organisation="calve" module="engine"/>'
        f"<dependencies>{''.join(lines)}</dependencies></ivy-module>"
    )


def _ivy_jar() -> Path:
    return next((Path(pyspark.__file__).parent / "jars").glob("ivy-*.jar"))


def _not_downloaded(coordinate: str, output: str) -> EngineError:
    complaints = [line.strip() for line in output.splitlines() if "exception" in line.lower() or "ERROR" in line]
    reason = f": {complaints[0]}" if complaints else ""
    return EngineError(
        f"The jar {coordinate} is not in the cache and cannot be downloaded{reason}",
        step="engine",
        target=coordinate,
        hint=f"Connect once and run `python -m calve.engine.jars`, or set a mirror's Ivy settings in {IVY_SETTINGS}",
    )


def _main() -> int:
    try:
        for file in resolve(needed(needs_s3="--s3" in sys.argv[1:])):
            print(file)
    except EngineError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(_main())

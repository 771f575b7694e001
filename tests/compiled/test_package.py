"""What pip makes of the sources: a wheel for one platform with the library, or one for all without."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from calve.compiled import build, library

ROOT = Path(__file__).parents[2]
PACKAGE = "calve/compiled"


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    """What the package is made of, as of a fresh clone."""
    made = shutil.ignore_patterns("target", "__pycache__", "*.so", "*.dylib", "*.egg-info")
    for folder in ("core", "src"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=made)
    for file in ("setup.py", "pyproject.toml", "MANIFEST.in", "README.md", "LICENSE"):
        shutil.copy(ROOT / file, tmp_path)
    return tmp_path


def put_library(sources: Path) -> None:
    """Put a file where the library belongs that passes for one of these sources."""
    (sources / "src" / PACKAGE / library.FILE.name).write_text(f"{build.digest()} GLIBC_2.28")


def packed(sources: Path, kind: str) -> Path:
    """Make a `wheel` or `sdist` as pip does, on a machine without cargo."""
    code = f"from setuptools.build_meta import build_{kind}; print(build_{kind}('out'))"
    environment = os.environ | {"PATH": "/nowhere"}
    ran = subprocess.run(
        [sys.executable, "-c", code], cwd=sources, env=environment, capture_output=True, text=True, check=True
    )
    return sources / "out" / ran.stdout.splitlines()[-1]


def test_a_wheel_has_the_library_only_where_there_is_one(sources: Path) -> None:
    place = f"{PACKAGE}/{library.FILE.name}"
    put_library(sources)
    wheel = packed(sources, "wheel")
    assert wheel.name.startswith("calve-")
    assert "-py3-none-" in wheel.name
    assert not wheel.name.endswith("-any.whl")
    assert place in zipfile.ZipFile(wheel).namelist()
    (sources / "core" / "src" / "new.rs").touch()
    wheel = packed(sources, "wheel")
    assert wheel.name.endswith("-py3-none-any.whl")
    assert place not in zipfile.ZipFile(wheel).namelist(), "a library that is outdated"


def test_an_sdist_has_the_sources_of_the_library_and_not_the_library(sources: Path) -> None:
    put_library(sources)
    with tarfile.open(packed(sources, "sdist")) as archive:
        names = {name.split("/", 1)[-1] for name in archive.getnames()}
    assert {"setup.py", "core/Cargo.toml", "core/Cargo.lock", "core/src/lib.rs", "core/src/ffi.rs"} <= names
    assert not [name for name in names if name.endswith((".so", ".dylib"))]

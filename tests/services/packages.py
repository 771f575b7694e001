"""Packages of pip and npm that servers and readers of the tests come in: each in a folder of its own, downloaded once."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from calve.engine.jvm.cache import cache_folder


def folder_of(name: str) -> Path:
    """Return the folder that `install` makes; it may not exist yet."""
    return cache_folder() / "services" / name


def install(name: str, *requirements: str) -> Path | None:
    """Install packages into a folder of their own, once; return it, or None where they cannot be downloaded."""
    return _once(name, [sys.executable, "-m", "pip", "install", "--quiet", "--target", ".", *requirements])


def install_npm(name: str, *requirements: str) -> Path | None:
    """Do the same with npm; None also where there is no npm."""
    return _once(
        name, ["npm", "install", "--silent", "--no-audit", "--ignore-scripts", "--omit=optional", *requirements]
    )


def _once(name: str, command: Sequence[str]) -> Path | None:
    folder = folder_of(name)
    if folder.is_dir():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix="_") as work:
        target = Path(work) / "site"
        target.mkdir()
        try:
            subprocess.run(command, cwd=target, capture_output=True, check=True)
        except (OSError, subprocess.CalledProcessError):
            return None
        try:
            target.rename(folder)
        except OSError:  # another process was faster
            if not folder.is_dir():
                raise
    return folder

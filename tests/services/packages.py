"""Python packages that servers and readers of the tests come in: each in a folder of its own, downloaded once."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from calve.engine.cache import cache_folder


def folder_of(name: str) -> Path:
    """Return the folder that `install` makes; it may not exist yet."""
    return cache_folder() / "services" / name


def install(name: str, *requirements: str) -> Path | None:
    """Install packages into a folder of their own, once; return it, or None where they cannot be downloaded."""
    folder = folder_of(name)
    if folder.is_dir():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix="_") as work:
        target = Path(work) / "site"
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(target), *requirements]
        if subprocess.run(command, capture_output=True, check=False).returncode:
            return None
        try:
            target.rename(folder)
        except OSError:  # another process was faster
            if not folder.is_dir():
                raise
    return folder

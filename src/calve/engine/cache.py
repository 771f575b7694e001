"""The cache of downloads and generated files that all runs share: `$CALVE_CACHE`, else `~/.cache/calve`."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["cache_folder"]


def cache_folder() -> Path:
    """Return the cache folder as an absolute path; it may not exist yet."""
    named = os.environ.get("CALVE_CACHE")
    if named:
        return Path(named).expanduser().absolute()
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "calve"

"""The cache of downloads and generated files that all runs share: `$CALVE_CACHE`, else in the home, else temporary."""

from __future__ import annotations

import os
from pathlib import Path

from calve.errors import EngineError
from calve.files.temporary import private_folder

__all__ = ["cache_folder"]


def cache_folder() -> Path:
    """Return the cache folder as an absolute path.

    In a home that cannot be written it is a private folder in the temporary one.

    Raises:
        EngineError: It cannot be created.
    """
    named = os.environ.get("CALVE_CACHE")
    try:
        folder = Path(named or os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser().absolute()
        folder = folder if named else folder / "calve"
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, RuntimeError) as error:  # RuntimeError: there is no home
        private = None if named else private_folder("calve-cache")
        if private is None:
            raise _unusable(str(error)) from error
        return private
    return folder


def _unusable(reason: str) -> EngineError:
    hint = "Set the variable CALVE_CACHE to a folder that can be written; jars and prepared classes are kept there"
    return EngineError(f"The cache folder cannot be created: {reason}", step="engine", hint=hint)

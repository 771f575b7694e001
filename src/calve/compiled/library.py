"""Finds the library of the compiled core; without it Calve works by its exact converters, slower."""

from __future__ import annotations

import ctypes
import os
import sys
from functools import cache
from pathlib import Path

__all__ = ["FILE", "load"]

_VERSION = 1
FILE = Path(__file__).with_name("libcalve_core.dylib" if sys.platform == "darwin" else "libcalve_core.so")
"""Where the library is, if there is one."""


@cache
def load() -> ctypes.CDLL | None:
    """Return the library, or None where there is none for this platform or `CALVE_CORE=off` turns it off."""
    if os.environ.get("CALVE_CORE") == "off" or not FILE.is_file():
        return None
    library = ctypes.CDLL(str(FILE))
    return library if library.calve_core_version() == _VERSION else None

"""Finds the library of the compiled core; without it Calve works by its exact converters, slower.

The variable `CALVE_CORE` names another library, or turns it off (`off`).
"""

from __future__ import annotations

import ctypes
import os
import sys
from functools import cache
from pathlib import Path

from calve.errors import EngineError

__all__ = ["FILE", "SLOWER", "VARIABLE", "VERSION", "file", "load", "missing"]

VARIABLE = "CALVE_CORE"
FILE = Path(__file__).with_name("libcalve_core.dylib" if sys.platform == "darwin" else "libcalve_core.so")
"""Where the library is, if there is one."""
VERSION = 23
"""Of the functions that the library has, which must be the very ones that are called."""
SLOWER = "events are converted about 50 times slower"
"""What it costs to have none (`bench/convert.py`, with `CALVE_CORE=off` and without)."""
_OFF = "off"
_RUST = "Install Rust (https://rustup.rs)"
_HINT = (
    f"{_RUST} and run `make setup`"
    if (Path(__file__).parents[3] / "core").is_dir()
    else "Install a wheel of Calve made for this platform. Or: "
    f"{_RUST}, and Calve again: pip install --force-reinstall --no-deps --no-cache-dir calve"
)


def load() -> ctypes.CDLL | None:
    """Return the library, or None where there is none that works; `missing` has the reason. Never raises."""
    tried = _tried()
    return None if isinstance(tried, EngineError) else tried


def missing() -> EngineError | None:
    """Return why there is no library, with the way out, or None where there is one."""
    tried = _tried()
    return tried if isinstance(tried, EngineError) else None


def file() -> Path:
    """Return the file that `load` opens."""
    return Path(os.environ.get(VARIABLE) or FILE)


@cache
def _tried() -> ctypes.CDLL | EngineError:
    if os.environ.get(VARIABLE) == _OFF:
        return _missing(f"is turned off ({VARIABLE}={_OFF})", f"Unset {VARIABLE}")
    if not file().is_file():
        return _missing(f"is not installed (no {file()})")
    try:
        library = ctypes.CDLL(str(file()))
        version = library.calve_core_version
    except (OSError, AttributeError) as error:
        return _missing(f"does not work here ({error})")
    version.argtypes, version.restype = (), ctypes.c_int32
    if (core_version := version()) != VERSION:
        return _missing(f"has version {core_version} instead of {VERSION} ({file()})")
    return library


def _missing(reason: str, hint: str = _HINT) -> EngineError:
    return EngineError(f"The compiled core {reason}: {SLOWER}", step="engine", hint=hint)

"""Calve moves streams of events into Apache Iceberg tables, exactly once.

Functions and types for Python programs are imported from `calve.api` when they are first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from calve.api import (
        CalveError,
        PipelineReport,
        RunError,
        SettingsError,
        Trial,
        Validation,
        run,
        status,
        try_events,
        validate,
        write_rows,
    )

__version__ = "0.1.0"
__all__ = [
    "CalveError",
    "PipelineReport",
    "RunError",
    "SettingsError",
    "Trial",
    "Validation",
    "__version__",
    "run",
    "status",
    "try_events",
    "validate",
    "write_rows",
]


def __dir__() -> list[str]:
    return __all__


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'calve' has no attribute {name!r}")
    return getattr(import_module("calve.api"), name)

"""The settings of Spark's Python workers: what they import before their first task, and their environment."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence

from calve.compiled import library

__all__ = ["PRELOAD", "PRELOADED", "environment_of"]

PRELOAD = "CALVE_PRELOAD"
"""The environment variable with the modules that `calve.engine.workers.daemon` imports, separated by commas."""
PRELOADED = ("pyarrow.compute", "pyarrow.parquet", "pyarrow.fs", "pyiceberg.io.pyarrow")
"""Modules that most tasks need and that are slow to import."""
_MEMORY = {
    "MALLOC_MMAP_THRESHOLD_": str(256 << 20),
    "MALLOC_TRIM_THRESHOLD_": str(256 << 20),
    "MIMALLOC_PURGE_DELAY": "1000",
}
"""Variables for the C library and for Arrow's allocator: a worker keeps freed memory for its next batch, because pages
that the system takes back and clears again cost a twelfth of a task's CPU."""
_VARIABLES = "spark.executorEnv."


def environment_of(conf: Mapping[str, str], preload: Sequence[str], shares_path: bool) -> dict[str, str]:
    """Return the environment variables of Python workers.

    Args:
        conf: Spark's settings; the user's variables override Calve's.
        preload: Modules that workers import before their first task.
        shares_path: Whether they find the modules that this process finds: on this machine, with its Python.
    """
    chosen = {name: os.environ[name] for name in (library.VARIABLE,) if name in os.environ}
    path = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))} if shares_path else {}
    of_users = {key.removeprefix(_VARIABLES): value for key, value in conf.items() if key.startswith(_VARIABLES)}
    return {PRELOAD: ",".join(preload), **_MEMORY, **path, **chosen, **of_users}

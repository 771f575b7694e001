"""The process that forks Spark's Python workers, with everything heavy imported before it forks.

Spark starts it as `python -m calve.engine.daemon` (`spark.python.daemon.module`). What `CALVE_PRELOAD` names (modules,
comma-separated) is imported once here instead of once in each worker.
"""

from __future__ import annotations

import importlib
import os
import sys
from importlib.machinery import PathFinder

__all__ = ["PRELOAD"]

PRELOAD = "CALVE_PRELOAD"
_ZIPS = ("pyspark.zip", "-src.zip")


def _main() -> None:
    _prefer_installed()
    for module in filter(None, os.environ.get(PRELOAD, "").split(",")):
        importlib.import_module(module)
    importlib.import_module("pyspark.daemon").manager()


def _prefer_installed() -> None:
    """Take PySpark from where it is installed: out of the zips that Spark puts first, Python compiles it each time."""
    unpacked = [entry for entry in sys.path if not entry.endswith(_ZIPS)]
    if PathFinder.find_spec("pyspark", unpacked):
        sys.path[:] = unpacked


if __name__ == "__main__":
    _main()

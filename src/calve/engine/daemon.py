"""The process that forks Spark's Python workers; it imports slow modules before it forks.

Spark starts it as `python -m calve.engine.daemon` (`spark.python.daemon.module`). The modules in `CALVE_PRELOAD`
(comma-separated) are imported once here instead of once in each worker.
"""

from __future__ import annotations

import faulthandler
import importlib
import os
import sys
from importlib.machinery import PathFinder

__all__ = ["PRELOAD"]

PRELOAD = "CALVE_PRELOAD"
_ZIPS = ("pyspark.zip", "-src.zip")


def _import() -> None:
    """Import the modules of workers, and PySpark as installed: from Spark's zips Python would compile it again."""
    unpacked = [entry for entry in sys.path if not entry.endswith(_ZIPS)]
    if PathFinder.find_spec("pyspark", unpacked):
        sys.path[:] = unpacked
    for module in filter(None, os.environ.get(PRELOAD, "").split(",")):
        importlib.import_module(module)


if __name__ == "__main__":
    faulthandler.enable()  # the workers inherit it
    _import()
    importlib.import_module("pyspark.daemon").manager()

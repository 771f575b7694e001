"""The process that forks Spark's Python workers; it imports slow modules before it forks.

Spark starts it as `python -m calve.engine.workers.daemon` (`spark.python.daemon.module`).
"""

from __future__ import annotations

import faulthandler
import gc
import importlib
import os
import sys
from importlib.machinery import PathFinder

from calve.engine.workers.environment import PRELOAD

_ZIPS = ("pyspark.zip", "-src.zip", ".jar")
"""What Spark adds to the path of Python: PySpark, py4j, and the jar of its core."""


def _use_installed() -> None:
    """Import PySpark as it is installed: from Spark's zips Python would compile it again."""
    unpacked = [entry for entry in sys.path if not entry.endswith(_ZIPS)]
    if PathFinder.find_spec("pyspark", unpacked):
        sys.path[:] = unpacked
        for entry in [entry for entry in sys.path_importer_cache if entry.endswith(_ZIPS)]:
            del sys.path_importer_cache[entry]  # each task of PySpark would read the contents of the zip again


def _import(names: str) -> None:
    """Import modules, whose names are separated by commas; what is imported stays, so nothing needs to collect it."""
    gc.disable()
    for module in ("pyspark.worker", *filter(None, names.split(","))):
        importlib.import_module(module)
    gc.freeze()
    gc.set_threshold(20_000, 50, 100)  # nor what a task keeps of each file, which has no cycles
    gc.enable()


def _silence() -> None:
    """Discard what Python prints: a task's error comes as data, and PySpark prints one for each connection it loses."""
    if "CALVE_SPARK_LOG" not in os.environ:
        sys.stderr = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w")


if __name__ == "__main__":
    faulthandler.enable()  # the workers inherit it, and print on the process's own stderr
    _silence()
    _use_installed()
    _import(os.environ.get(PRELOAD, ""))
    importlib.import_module("pyspark.daemon").manager()

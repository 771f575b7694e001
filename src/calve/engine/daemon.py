"""The process that forks the Python workers of a Spark cluster; it imports slow modules before it forks.

Spark starts it as `python -m calve.engine.daemon` (`spark.python.daemon.module`).
"""

from __future__ import annotations

import faulthandler
import importlib
import os
import sys
from importlib.machinery import PathFinder

from calve.engine.fork_server import PRELOAD, import_modules

_ZIPS = ("pyspark.zip", "-src.zip")


def _use_installed() -> None:
    """Import PySpark as it is installed: from Spark's zips Python would compile it again."""
    unpacked = [entry for entry in sys.path if not entry.endswith(_ZIPS)]
    if PathFinder.find_spec("pyspark", unpacked):
        sys.path[:] = unpacked


if __name__ == "__main__":
    faulthandler.enable()  # the workers inherit it
    _use_installed()
    import_modules(os.environ.get(PRELOAD, ""))
    importlib.import_module("pyspark.daemon").manager()

"""The process that forks Spark's Python workers, with everything heavy imported before it forks.

Spark starts it as `python -m calve.engine.daemon` (`spark.python.daemon.module`). What `CALVE_PRELOAD` names (modules,
comma-separated) is imported once here instead of once in each worker.
"""

from __future__ import annotations

import importlib
import os

from pyspark.daemon import manager

__all__ = ["PRELOAD"]

PRELOAD = "CALVE_PRELOAD"


def _main() -> None:
    for module in filter(None, os.environ.get(PRELOAD, "").split(",")):
        importlib.import_module(module)
    manager()


if __name__ == "__main__":
    _main()

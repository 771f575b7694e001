"""Where PySpark is, and its version, without importing it: that takes a tenth of a second, in which the JVM starts."""

from __future__ import annotations

import importlib.util
import os
from functools import cache
from importlib import metadata
from pathlib import Path

__all__ = ["folder", "home", "version"]


@cache
def folder() -> Path:
    """Return the folder of the package."""
    spec = importlib.util.find_spec("pyspark")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent


def home() -> str:
    """Return the folder of Spark, which its scripts would search for."""
    return os.environ.get("SPARK_HOME") or str(folder())


@cache
def version() -> str:
    """Return the version of the package."""
    return metadata.version("pyspark")

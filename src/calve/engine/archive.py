"""A class-data archive of the JVM: Spark starts in half the time when it exists, and as before when it does not.

`python -m calve.engine.archive [--s3]` makes it (115 MB in the cache). It belongs to one Java and one class path; the
JVM itself checks that, and leaves an archive alone that does not fit.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import pyspark

from calve.engine.cache import cache_folder
from calve.engine.java import Java

__all__ = ["archive_file", "options"]

_MAKE = "CALVE_MAKE_ARCHIVE"


def archive_file(java: Java, files: Sequence[Path]) -> Path:
    """Give the archive's place for a Java and the jars on its class path."""
    identity = "\n".join([str(java.executable), str(java.version), pyspark.__version__, *map(str, files)])
    return cache_folder() / "java" / f"{hashlib.sha256(identity.encode()).hexdigest()[:16]}.jsa"


def options(java: Java, files: Sequence[Path]) -> str:
    """Give the options that let the JVM use the archive, or make it."""
    file = archive_file(java, files)
    if unpublished := os.environ.get(_MAKE):
        return f"-XX:ArchiveClassesAtExit={unpublished} -Xlog:disable"
    return f"-XX:SharedArchiveFile={file} -Xlog:disable" if file.is_file() else ""


def _main() -> int:
    """Run a session that does a little of everything, and keep the classes that it loaded."""
    from calve.engine import jars, java, session

    needs_s3 = "--s3" in sys.argv[1:]
    file = archive_file(java.find(), jars.resolve(jars.needed(needs_s3)))
    if file.is_file():
        return 0
    unpublished = file.with_name(f".{file.name}.{os.getpid()}")
    os.environ[_MAKE] = str(unpublished)
    print("Preparing Java for fast starts (once) …", file=sys.stderr, flush=True)
    spark = session.start("local[2]", needs_s3=needs_s3)
    spark.sparkContext.parallelize(range(4), 2).map(str).collect()
    spark.range(10).selectExpr("id % 2 AS key").groupBy("key").count().collect()
    session.stop(spark, patience_seconds=120)
    unpublished.replace(file)
    return 0


if __name__ == "__main__":
    sys.exit(_main())

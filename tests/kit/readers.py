"""Other programs that read what Calve wrote, without its help: PyIceberg and Spark in a process of their own, and Rust."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from datafusion import SessionContext
from pyiceberg_core.datafusion import IcebergDataFusionTable

from calve.engine.jvm import archive, jars, jdk

PYICEBERG = """
import json, sys
from pyiceberg.catalog.sql import SqlCatalog

lakehouse, name = sys.argv[1:]
table = SqlCatalog("lakehouse", uri=f"sqlite:///{lakehouse}/catalog.db").load_table(name)
assert not [module for module in sys.modules if module.split(".")[0] in ("calve", "pyspark", "py4j")]
print(json.dumps(table.scan().to_arrow().to_pylist(), default=str))
"""


def with_pyiceberg(lakehouse: Path, table: str) -> list[dict[str, Any]]:
    """Read a table with PyIceberg alone."""
    command = [sys.executable, "-c", PYICEBERG, str(lakehouse), table]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


def with_rust(metadata: str, query: str, storage: Mapping[str, str] | None = None) -> list[list[Any]]:
    """Ask Iceberg's Rust, under DataFusion, for the rows of a query of the table `t`.

    It knows equality deletes, but no deletion vectors, and paths only as URLs.
    """
    context = SessionContext()
    context.register_table("t", IcebergDataFusionTable(("db", "t"), metadata, dict(storage or {})))
    return [list(row.values()) for batch in context.sql(query).collect() for row in batch.to_pylist()]


class PlainSpark:
    """A Spark with Iceberg's jar, and nothing of Calve, that answers queries until it is closed.

    Args:
        log: Where what it says goes.
    """

    def __init__(self, log: Path) -> None:
        self._log = log
        files = jars.resolve(jars.needed(needs_s3=False))
        path, options = os.pathsep.join(map(str, files)), archive.options(jdk.find(), files)
        script = Path(__file__).with_name("plain_spark.py")
        with log.open("wb") as said:
            self._process = subprocess.Popen(
                [sys.executable, str(script), path, options],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=said,
                text=True,
                env={**os.environ, "JAVA_HOME": str(jdk.find().home)},
            )

    def __call__(self, lakehouse: Path, queries: list[str]) -> list[list[list[Any]]]:
        """Ask for the rows of queries; the tables are `lakehouse.<namespace>.<table>`."""
        assert self._process.stdin
        assert self._process.stdout
        with contextlib.suppress(BrokenPipeError):  # then there is no answer either
            self._process.stdin.write(json.dumps([str(lakehouse), queries]) + "\n")
            self._process.stdin.flush()
        answer = self._process.stdout.readline()
        assert answer, f"it ended with {self._process.wait(60)}: {self._log.read_text()[-3000:]}"
        found = json.loads(answer)
        assert isinstance(found, list), found
        return found

    def close(self) -> None:
        """End it."""
        self._process.communicate(timeout=60)

"""Other programs that read what Calve wrote, each in a process that does not import it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from calve.engine import jars, java

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
    return _json([sys.executable, "-c", PYICEBERG, str(lakehouse), table])


def with_spark(lakehouse: Path, queries: list[str]) -> list[list[list[Any]]]:
    """Ask a plain Spark with Iceberg's jar; the tables are `lakehouse.<namespace>.<table>`."""
    files = os.pathsep.join(map(str, jars.resolve(jars.needed(needs_s3=False))))
    script = Path(__file__).with_name("plain_spark.py")
    return _json([sys.executable, str(script), files, str(lakehouse)], json.dumps(queries))


def _json(command: list[str], text: str = "") -> Any:
    environment = {**os.environ, "JAVA_HOME": str(java.find().home)}
    done = subprocess.run(
        command, input=text, capture_output=True, text=True, env=environment, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])

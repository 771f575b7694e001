"""DuckDB with its reader of Iceberg tables, in a folder and a process of its own.

The reader's extensions are on PyPI, for an older DuckDB than Calve uses.
"""

from __future__ import annotations

import json
import select
import subprocess
import sys
from pathlib import Path
from typing import Any

from services import packages

VERSION = "1.5.5"
PACKAGES = ("duckdb", "duckdb-extension-iceberg", "duckdb-extension-avro")
ANSWER_SECONDS = 240.0
PROGRAM = """
import json, os, sys
from importlib.util import find_spec
from pathlib import Path
import duckdb

answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)  # DuckDB itself prints sometimes
connection = duckdb.connect(config={"threads": 1, "allow_unsigned_extensions": "true"})
connection.execute("SET enable_external_file_cache = false")  # it mixes up the vectors of one Puffin file
connection.execute("SET timezone = 'UTC'")
for name in ("avro", "iceberg"):
    folder = Path(find_spec(f"duckdb_extension_{name}").submodule_search_locations[0])
    [file] = folder.rglob(f"{name}.duckdb_extension")
    connection.load_extension(str(file))
for line in sys.stdin:
    try:
        found = connection.execute(*json.loads(line)).fetchall()
    except Exception as error:
        found = f"{type(error).__name__}: {error}"
    print(json.dumps(found, default=str), file=answers, flush=True)
"""


def fetch() -> Path | None:
    """Install the packages into a folder of their own, once; return it, or None where they cannot be had."""
    return packages.install(f"duckdb-iceberg-{VERSION}", *(f"{name}=={VERSION}" for name in PACKAGES))


class Reader:
    """A process that reads tables.

    Args:
        folder: What `fetch` returned.
    """

    def __init__(self, folder: Path) -> None:
        program = f"import sys; sys.path.insert(0, {str(folder)!r})\n{PROGRAM}"
        self._command = [sys.executable, "-S", "-c", program]
        self._process = self._start()

    def ids(self, metadata: str) -> list[Any]:
        """Read all of a table by its metadata file; return its column `id`, or as many times None.

        Raises:
            RuntimeError: It cannot be read.
        """
        self.query("CREATE OR REPLACE TEMP TABLE t AS SELECT * FROM iceberg_scan(?)", metadata)
        names = [name for name, *_ in self.query("DESCRIBE t")]
        return [one for (one,) in self.query(f"SELECT {'id' if 'id' in names else 'NULL'} FROM t")]

    def query(self, sql: str, *parameters: str) -> list[list[Any]]:
        """Run one statement; return its rows, with what JSON has no type for as text.

        Raises:
            RuntimeError: It fails, or takes too long.
        """
        if self._process.poll() is not None:  # it died, or was too slow
            self._process = self._start()
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(json.dumps([sql, parameters]) + "\n")
        self._process.stdin.flush()
        answered, _, _ = select.select([self._process.stdout], [], [], ANSWER_SECONDS)
        if not answered:
            self._process.kill()
            self._process.wait()
            raise RuntimeError(f"no answer in {ANSWER_SECONDS:g} s")
        found = json.loads(self._process.stdout.readline() or '"it ended"')
        if isinstance(found, str):
            raise RuntimeError(found)
        return list(found)

    def _start(self) -> subprocess.Popen[str]:
        return subprocess.Popen(self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def close(self) -> None:
        """End it."""
        self._process.communicate(timeout=60)

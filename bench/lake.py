"""Reads tables with DuckDB, which neither Calve nor its rivals use to write them, or a plain Spark; compares sums."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from calve.engine.jvm import jars
from services import duckdb_iceberg

TABLES_A_QUERY = 50


def newest(table: Path) -> Path | None:
    """Return the current metadata file in a table's folder, of a Hadoop or a JDBC catalog; None before there is one."""
    folder = table / "metadata"
    hint = folder / "version-hint.text"
    if hint.exists():
        return folder / f"v{hint.read_text().strip()}.metadata.json"
    return max(folder.glob("?????-*.metadata.json"), default=None)


def rows_of(metadata: Path) -> int:
    """Return the number of rows that a metadata file's current snapshot has."""
    found = json.loads(metadata.read_text())
    current = [one for one in found.get("snapshots", ()) if one["snapshot-id"] == found.get("current-snapshot-id")]
    return sum(int(one["summary"]["total-records"]) for one in current)


def folders(namespace: Path) -> list[Path]:
    """Return the folders of a namespace's tables."""
    return sorted(namespace.iterdir()) if namespace.is_dir() else []


def check(tables: Iterable[Path], sums: str, expected: Sequence[Any]) -> None:
    """Compare the sums over some tables, read by DuckDB, with what they must be.

    Args:
        tables: Their folders.
        sums: Expressions over the columns, with a comma between.
        expected: What they must be, added up over all tables.

    Raises:
        SystemExit: They are not.
    """
    program = duckdb_iceberg.fetch()
    if not program:
        raise SystemExit(f"DuckDB {duckdb_iceberg.VERSION} and its reader of Iceberg cannot be downloaded: pip failed")
    reader = duckdb_iceberg.Reader(program)
    left, total = iter(tables), [0] * len(expected)
    try:
        while some := list(itertools.islice(left, TABLES_A_QUERY)):
            query = " UNION ALL ".join(f"SELECT {sums} FROM iceberg_scan('{newest(table)}')" for table in some)
            for found in reader.query(query):
                total = [one + int(other or 0) for one, other in zip(total, found, strict=True)]
    finally:
        reader.close()
    if total != list(expected):
        raise SystemExit(f"wrong output: {sums} are {total} instead of {list(expected)}")


def read_by_spark(table: Path, sums: str, reads: int = 4) -> dict[str, Any]:
    """Read a table whole by a plain Spark; return its `sums`, and the `seconds` of a read: of several, a warm one.

    DuckDB cannot take its part where there are equality deletes: it needs minutes for some 100,000 of them.

    Args:
        table: Its folder.
        sums: Expressions over the columns, with semicolons between; their values are integers.
        reads: How often it is read.
    """
    files = os.pathsep.join(map(str, jars.resolve(jars.needed())))
    said = output(["-m", "bench.full_read", files, str(newest(table)), sums, str(reads)], Path.cwd())
    found: dict[str, Any] = json.loads(said.splitlines()[-1])
    return found


def output(arguments: list[str], folder: Path) -> str:
    """Run Python in a folder; return what it prints.

    Raises:
        SystemExit: It fails.
    """
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, *arguments]
    done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=folder, env=environment)
    if done.returncode:
        raise SystemExit(done.stderr[-3000:])
    return done.stdout

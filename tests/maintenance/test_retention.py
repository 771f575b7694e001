"""Rows past their retention go as whole files, and no younger row goes with them."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyspark.sql import SparkSession

from calve.catalog.catalog import Catalog, embedded
from calve.cli.maintenance_plan import lines, plan
from calve.commit.mark import CommitTarget
from calve.engine import session
from calve.maintenance.by_need import Rounds
from calve.maintenance.context import MaintenanceContext
from calve.table.limits import MaintenanceLimits

pytestmark = pytest.mark.spark

NOW = datetime(2026, 6, 15, 12, 30, tzinfo=UTC)
OLD, LAST, YOUNG = (NOW - timedelta(days=days) for days in (200, 91, 1))
KINDS: dict[str, Any] = {
    "timestamptz": pa.timestamp("us", "UTC"),
    "timestamp": pa.timestamp("us"),
    "date": pa.date32(),
}


def rows_of(folder: Path) -> list[int]:
    scan = SqlCatalog("lakehouse", uri=f"sqlite:///{folder}/catalog.db").load_table("db.t").scan()
    return sorted(scan.to_arrow()["id"].to_pylist())


@pytest.mark.parametrize(
    ("kind", "partitions", "column"),
    [
        ("timestamptz", [("at", "day")], ""),
        ("timestamp", [("id", "bucket[2]"), ("at", "month")], ""),
        ("date", [("at", "identity")], ""),
        ("date", [], "at"),
        ("timestamptz", [("id", "bucket[1]")], "at"),
    ],
)
def test_files_whose_rows_are_all_past_their_retention_go_and_all_others_stay(
    spark: SparkSession, tmp_path: Path, kind: str, partitions: list[tuple[str, str]], column: str
) -> None:
    catalog = Catalog(session.start(), embedded(tmp_path))
    fields = [
        {"id": 1, "name": "id", "required": False, "type": "long"},
        {"id": 2, "name": "at", "required": False, "type": kind},
    ]
    catalog.create("db.t", json.dumps({"type": "struct", "schema-id": 0, "fields": fields}), partitions, {})
    written = SqlCatalog("lakehouse", uri=f"sqlite:///{tmp_path}/catalog.db")
    schema = pa.schema([("id", pa.int64()), ("at", KINDS[kind])])
    for rows in ([(1, OLD), (2, LAST)], [(3, OLD), (4, YOUNG)], [(5, None)], [(6, OLD)], [(7, YOUNG)]):
        ids, times = zip(*rows, strict=True)
        values = pa.array(times, pa.timestamp("us", "UTC")).cast(KINDS[kind], safe=False)
        written.load_table("db.t").append(pa.table([pa.array(ids), values], schema=schema))
    context = MaintenanceContext(session.start(), catalog, CommitTarget("db.t"))
    keep = {"quiet": timedelta(days=365), "time_column": column, "small_files": 1000}
    never, ages = MaintenanceLimits(**keep), MaintenanceLimits(retention=timedelta(days=90), **keep)
    assert Rounds(context, never).need(NOW.timestamp()).old is None
    rounds = Rounds(context, ages)
    assert "are older than 90 d" in "\n".join(lines(plan(context, ages))), "the plan's time is today"

    done = rounds.run(NOW.timestamp()).done

    mixed = [3] if not any(name == "at" for name, _ in partitions) else []  # in the file of a young row
    assert rows_of(tmp_path) == sorted([4, 5, 7, *mixed])
    assert f"{4 - len(mixed)} rows in" in done[0]
    assert rounds.need(NOW.timestamp() + 60).old is None
    assert "deleted: at" not in " ".join(rounds.run(NOW.timestamp() + 7200).done)

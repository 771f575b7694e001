"""Snapshots go, and what others need of them stays."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from calve.commit.fence import append
from calve.commit.mark import CommitTarget, Mark
from calve.engine import session
from calve.engine.java.compiled import java_class
from calve.maintenance.context import MaintenanceContext
from calve.maintenance.equality_deletes import convert
from calve.maintenance.expire import expire
from calve.maintenance.upkeep import MaintenanceOptions, maintain
from commit.test_positions import NAME, Laws

pytestmark = pytest.mark.spark

NOW = timedelta(0)


def test_expiry_keeps_tags_branches_staged_batches_and_the_deletes_spec(kept) -> None:
    table = kept()
    table.change({1: ("x", 1), 2: ("y", 2)})
    tagged = table.java.currentSnapshot().snapshotId()
    table.java.manageSnapshots().createTag("needed", tagged).commit()
    table.change({1: ("y", 3)})
    table.change({1: ("x", 4)})
    convert(table.bench)
    staged = table.stage({2: ("x", 5)}, [1])
    asked = expire(table.bench, NOW, dry_run=True)
    assert asked.snapshots == expire(table.bench, NOW).snapshots > 0
    assert [one.snapshotId() for one in table.java.snapshots()].count(tagged) == 1
    assert table.catalog.load("db.t").unpartitioned_spec_id is not None
    table.commit(staged)
    assert table.rows() == table.oracle


def test_a_table_is_reported_before_and_after_and_a_dry_run_changes_nothing(kept) -> None:
    table = kept()
    table.change({1: ("x", 1), 2: ("y", 2)})
    table.change({1: ("y", 3)}, 2)
    before = table.bench.count()
    told: list[str] = []
    asked = maintain(table.bench, MaintenanceOptions(dry_run=True), told.append)
    assert told == ["convert", "compact", "expire", "orphans"]
    assert asked.before == asked.after == table.bench.count() == before
    done = maintain(table.bench, MaintenanceOptions(("convert", "expire"), NOW), told.append)
    assert (done.error, done.before.equality_deletes, done.after.equality_deletes) == (None, 2, 0)
    assert done.after.snapshots == 1
    assert done.to_dict()["done"][0]["step"] == "convert"
    assert table.rows() == table.oracle


@pytest.mark.parametrize("by_need", [True, False])
def test_a_puffin_file_stays_as_long_as_one_of_its_vectors_is_live(
    spark: SparkSession, tmp_path: Path, by_need: bool
) -> None:
    laws = Laws(spark, tmp_path, 1, ["int"], 3)

    def commit(kept: list[int], deleted: list[int]) -> None:
        laws.batch += 1
        files = {laws.batch: laws.files(kept, deleted)}
        append(laws.catalog, CommitTarget(NAME, write_mode="merge-on-read"), Mark("p", "s", laws.batch), files)

    commit([1, 2, 3], [])
    commit([4, 5, 6], [])
    commit([], [1, 4])  # one Puffin file with two vectors
    commit([], [2])  # replaces one of them
    commit([7], [])
    context = MaintenanceContext(session.start(), laws.catalog, CommitTarget(NAME))
    if by_need:
        table = laws.java
        old = [snapshot.snapshotId() for snapshot in table.snapshots()][:-1]
        java_class(context.jvm, "calve.maintenance.branch_state", "Files").newInstance().expire(table, old)
    else:
        expire(context, NOW)
    assert len(list(laws.java.snapshots())) == 1
    rows = spark.sql(f"select key from lakehouse.{NAME} order by key").collect()
    assert [row[0] for row in rows] == [3, 5, 6, 7]

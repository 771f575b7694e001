"""Maintenance by need of a table that only grows: the same rows in fewer files, and nothing that others need is gone."""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import get_args

import pyarrow.parquet as pq
import pytest

from calve.cli.maintenance_plan import lines, plan
from calve.commit.fence import append
from calve.commit.mark import CommitTarget, Mark
from calve.maintenance.by_need import BOUNDS_METADATA, MERGES_MANIFESTS, Rounds
from calve.maintenance.context import MaintenanceContext
from calve.maintenance.orphans import remove_orphans
from calve.record.target import WriteMode
from calve.table.limits import MaintenanceLimits
from maintenance.conftest import STATE, Kept

pytestmark = pytest.mark.spark

ALWAYS = timedelta(days=365)
LIMITS = MaintenanceLimits(small_files=5, quiet=ALWAYS, max_snapshots=8, least_age=timedelta(0))
PARTITIONS = (("city", "identity"), ("n", "truncate[100]"), ("city", "bucket[4]"), ("n", "bucket[1]"))


def add(table: Kept, rows: dict[int, tuple[str | None, int]]) -> None:
    """Append rows, as a pipeline without keys does."""
    table.commit([file for file in table.stage(rows) if file.is_data])


def beside(table: Kept, mode: WriteMode) -> MaintenanceContext:
    """Maintenance beside a pipeline with a write mode."""
    return MaintenanceContext(table.bench.spark, table.catalog, CommitTarget("db.t", write_mode=mode))


def sort_descending(table: Kept) -> None:
    iceberg = table.bench.jvm.org.apache.iceberg
    order = table.java.replaceSortOrder()
    order.desc(iceberg.expressions.Expressions.ref("n"), iceberg.NullOrder.NULLS_LAST).commit()


def files_of(table: Kept) -> dict[str, list[str]]:
    """The data files by partition."""
    found: dict[str, list[str]] = {}
    tasks = table.java.newScan().planFiles()
    iterator = tasks.iterator()
    while iterator.hasNext():
        path = Path(iterator.next().file().location().removeprefix("file:"))
        found.setdefault(str(path.parent.relative_to(table.home / "data")), []).append(str(path))
    tasks.close()
    return {name: sorted(paths) for name, paths in found.items()}


def _check_plan(table) -> None:
    """What is planned is told, and nothing is done."""
    before = files_of(table)
    asked = plan(table.bench, LIMITS)
    assert {one["step"]: one["due"] for one in asked["decisions"]} == {
        "compact": True,
        "deletes": False,
        "expire": True,
        "manifests": False,
        "metadata": True,
        "orphans": False,
    }
    told = "\n".join(lines(asked))
    assert "2 partitions with 5 or more files below 32 MiB" in told
    assert "city=x" in told
    assert "of data files; above 200 they are joined" in told
    assert files_of(table) == before


def test_a_partitioned_and_sorted_table_keeps_its_rows_its_marks_and_staged_files(kept) -> None:
    table = kept(PARTITIONS)
    sort_descending(table)
    for number in range(6):
        add(table, {number: ("x", number), 100 + number: (None, number)})
    add(table, {200: ("y", 7)})
    add(table, {201: ("y", 107)})
    tagged = table.java.currentSnapshot().snapshotId()
    table.java.manageSnapshots().createTag("calve-follower", tagged).commit()
    add(table, {202: ("y", 8)})
    table.java.updateProperties().set("unrelated", "1").commit()
    before, rounds = files_of(table), Rounds(table.bench, LIMITS)
    written = table.stage({203: ("z", 9)})
    staged = [file for file in written if file.is_data]
    table.oracle.pop(203)

    _check_plan(table)
    found = rounds.run()

    assert table.rows() == table.with_pyiceberg() == table.oracle
    after = files_of(table)
    joined = {name for name, files in before.items() if len(files) == 6}
    assert len(joined) == 2
    assert {name: len(after[name]) for name in joined} == dict.fromkeys(joined, 1)
    assert {name: files for name, files in after.items() if name not in joined} == {
        name: files for name, files in before.items() if name not in joined
    }
    for name in joined:
        assert pq.ParquetFile(after[name][0]).read(["n"])["n"].to_pylist() == [5, 4, 3, 2, 1, 0]
    assert any("12 data files joined into 2" in step for step in found.done)

    kept_ids = [one.snapshotId() for one in table.java.snapshots()]
    assert tagged in kept_ids
    assert len(kept_ids) < len(before) + 10
    assert table.java.properties().get(BOUNDS_METADATA) == "true"
    assert remove_orphans(table.bench, timedelta(0)).kept == len(written)
    again = {table.batch - 1: staged}
    assert append(table.catalog, CommitTarget("db.t"), Mark("p", STATE, table.batch), again).already
    table.commit(staged)
    assert table.rows() == {**table.oracle, 203: ("z", 9)}
    assert not rounds.run().done


@pytest.mark.parametrize("version", [2, 3])
def test_rows_that_a_merge_has_deleted_are_removed_when_they_are_many_and_merges_are_rare(kept, version: int) -> None:
    table: Kept = kept((), version)
    add(table, {number: ("x", number) for number in range(20)})
    session, prefix = table.spark.newSession(), "spark.sql.catalog.lakehouse"
    for key, value in {**table.catalog.properties, "cache-enabled": "false"}.items():
        session.conf.set(f"{prefix}.{key}", value)
    session.conf.set(prefix, "org.apache.iceberg.spark.SparkCatalog")
    table.java.updateProperties().set("write.delete.mode", "merge-on-read").commit()

    def delete(below: int) -> None:
        session.sql(f"delete from lakehouse.db.t where id < {below}")
        table.oracle = {key: row for key, row in table.oracle.items() if key >= below}

    limits = replace(LIMITS, quiet=timedelta(minutes=10), max_snapshots=0)
    merges, by_position, others = (Rounds(beside(table, mode), limits) for mode in get_args(WriteMode)[::-1])
    delete(6)
    assert not others.need().deletes
    delete(10)
    assert others.need().deletes
    assert by_position.need().deletes
    assert not merges.need().deletes
    soon = time.time() + 61
    assert merges.need(soon).deletes
    found = merges.run(soon)
    assert any("deleted rows removed from 1 data file" in step for step in found.done)
    assert table.rows() == table.oracle
    counts = table.bench.count()
    assert (counts.rows, counts.position_delete_files) == (10, 0)
    assert not merges.need(soon).deletes


def test_small_files_of_a_sorted_table_are_joined_in_order_and_in_groups_that_fit_into_memory_beside_deletes_by_position(
    kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    table: Kept = kept(())
    sort_descending(table)
    for number in range(6):
        add(table, {number: ("x", number), 100 + number: ("y", number)})
    limits = replace(LIMITS, quiet=timedelta(minutes=10))
    merges, by_position = (Rounds(beside(table, mode), limits) for mode in get_args(WriteMode)[:0:-1])
    assert merges.need().compaction is None
    assert MERGES_MANIFESTS not in merges.need().properties
    [paths] = files_of(table).values()
    with monkeypatch.context() as patch:
        patch.setattr("calve.maintenance.by_need.SORTED_BYTES", max(Path(path).stat().st_size for path in paths) * 2)
        patch.setattr("calve.maintenance.join.SORTED_BYTES", max(Path(path).stat().st_size for path in paths) * 2)
        assert any("6 data files joined into 3" in step for step in by_position.run().done)
    [paths] = files_of(table).values()
    for path in paths:
        numbers = pq.ParquetFile(path).read(["n"])["n"].to_pylist()
        assert len(numbers) == 4
        assert numbers == sorted(numbers, reverse=True)
    for number in range(6, 9):
        add(table, {number: ("x", number), 100 + number: ("y", number)})
    assert any("6 data files joined into 1" in step for step in by_position.run().done)
    assert table.java.properties().get(MERGES_MANIFESTS) == "20"
    table.java.updateProperties().set(MERGES_MANIFESTS, "50").commit()
    assert not by_position.need().properties
    [[path]] = files_of(table).values()
    assert pq.ParquetFile(path).read(["n"])["n"].to_pylist() == [number // 2 for number in range(17, -1, -1)]
    assert table.rows() == table.with_pyiceberg() == table.oracle

"""Batches that were staged for partitions which the table no longer has by default leave what a dictionary holds."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from calve.commit.mark import CommitTarget
from calve.maintenance.context import MaintenanceContext
from calve.maintenance.equality_deletes import convert
from calve.maintenance.rewrite import rewrite
from commit.changes import NAME, Changing
from commit.test_changes import MODES, named

pytestmark = pytest.mark.spark

EVERYTHING = {"rewrite-all": "true"}


def bench(table: Changing) -> MaintenanceContext:
    return MaintenanceContext(table.catalog.spark, table.catalog, CommitTarget(NAME))


def repartition(table: Changing, *fields: str) -> None:
    """Replace the default spec, as ALTER TABLE does; `place` by its values, others in three buckets."""
    java = table.catalog.load_java(NAME)
    update = java.updateSpec()
    for field in java.spec().fields():
        update = update.removeField(field.name())
    bucket = table.catalog.spark.jvm.org.apache.iceberg.expressions.Expressions.bucket
    for field in fields:
        update = update.addField(field) if field == "place" else update.addField(bucket(field, 3))
    update.commit()


def rewritten(table: Changing) -> None:
    """Another writer moves every row under the spec that is the default now."""
    rewrite(bench(table), EVERYTHING)


ALL = [("c", key, 0, "x") for key in range(6)]
STEPS: list[tuple[Callable[[Changing], Any], list[Any]]] = [
    (
        lambda table: (repartition(table, "id"), rewritten(table)),
        [("u", 1, 0, "y"), ("d", 2, 0, None), ("c", 2, 1, "x")],
    ),
    (lambda table: repartition(table, "id", "place"), [("u", 4, 0, "y"), ("u", 1, 0, "x"), ("d", 5, 0, None)]),
    (lambda table: (repartition(table), rewritten(table)), [("u", 4, 0, "x"), ("d", 3, 0, None), ("d", 1, 0, None)]),
]


CASES = [(MODES[0], 2, 1), (MODES[0], 3, 2), (MODES[1], 2, 2), (MODES[1], 3, 1), (MODES[2], 2, 1)]


@pytest.mark.parametrize(("mode", "version", "ahead"), CASES)
def test_staged_batches_hold_for_rows_of_every_spec_that_the_table_has_by_then(
    spark: SparkSession, tmp_path: Path, mode: str, version: int, ahead: int
) -> None:
    table = Changing(named(spark, tmp_path), tmp_path, "long", [("id", "bucket[2]")], version)
    table.create()
    table.commit({1: table.stage(ALL)}, mode)
    pending: dict[int, Any] = {}
    for turn, changes in STEPS:
        table.prepare()
        files = table.stage(changes)
        pending[table.batch] = files
        turn(table)
        if len(pending) == ahead:
            table.commit(pending, mode)
            pending = {}
            assert table.in_spark() == table.expected()
    table.commit(pending, mode)
    assert table.in_spark() == table.expected()
    convert(bench(table))
    assert bench(table).count().equality_delete_files == 0
    assert table.in_spark() == table.in_pyiceberg() == table.expected()


def test_staged_deletes_hold_although_the_spec_was_removed_that_no_committed_file_had(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = Changing(named(spark, tmp_path), tmp_path, "long", [("place", "identity")], 2)
    table.create()
    table.commit({1: table.stage(ALL)}, MODES[0])
    files = table.stage([("u", 1, 0, "y"), ("d", 2, 0, None)])
    assert table.catalog.load(NAME).has_other_specs  # type: ignore[union-attr]
    table.catalog.load_java(NAME).expireSnapshots().cleanExpiredMetadata(True).commit()
    assert not table.catalog.load(NAME).has_other_specs  # type: ignore[union-attr]
    table.commit({2: files}, MODES[0])
    assert table.in_spark() == table.expected()

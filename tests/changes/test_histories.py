"""The changes of random histories, applied to nothing, give the table at every snapshot (read with `VERSION AS OF`)."""

from __future__ import annotations

import math
import os
from collections import Counter
from functools import partial
from typing import Any
from unittest import mock

import pytest
from pyspark.sql import Row, SparkSession

from calve.catalog.catalog import Catalog
from calve.changes import plan
from calve.changes.diff import CHANGE
from calve.changes.identity import ROW_ID
from calve.changes.plan import Planner
from calve.changes.spark_columns import SparkColumns, spark_columns
from calve.changes.table_changes import TableChanges
from calve.engine import session
from changes.history import Kind, Table
from changes.values import Known, field_ids, known, rows_of, without

pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),  # PySpark's, of `collect`
]

SNAPSHOTS = int(os.environ.get("CALVE_CHANGES_SNAPSHOTS", "12"))
"""How many snapshots are looked at in all; each takes about 1.7 seconds of CPU. CALVE_CHANGES_SHOW=1 prints them."""
LONGEST = 40
"""Snapshots of one table at most."""
SEED = int(os.environ.get("CALVE_CHANGES_SEED", "1"))
KINDS = [
    Kind("copy-on-write", 2, "p", has_key=True),
    Kind("copy-on-write", 3, "bucket(2, id)", has_key=False),
    Kind("merge-on-read", 2, "", has_key=False),
    Kind("merge-on-read", 3, "p", has_key=True),
    Kind("mixed", 2, "truncate(1, s)", has_key=False),
    Kind("mixed", 3, "", has_key=False),
]
OLD, NEW = ("DELETE", "UPDATE_BEFORE"), ("INSERT", "UPDATE_AFTER")


class Follower:
    """Somebody who knows of a table only what its changes tell."""

    def __init__(self, spark: SparkSession, table: Table) -> None:
        self.table = table
        self.spark = spark
        self.told = TableChanges(Planner(session.start()), table.identifier, table.java)
        self.after: int | None = None
        self.rows: Counter[Known] = Counter()
        self.documents: dict[Any, Known] = {}
        self.by_row_id = table.kind.version == 3 and not table.kind.has_key

    def catch_up(self) -> None:
        for step in self.told.steps(self.after):
            java = self.table.java()
            ids = field_ids(java)
            self._drop_columns(set(ids.values()))
            with self.told.of(step) as frame:
                rows = [] if frame is None else frame.collect()
            changes = [(row[CHANGE], known(row, ids), row) for row in rows]
            wanted = rows_of(
                self.spark.sql(f"SELECT * FROM {self.table.name} VERSION AS OF {step.snapshot.snapshot_id}"), ids
            )
            where = f"{step.snapshot.operation} after {self.table.done[-6:]}"
            if os.environ.get("CALVE_CHANGES_SHOW"):
                print(self.table.kind, where, len(changes), flush=True)
            self._apply(changes, wanted, where)
            self._apply_by_key(changes, ids, where)
            self.after = step.snapshot.snapshot_id

    def _apply(self, changes: list[tuple[str, Known, Row]], wanted: Counter[Known], where: str) -> None:
        gone = Counter(row for change, row, _ in changes if change in OLD)
        come = Counter(row for change, row, _ in changes if change in NEW)
        assert self.rows - gone + come == wanted, where
        if (
            self.table.kind.has_key or self.table.version < 3
        ):  # else a row may make way for an equal one with another id
            assert gone == self.rows - wanted, where
            assert come == wanted - self.rows, where
        self.rows = wanted

    def _apply_by_key(self, changes: list[tuple[str, Known, Row]], ids: dict[str, int], where: str) -> None:
        """As a store of documents does: every change must fit what is there."""
        if not (self.by_row_id or self.table.kind.has_key):
            return
        for change, row, whole in changes:
            key = whole[ROW_ID] if self.by_row_id else whole["id"]
            if change in OLD:
                assert self.documents.pop(key) == row, where
            else:
                assert key not in self.documents, where
                self.documents[key] = row
        pairs = Counter(whole[ROW_ID] if self.by_row_id else whole["id"] for _, _, whole in changes)
        assert all(
            (change.startswith("UPDATE")) == (pairs[whole[ROW_ID] if self.by_row_id else whole["id"]] == 2)
            for change, _, whole in changes
        ), where
        assert Counter(self.documents.values()) == self.rows, where

    def _drop_columns(self, left: set[int]) -> None:
        for field_id in {pair[0] for row in self.rows for pair in row} - left:
            self.rows = without(self.rows.elements(), field_id)
            self.documents = {key: next(iter(without([row], field_id))) for key, row in self.documents.items()}


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_changes_applied_to_nothing_give_the_table_at_every_snapshot(
    spark: SparkSession, lake: Catalog, kind: Kind
) -> None:
    share = math.ceil(SNAPSHOTS / len(KINDS))
    tables = math.ceil(share / LONGEST)
    for number in range(tables):
        table = Table(spark, lake, kind, seed=f"{SEED} {kind} {number}")
        follower = Follower(spark, table)
        for _ in range(math.ceil(share / tables)):
            table.change()
            follower.catch_up()
        _read_again(spark, lake, table, follower)


def _unreadable(schema_json: str) -> SparkColumns:
    return spark_columns(schema_json)._replace(is_readable=False)


def _read_again(spark: SparkSession, lake: Catalog, table: Table, follower: Follower) -> None:
    """The whole line at once, with the schema as it is in the end, gives the table as it is in the end.

    Here Iceberg's generic reader reads the files, as those of tables with types that Spark lacks.
    """
    told = TableChanges(Planner(session.start()), table.identifier, partial(lake.load_java, table.identifier))
    ids = field_ids(table.java())
    rows: Counter[Known] = Counter()
    for step in told.steps():
        with mock.patch.object(plan, "spark_columns", _unreadable), told.of(step) as frame:
            for row in [] if frame is None else frame.collect():
                rows[known(row, ids)] += 1 if row[CHANGE] in NEW else -1
                assert rows[known(row, ids)] >= 0 or row[CHANGE] in OLD
    assert +rows == rows_of(spark.table(table.name), ids)
    assert min(rows.values(), default=0) >= 0

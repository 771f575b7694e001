"""Long histories, made of files without a query engine: the changes of every snapshot are what the model says.

Appends, copy-on-write, files that are dropped, equality deletes and their removal, compaction, at some ten milliseconds a
snapshot; `test_histories` has what only Spark writes: position deletes, vectors, schema and partition evolution.
"""

from __future__ import annotations

import os
import random
import uuid
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial, reduce
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from calve.catalog.catalog import Catalog
from calve.changes.diff import CHANGE
from calve.changes.plan import Planner
from calve.changes.snapshot import SnapshotStep
from calve.changes.table_changes import TableChanges
from calve.engine import session

pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),  # PySpark's, of `collect`
]

SNAPSHOTS = int(os.environ.get("CALVE_CHANGES_FILES", "24"))
"""How many snapshots are looked at in all."""
SEED = int(os.environ.get("CALVE_CHANGES_SEED", "1"))
AT_ONCE = 24
"""Snapshots whose changes one query gives."""
SCHEMA = pa.schema(
    [
        pa.field("id", pa.int32(), metadata={"PARQUET:field_id": "1"}),
        pa.field("v", pa.string(), metadata={"PARQUET:field_id": "2"}),
    ]
)
Rows = Counter[tuple[int, str]]


@dataclass
class File:
    """A file of the table: rows, or the ids of an equality delete, and the number of its commit."""

    java: Any
    rows: list[tuple[int, str]]
    number: int


@dataclass
class Model:
    """A table that is changed by whole files, and the rows that it must have at every snapshot."""

    spark: SparkSession
    lake: Catalog
    version: int
    random: random.Random
    files: list[File] = field(default_factory=list)
    deletes: list[File] = field(default_factory=list)
    expected: list[Rows] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.identifier = f"db.f{uuid.uuid4().hex[:8]}"
        self.spark.sql(
            f"CREATE TABLE lake.{self.identifier} (id INT, v STRING) USING iceberg "
            f"TBLPROPERTIES ('format-version'='{self.version}', 'commit.manifest.min-count-to-merge'='12')"
        )
        self.table = self.lake.load_java(self.identifier)
        self.iceberg = self.spark._jvm.org.apache.iceberg
        self.number = 0

    def live(self, file: File) -> list[tuple[int, str]]:
        gone = {row[0] for delete in self.deletes if delete.number > file.number for row in delete.rows}
        return [row for row in file.rows if row[0] not in gone]

    def change(self) -> None:
        before = self.number
        while self.number == before:
            self.random.choice(
                [self.append, self.append, self.rewrite, self.drop, self.delete, self.restore, self.compact]
            )()
        self.expected.append(Counter(row for file in self.files for row in self.live(file)))

    def append(self) -> None:
        rows = [(self.random.randrange(40), self.random.choice("abc")) for _ in range(self.random.randint(1, 9))]
        file = self._file(rows)
        self._commit(self.table.newAppend().appendFile(file.java))
        self.files.append(file)

    def rewrite(self) -> None:
        """Copy-on-write: a file is replaced by one that has most of its rows."""
        if self.files:
            old = self.random.choice(self.files)
            rows = [(row[0], "new" if self.random.random() < 0.2 else row[1]) for row in self.live(old)]
            new = self._file(rows[1:] or [(99, "x")])
            self._commit(self.table.newOverwrite().deleteFile(old.java).addFile(new.java))
            self.files = [file for file in self.files if file is not old] + [new]

    def drop(self) -> None:
        if len(self.files) > 3:
            old = self.random.choice(self.files)
            self._commit(self.table.newDelete().deleteFile(old.java))
            self.files.remove(old)

    def delete(self) -> None:
        ids = sorted({self.random.randrange(40) for _ in range(self.random.randint(1, 4))})
        delete = self._delete(ids)
        self._commit(self.table.newRowDelta().addDeletes(delete.java))
        self.deletes.append(delete)

    def restore(self) -> None:
        if len(self.deletes) > 2:
            old = self.random.choice(self.deletes)
            self._commit(self.table.newRowDelta().removeDeletes(old.java))
            self.deletes.remove(old)

    def compact(self) -> None:
        """Two files become one with their live rows, which changes nothing."""
        if len(self.files) > 4:
            old = self.random.sample(self.files, 2)
            rows = [row for file in old for row in self.live(file)]
            if not rows:
                return
            new = self._file(rows)
            update = self.table.newRewrite().validateFromSnapshot(self.table.currentSnapshot().snapshotId())
            for file in old:
                update = update.deleteFile(file.java)
            self._commit(update.addFile(new.java))
            self.files = [file for file in self.files if file not in old] + [new]

    def _commit(self, update: Any) -> None:
        update.commit()
        self.table.refresh()
        self.number += 1

    def _written(self, rows: pa.Table, kind: str) -> Path:
        path = Path(self.table.location().removeprefix("file:")) / "data" / f"{kind}-{uuid.uuid4().hex}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(rows, path)
        return path

    def _file(self, rows: list[tuple[int, str]]) -> File:
        ids, values = zip(*rows, strict=True)
        path = self._written(pa.table([pa.array(ids, pa.int32()), pa.array(values)], schema=SCHEMA), "rows")
        made = self.iceberg.DataFiles.builder(self.table.spec()).withPath(str(path)).withFormat("parquet")
        made = made.withFileSizeInBytes(path.stat().st_size).withRecordCount(len(rows)).build()
        return File(made, rows, self.number + 1)

    def _delete(self, ids: list[int]) -> File:
        path = self._written(pa.table([pa.array(ids, pa.int32())], schema=pa.schema([SCHEMA.field(0)])), "ids")
        column = self.spark.sparkContext._gateway.new_array(self.spark._jvm.int, 1)
        column[0] = 1
        made = self.iceberg.FileMetadata.deleteFileBuilder(self.table.spec()).ofEqualityDeletes(column)
        made = made.withPath(str(path)).withFormat("parquet").withFileSizeInBytes(path.stat().st_size)
        return File(made.withRecordCount(len(ids)).build(), [(number, "") for number in ids], self.number + 1)


@pytest.mark.parametrize("version", [2, 3])
def test_the_changes_of_every_snapshot_are_what_the_model_says(
    spark: SparkSession, lake: Catalog, version: int
) -> None:
    model = Model(spark, lake, version, random.Random(f"{SEED} {version}"))
    for _ in range(SNAPSHOTS // 2):
        model.change()
    told = TableChanges(Planner(session.start()), model.identifier, partial(lake.load_java, model.identifier))
    steps = told.steps()
    assert len(steps) == len(model.expected)
    rows: Rows = Counter()
    for start in range(0, len(steps), AT_ONCE):
        for number, (gone, come) in enumerate(_changes(told, steps[start : start + AT_ONCE]), start):
            wanted = model.expected[number]
            assert rows - gone + come == wanted, (number, steps[number].snapshot.operation)
            if version == 2:  # else a row may make way for an equal one with another id
                assert (gone, come) == (rows - wanted, wanted - rows)
            rows = wanted


def _changes(told: TableChanges, steps: list[SnapshotStep]) -> list[tuple[Rows, Rows]]:
    """What goes and what comes in each of some steps."""
    found: list[tuple[Rows, Rows]] = [(Counter(), Counter()) for _ in steps]
    with ExitStack() as plans:
        frames = [(number, plans.enter_context(told.of(step))) for number, step in enumerate(steps)]
        numbered = [frame.withColumn("_step", f.lit(number)) for number, frame in frames if frame is not None]
        for row in reduce(DataFrame.unionAll, numbered).collect():
            found[row["_step"]][row[CHANGE] in ("INSERT", "UPDATE_AFTER")][row["id"], row["v"]] += 1
    return found

"""The laws of deletes by position: whatever others do to a table, each commit leaves exactly the rows of a model."""

from __future__ import annotations

import collections
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from pyiceberg.table import StaticTable
from pyspark.sql import SparkSession

from calve.commit.fence import append, validate_files
from calve.commit.mark import CommitTarget, Mark
from calve.engine import session
from calve.maintenance.context import MaintenanceContext
from calve.maintenance.rewrite import rewrite
from calve.record.content_file import ContentFile
from calve.record.target import WriteMode
from calve.reduce.key import Key, identified
from calve.table.arrow_schema import arrow_schema
from calve.table.definition import schema_from_columns
from calve.write.writer import Writers
from commit.test_changes import die_at, named
from commit.test_key_search import KINDS
from kit.examples import examples
from kit.readers import with_rust
from services import duckdb_iceberg

pytestmark = pytest.mark.spark

NAME = "db.t"
Model = collections.Counter[tuple[int, int]]
"""How often a table has each row: the number of its key, and its version."""


class Laws:
    """A table that a pipeline and its neighbours write to, beside a model of its rows."""

    uses_equality_deletes = keeps_row_ids = False

    def __init__(self, spark: SparkSession, folder: Path, seed: int, kinds: list[str], version: int) -> None:
        self.catalog = named(spark, folder, "file://")
        self.chosen, self.kinds, self.version = random.Random(seed), kinds, version
        names = [f"k{at}" for at, _ in enumerate(kinds)]
        columns = [{"name": name, "type": kind, "required": True} for name, kind in zip(names, kinds, strict=True)]
        columns += [{"name": name, "type": kind} for name, kind in (("place", "string"), ("key", "int"), ("n", "long"))]
        schema = identified(schema_from_columns(columns), names)
        spec = [("place", "identity")] if kinds == ["date"] else []
        self.catalog.create(NAME, schema.model_dump_json(), spec, {"format-version": str(version)})
        self.model: Model = collections.Counter()
        self.history: list[tuple[int, Model]] = []
        self.batch = self.number = 0
        self.pipeline, self.keys = "p", None

    @property
    def java(self) -> Any:
        return self.catalog.load_java(NAME)

    def files(self, kept: list[int], deleted: list[int], equality: bool = False) -> list[ContentFile]:
        """Write rows and the keys of rows to delete, as a task does; only equality deletes need an unpartitioned spec."""
        self.number += 1
        table = self.catalog.load(NAME)
        assert table
        key = Key(table)
        if equality and not key.names_partition and table.unpartitioned_spec_id is None:
            table = self.catalog.add_unpartitioned_spec(NAME)
            key = Key(table)
        values = [[KINDS[kind](number // 2 if at else number) for number in kept] for at, kind in enumerate(self.kinds)]
        places = [self.chosen.choice("xy") for _ in kept]
        writers = Writers(f"p-{self.number:08d}", 10)
        types = arrow_schema(table.schema)
        columns = dict(zip(types.names, [*values, places, kept, [self.number] * len(kept)], strict=False))
        if kept:
            nothing = [None] * len(kept)  # columns that a neighbour has added
            rows = pa.table({field.name: pa.array(columns.get(field.name, nothing), field.type) for field in types})
            writers.write("rows", table, {}, rows.cast(arrow_schema(key.required.schema)))  # type: ignore[arg-type]
        if deleted:
            values = [
                [KINDS[kind](number // 2 if at else number) for number in deleted] for at, kind in enumerate(self.kinds)
            ]
            keys = [pa.array(one, field.type) for one, field in zip(values, key.arrow_schema, strict=True)]
            writers.write("keys", key.deletes, {}, pa.table(keys, schema=key.arrow_schema), key.ids)  # type: ignore[arg-type]
        closed = writers.close().values()
        return [msgspec.json.decode(file, type=ContentFile) for one in closed for file in one.files]

    def batches(self) -> tuple[dict[int, list[ContentFile]], Callable[[Model], Model]]:
        """Stage some batches; return also what they do to rows."""
        staged, steps = {}, []
        for _ in range(self.chosen.randint(1, 3)):
            self.batch += 1
            keys = self.chosen.sample(range(40), self.chosen.randint(1, 12))
            kept = keys[self.chosen.randint(0, len(keys)) :]
            fresh = [key for key in self.chosen.sample(range(40), self.chosen.choice((0, 2))) if key not in keys]
            staged[self.batch] = self.files(kept + fresh, keys, self.uses_equality_deletes)
            steps.append((set(keys), [(key, self.number) for key in kept + fresh]))

        def applied(model: Model) -> Model:
            for keys, rows in steps:
                model = collections.Counter({row: count for row, count in model.items() if row[0] not in keys})
                model.update(rows)
            return model

        return staged, applied

    def commit(self, mode: WriteMode, death: str | None, neighbour: Callable[[], None] | None) -> None:
        """Commit some batches, perhaps after a death, perhaps while a neighbour commits too."""
        staged, applied = self.batches()
        target = CommitTarget(NAME, write_mode=mode, keys=self.keys, keeps_row_ids=self.keeps_row_ids)
        mark = Mark(self.pipeline, "s", self.batch)

        def overtake(point: str) -> None:
            if point == "commit.before-swap" and neighbours:
                neighbours.pop()()

        die_at(death, lambda: append(self.catalog, target, mark, staged))
        neighbours = [neighbour] if neighbour and death != "commit.after-swap" else []
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("calve.commit.swap.stop_at", overtake)
            append(self.catalog, target, mark, staged)
        self.model = applied(self.model)

    def by_sql(self, text: str) -> None:
        self.catalog.spark.session.sql(text.format(t=f"lakehouse.{NAME}"))

    def adds(self) -> None:
        """Duplicate keys."""
        keys = self.chosen.sample(range(40), 3)
        files = self.files(keys, [])
        append(self.catalog, CommitTarget(NAME), Mark(f"other{self.number}", "s", 1), {1: files})
        self.model.update((key, self.number) for key in keys)

    def deletes(self) -> None:
        """Delete by Spark, which writes positions, or files without the rows."""
        first, mode = self.chosen.randrange(40), self.chosen.choice(("merge-on-read", "copy-on-write"))
        self.by_sql(f"alter table {{t}} set tblproperties ('write.delete.mode' = '{mode}')")
        self.by_sql(f"delete from {{t}} where key between {first} and {first + 5}")
        self.model = collections.Counter({row: n for row, n in self.model.items() if not first <= row[0] <= first + 5})

    def deletes_by_key(self) -> None:
        """Commit equality deletes, as another pipeline does."""
        keys = self.chosen.sample(range(40), 3)
        files = self.files([], keys, equality=True)
        append(self.catalog, CommitTarget(NAME), Mark(f"other{self.number}", "s", 1), {1: files})
        self.model = collections.Counter({row: n for row, n in self.model.items() if row[0] not in keys})

    def deletes_by_position(self) -> None:
        """Commit deletes by position, as another pipeline does."""
        self.deletes_of(self.chosen.sample(range(40), 3))

    def deletes_of(self, keys: list[int]) -> None:
        files = self.files([], keys)
        append(
            self.catalog,
            CommitTarget(NAME, write_mode="merge-on-read"),
            Mark(f"other{self.number}", "s", 1),
            {1: files},
        )
        self.model = collections.Counter({row: n for row, n in self.model.items() if row[0] not in keys})

    def compacts(self) -> None:
        rewrite(MaintenanceContext(session.start(), self.catalog, CommitTarget(NAME)), {"rewrite-all": "true"})

    def goes_back(self) -> None:
        if self.history:
            snapshot, rows = self.chosen.choice(self.history[-4:])
            self.java.manageSnapshots().setCurrentSnapshot(snapshot).commit()
            self.model = collections.Counter(rows)

    def changes_the_spec(self) -> None:
        column, update = self.chosen.choice(("place", "key")), self.java.updateSpec()
        has = [field.name() for field in self.java.spec().fields()]
        (update.removeField(column) if column in has else update.addField(column)).commit()

    def changes_columns(self) -> None:
        update, name = self.java.updateSchema(), self.java.schema().findColumnName(1)
        if self.kinds[0] == "int":
            update.updateColumn(name, self.catalog.spark.jvm.org.apache.iceberg.types.Types.LongType.get())
        update.renameColumn(name, f"k0_{self.number}").commit()

    def check(self, has_equality_deletes: bool) -> None:
        """Compare the rows of each reader that can read the table with the model."""
        expected = sorted(self.model.elements())
        rows = self.catalog.spark.session.sql(f"select key, n from lakehouse.{NAME}").collect()
        assert sorted(map(tuple, rows)) == expected
        metadata = self.java.operations().current().metadataFileLocation()
        if not has_equality_deletes:
            scanned = StaticTable.from_metadata(metadata).scan(selected_fields=("key", "n")).to_arrow()
            assert sorted(zip(scanned["key"].to_pylist(), scanned["n"].to_pylist(), strict=True)) == expected
        if self.version == 2 and "uuid" not in self.kinds:
            assert sorted(map(tuple, with_rust(metadata, "select key, n from t"))) == expected
        self.history.append((int(self.java.currentSnapshot().snapshotId()), self.model.copy()))

    def check_in_duckdb(self, duckdb: duckdb_iceberg.Reader | None) -> None:
        """Compare what DuckDB reads, which knows all kinds of deletes."""
        if duckdb:
            metadata = self.java.operations().current().metadataFileLocation()
            rows = Model(map(tuple, duckdb.query("SELECT key, n FROM iceberg_scan(?)", metadata)))
            assert rows == self.model, f"DuckDB lacks {self.model - rows}, and has too many {rows - self.model}"


NEIGHBOURS = (
    "adds",
    "adds",
    "deletes",
    "deletes_by_key",
    "compacts",
    "goes_back",
    "changes_the_spec",
    "changes_columns",
)
DEATHS = (None, None, None, "commit.before-swap", "commit.after-swap")


@pytest.mark.parametrize(
    ("kinds", "version"),
    [(["int"], 3), (["string"], 2), (["int", "string"], 3), (["uuid"], 3), (["decimal(38, 3)"], 2), (["date"], 3)],
)
def test_each_commit_leaves_the_rows_of_the_model_whatever_neighbours_do(
    spark: SparkSession, tmp_path: Path, duckdb: duckdb_iceberg.Reader | None, kinds: list[str], version: int
) -> None:
    for seed in range(examples(1)):
        laws = Laws(spark, tmp_path / f"{seed}", hash((seed, *map(len, kinds))), kinds, version)
        for _ in range(3):
            for action in laws.chosen.sample(NEIGHBOURS, laws.chosen.choice((0, 1, 1, 2))):
                getattr(laws, action)()
            racing = laws.chosen.choice((None, None, laws.adds, laws.compacts, laws.deletes_by_key))
            laws.commit("merge-on-read", laws.chosen.choice(DEATHS), racing)
            summary = dict(laws.java.currentSnapshot().summary())
            assert "spark.app.id" not in summary  # of a MERGE
            laws.check(summary["total-equality-deletes"] != "0")
            laws.check_in_duckdb(duckdb)
        if version == 2:  # its position deletes go on in vectors
            laws.version = 3
            laws.java.updateProperties().set("format-version", "3").commit()
            laws.commit("merge-on-read", None, None)
            laws.check(has_equality_deletes=True)


@pytest.mark.parametrize("version", [2, 3])
def test_a_commit_deletes_each_row_once_in_one_snapshot_with_one_delete_file(
    spark: SparkSession, tmp_path: Path, version: int
) -> None:
    laws = Laws(spark, tmp_path, 1, ["int"], version)

    def commit(*batches: tuple[list[int], list[int]]) -> dict[str, str]:
        staged = {laws.batch + at: laws.files(*batch) for at, batch in enumerate(batches, 1)}
        laws.batch += len(batches)
        append(laws.catalog, CommitTarget(NAME, write_mode="merge-on-read"), Mark("p", "s", laws.batch), staged)
        return dict(laws.java.currentSnapshot().summary())

    commit((list(range(10)), []))
    summary = commit(([1, 2], [1, 2]), ([2, 3], [2, 3]), ([], [4]))
    assert len(list(laws.java.snapshots())) == 2
    assert summary["total-position-deletes"] == "5"  # 1 to 4, and the row of 2 in a file of the same commit
    assert summary["calve.batch"] == "4"
    for _ in range(2):
        commit(([2], [2]))
    parent = laws.java.snapshot(laws.java.currentSnapshot().parentId())
    read = [Path(manifest.path().removeprefix("file:")) for manifest in parent.dataManifests(laws.java.io())]
    for path in read:
        path.rename(f"{path}.away")
    summary = commit(([2], [2]))  # it opens no manifest of data files that the commit before has read
    for path in read:
        Path(f"{path}.away").rename(path)
    assert summary["total-position-deletes"] == "8"  # rows that are deleted already are not deleted again
    assert summary["added-delete-files"] == "1"
    files = laws.java.currentSnapshot().addedDeleteFiles(laws.java.io())
    assert {file.format().toString() for file in files} == {"PUFFIN" if version == 3 else "PARQUET"}
    expected = [0, 1, 2, 3, 5, 6, 7, 8, 9]
    rows = spark.sql(f"select key from lakehouse.{NAME} order by key").collect()
    assert [row[0] for row in rows] == expected
    before = {path for path in tmp_path.rglob("*") if path.suffix in (".parquet", ".puffin", ".avro")}
    staged = {laws.batch + 1: laws.files([2], [2, 5])}
    keys = {Path(file.file_path.removeprefix("file:")) for file in staged[laws.batch + 1]}
    validate_files(laws.catalog, CommitTarget(NAME, write_mode="merge-on-read"), Mark("p", "s", laws.batch + 1), staged)
    after = {path for path in tmp_path.rglob("*") if path.suffix in (".parquet", ".puffin", ".avro")}
    assert after - before == keys


def test_files_that_only_spark_can_search_are_merged_and_partitions_without_the_key_are_not_read(
    spark: SparkSession, tmp_path: Path
) -> None:
    laws = Laws(spark, tmp_path, 1, ["int"], 2)
    target = CommitTarget(NAME, write_mode="merge-on-read")
    laws.java.updateSpec().addField("k0").commit()
    append(laws.catalog, target, Mark("p", "s", 1), {1: laws.files([1, 2, 3], [])})
    paths = {
        row[0]: row[1] for row in spark.sql(f"select partition.k0, file_path from lakehouse.{NAME}.files").collect()
    }
    Path(paths[KINDS["int"](3)].removeprefix("file:")).rename(tmp_path / "away")
    append(laws.catalog, target, Mark("p", "s", 2), {2: laws.files([1], [1])})
    (tmp_path / "away").rename(paths[KINDS["int"](3)].removeprefix("file:"))
    laws.by_sql("alter table {t} set tblproperties ('write.format.default' = 'avro')")
    laws.by_sql(f"insert into {{t}} values ({KINDS['int'](4)}, 'x', 4, 0)")
    append(laws.catalog, target, Mark("p", "s", 3), {3: laws.files([2, 4], [2, 4])})
    rows = spark.sql(f"select key, n from lakehouse.{NAME} order by key").collect()
    assert [tuple(row) for row in rows] == [(1, 2), (2, 3), (3, 1), (4, 3)]

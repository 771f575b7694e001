"""Row ids kept over upserts: a key that has a row before and after a commit keeps its id, whatever happens between."""

from __future__ import annotations

import random
from pathlib import Path

import msgspec
import pyarrow as pa
import pytest
from pyiceberg.table import StaticTable
from pyspark.sql import SparkSession

from calve.changes.plan import Planner
from calve.changes.table_changes import TableChanges
from calve.commit.fence import append
from calve.commit.key_search import KeySearch
from calve.commit.mark import CommitTarget, Mark
from calve.commit.row_ids import NEW_ROW_IDS, OlderIds
from calve.engine import session
from calve.maintenance.context import MaintenanceContext
from calve.maintenance.join import join
from calve.record.content_file import ContentFile
from calve.record.target import RowStream
from calve.reduce.key import Key
from calve.table.arrow_schema import arrow_schema
from calve.table.definition import schema_from_columns
from calve.table.loaded import Table
from calve.write.writer import Writers
from commit.test_changes import DEATHS, die_at, named
from kit.examples import examples

NAME = "db.t"
KEYS = range(30)
COLUMNS = [
    {"name": "key", "type": "struct<a: long, b: string>"},
    {"name": "place", "type": "string"},
    {"name": "n", "type": "long"},
    {"name": "list", "type": "list<double>"},
]
KEY = ["key.a", "place"]


class Upserts:
    """A table without identifier fields that a pipeline upserts into, beside the newest value and the id of each key."""

    def __init__(self, spark: SparkSession, folder: Path, seed: int) -> None:
        self.catalog, self.chosen = named(spark, folder, "file://"), random.Random(seed)
        spec = [("place", "identity")] if seed % 2 else []
        schema = schema_from_columns(COLUMNS)
        self.catalog.create(NAME, schema.model_dump_json(), spec, {"format-version": "3"})
        self.values: dict[int, int] = {}
        self.ids: dict[int, int] = {}
        self.used: set[int] = set()
        self.batch = 0

    def stage(self, kept: list[int], deleted: list[int]) -> list[ContentFile]:
        """Write the rows and the deleted keys of a batch as a task does."""
        self.batch += 1
        table = self.catalog.load(NAME)
        assert table
        key, writers, types = Key(table, KEY), Writers(f"p-{self.batch:08d}", 10), arrow_schema(table.schema)
        writers.write(RowStream(0, "rows"), table, {}, pa.Table.from_pylist(list(map(self.row, kept)), types))
        keys = [{"key": {"a": number}, "place": "xy"[number % 2]} for number in deleted]
        writers.write(RowStream(0, "gone"), key.deletes, {}, pa.Table.from_pylist(keys, key.arrow_schema), key.ids)
        self.values = {number: value for number, value in self.values.items() if number not in deleted}
        self.values |= dict.fromkeys(kept, self.batch)
        return [msgspec.json.decode(file, type=ContentFile) for made in writers.close().values() for file in made.files]

    def row(self, number: int) -> dict[str, object]:
        return {"key": {"a": number, "b": "x"}, "place": "xy"[number % 2], "n": self.batch, "list": [0.5, None]}

    def batches(self) -> dict[int, list[ContentFile]]:
        staged = {}
        for _ in range(self.chosen.randint(1, 3)):
            deleted = self.chosen.sample(KEYS, self.chosen.randint(1, 12))
            files = self.stage(deleted[self.chosen.randint(0, 3) :], deleted)
            staged[self.batch] = files
        return staged

    def commit(
        self, staged: dict[int, list[ContentFile]], death: str | None = None, is_overtaken: bool = False
    ) -> None:
        target = CommitTarget(NAME, write_mode="merge-on-read", keeps_row_ids=True)
        mark = Mark("p", "s", self.batch)
        die_at(death, lambda: append(self.catalog, target, mark, staged))
        neighbours = [f"alter table lakehouse.{NAME} set tblproperties ('a' = '{self.batch}')"] if is_overtaken else []

        def overtake(point: str) -> None:
            if point == "commit.before-swap" and neighbours:
                self.catalog.spark.session.sql(neighbours.pop())

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("calve.commit.swap.stop_at", overtake)
            append(self.catalog, target, mark, staged)

    def check(self) -> None:
        """Spark's rows and ids; each key that had a row has the id of then, and each other one a new id."""
        rows = self.catalog.spark.session.sql(f"select key.a, n, _row_id from lakehouse.{NAME}").collect()
        assert dict(sorted((row[0], row[1]) for row in rows)) == dict(sorted(self.values.items()))
        ids = {row[0]: row[2] for row in rows}
        assert len(set(ids.values())) == len(rows) == len(self.values)
        for key, number in ids.items():
            assert number == self.ids[key] if key in self.ids else number not in self.used
        self.ids = ids
        self.used |= set(ids.values())
        metadata = self.catalog.load_java(NAME).operations().current().metadataFileLocation()
        assert StaticTable.from_metadata(metadata).scan(selected_fields=("n",)).to_arrow().num_rows == len(rows)

    def unknown_files(self) -> set[str]:
        """Return data files that no snapshot has."""
        java = self.catalog.load_java(NAME)
        known = {
            row[0]
            for row in self.catalog.spark.session.sql(f"select file_path from lakehouse.{NAME}.all_files").collect()
        }
        return {f"file://{path}" for path in Path(java.location().removeprefix("file://")).rglob("*.parquet")} - known


@pytest.mark.spark
def test_a_key_that_has_a_row_before_and_after_a_commit_keeps_its_id(spark: SparkSession, tmp_path: Path) -> None:
    for seed in range(examples(1)):
        upserts = Upserts(spark, tmp_path / f"{seed}", seed)
        for step in range(6):
            death = upserts.chosen.choice((None, *DEATHS)) if step % 2 else None
            upserts.commit(upserts.batches(), death, is_overtaken=step == 4)
            upserts.check()
            if not death:  # else maintenance removes them
                assert not upserts.unknown_files(), (seed, step)
            if step == 2:
                where = MaintenanceContext(session.start(), upserts.catalog, CommitTarget(NAME))
                join(where, {"rewrite-all": "true"})
                upserts.check()
            for path in upserts.unknown_files():
                Path(path.removeprefix("file://")).unlink()


@pytest.mark.spark
def test_changes_pair_updates_by_the_ids_that_are_kept(spark: SparkSession, tmp_path: Path) -> None:
    upserts = Upserts(spark, tmp_path, 0)
    upserts.commit({1: upserts.stage([1, 2, 3, 4], [1, 2, 3, 4])})
    staged = {2: upserts.stage([1, 2, 5], [1, 2, 3, 5]), 3: upserts.stage([2], [2])}
    upserts.commit(staged)
    upserts.check()
    changes = TableChanges(Planner(session.start()), NAME, lambda: upserts.catalog.load_java(NAME))
    *_, last = changes.steps()
    with changes.of(last) as rows:
        assert rows
        found = sorted((row["key"]["a"], row["_change_type"], row["n"]) for row in rows.collect())
    both = [[(key, "UPDATE_AFTER", batch), (key, "UPDATE_BEFORE", 1)] for key, batch in ((1, 2), (2, 3))]
    assert found == [*both[0], *both[1], (3, "DELETE", 1), (5, "INSERT", 2)]
    upserts.catalog.spark.session.sql(f"alter table lakehouse.{NAME} add column _row_id bigint")
    upserts.commit({4: upserts.stage([1], [1])})
    summary = upserts.catalog.load_java(NAME).currentSnapshot().summary()
    assert "reserved name" in summary.get(NEW_ROW_IDS)


def test_an_id_is_given_once_and_rows_that_have_theirs_keep_it() -> None:
    schema = schema_from_columns([{"name": "k", "type": "long"}, {"name": "_row_id", "type": "long"}])
    table = Table("db.t", "u", "/t", schema.model_dump_json(), '{"spec-id":0,"fields":[]}')
    types = arrow_schema(schema)

    def rows(*values: tuple[int, int | None]) -> pa.Table:
        return pa.Table.from_pylist([{"k": key, "_row_id": number} for key, number in values], types)

    search = KeySearch(table, [1], [(1, rows((1, None), (2, None), (3, None)).select(["k"]))])
    ids = OlderIds(search, rows((1, 7), (1, 5), (2, 9), (3, None)))
    assert ids.filled(rows((2, 9), (2, None), (4, None)))["_row_id"].to_pylist() == [9, None, None]
    assert ids.give(rows((3, None), (1, None), (1, None), (2, None))).to_pylist() == [None, 5, None, None]
    assert not ids.has_some
    assert ids.give(rows((1, None))).to_pylist() == [None]
    assert OlderIds(search, rows()).give(rows((1, None))).to_pylist() == [None]

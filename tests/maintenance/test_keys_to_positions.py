"""The laws of the conversion by position: no row changes for any reader, and no equality delete is left."""

from __future__ import annotations

import collections
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from msgspec import structs
from pyspark.sql import SparkSession

from calve.commit.fence import append
from calve.commit.mark import CommitTarget, Mark
from calve.engine import session
from calve.maintenance import keys_to_positions as conversion
from calve.maintenance.context import MaintenanceContext
from calve.maintenance.equality_deletes import convert
from calve.maintenance.keys_to_positions import keys_to_positions
from calve.record.content_file import ContentFile
from commit.test_changes import die_at
from commit.test_positions import NAME, Laws
from kit.content_files import data_file
from kit.examples import examples
from maintenance.conftest import Kept
from services import duckdb_iceberg

pytestmark = pytest.mark.spark

NEIGHBOURS = ("adds", "adds", "deletes", "deletes_by_key", "goes_back", "changes_the_spec", "changes_columns")


class Converting(Laws):
    """A table whose pipelines write equality deletes, and which is converted now and then."""

    uses_equality_deletes = True

    @property
    def bench(self) -> MaintenanceContext:
        return MaintenanceContext(session.start(), self.catalog, CommitTarget(NAME))

    def summary(self) -> dict[str, str]:
        return dict(self.java.currentSnapshot().summary())

    def data_files(self) -> set[str]:
        rows = self.catalog.spark.session.sql(f"select file_path from lakehouse.{NAME}.data_files").collect()
        return {row[0] for row in rows}

    def convert(self, neighbour: Callable[[], None] | None) -> None:
        """Convert, perhaps while somebody commits; nothing but delete files may change."""
        neighbours, before = [neighbour] if neighbour else [], self.data_files()

        def overtake(point: str) -> None:
            if point == "commit.before-swap" and neighbours:
                neighbours.pop()()
                before.update(self.data_files())

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("calve.commit.swap.stop_at", overtake)
            rows = keys_to_positions(self.bench)
        assert rows is not None
        if neighbour is None or neighbours:
            assert self.data_files() == before
        assert self.summary()["total-equality-deletes"] == "0"

    def upserts_meanwhile(self) -> None:
        self.commit("equality-delete", None, None)


DEATHS = (None, None, "commit.before-swap", "commit.after-swap")


@pytest.mark.parametrize(
    ("kinds", "version"),
    [(["int"], 3), (["string"], 2), (["int", "string"], 3), (["uuid"], 2), (["decimal(38, 3)"], 3), (["date"], 2)],
)
def test_a_conversion_changes_no_row_for_any_reader_whatever_others_did_before_and_do_meanwhile(
    spark: SparkSession, tmp_path: Path, duckdb: duckdb_iceberg.Reader | None, kinds: list[str], version: int
) -> None:
    for seed in range(examples(1)):
        laws = Converting(spark, tmp_path / f"{seed}", hash((seed, *map(len, kinds))), kinds, version)
        for _ in range(3):
            for action in laws.chosen.sample(NEIGHBOURS, laws.chosen.choice((0, 1, 1, 2))):
                getattr(laws, action)()
            for _ in range(laws.chosen.choice((1, 2))):
                laws.commit("equality-delete", None, None)
            laws.check(has_equality_deletes=True)
            die_at(laws.chosen.choice(DEATHS), partial(keys_to_positions, laws.bench))
            meanwhile = (laws.adds, laws.deletes, laws.upserts_meanwhile, laws.compacts, laws.deletes_by_key)
            laws.convert(laws.chosen.choice((None, *meanwhile)))
            laws.check(has_equality_deletes=False)
            if duckdb:
                metadata = laws.java.operations().current().metadataFileLocation()
                rows = duckdb.query("SELECT key, n FROM iceberg_scan(?)", metadata)
                assert sorted(map(tuple, rows)) == sorted(laws.model.elements())


@pytest.mark.parametrize("version", [2, 3])
def test_it_is_one_snapshot_that_replaces_deletes_by_one_file_and_keeps_what_was_deleted_by_position(
    spark: SparkSession, tmp_path: Path, version: int
) -> None:
    laws = Converting(spark, tmp_path, 1, ["int"], version)
    append(laws.catalog, CommitTarget(NAME), Mark("p", "s", 1), {1: laws.files(list(range(10)), [])})
    by_position = CommitTarget(NAME, write_mode="merge-on-read")
    append(laws.catalog, by_position, Mark("p", "s", 2), {2: laws.files([1], [1])})
    files = {3: laws.files([2], [2], equality=True), 4: laws.files([2], [1, 2, 3], equality=True)}
    append(laws.catalog, CommitTarget(NAME), Mark("p", "s", 4), files)
    snapshots, mark = len(list(laws.java.snapshots())), laws.java.properties().get("calve.mark.p")
    before = set(tmp_path.rglob("*"))
    assert keys_to_positions(laws.bench) == 4  # 1 of the second batch, 2 of the first and the third, 3
    assert keys_to_positions(laws.bench) == 0
    assert len(list(laws.java.snapshots())) == snapshots + 1
    assert laws.java.properties().get("calve.mark.p") == mark
    summary = laws.summary()
    assert laws.java.currentSnapshot().operation() == "replace"
    assert (summary["total-equality-deletes"], summary["total-position-deletes"]) == ("0", "5")
    suffix = ".puffin" if version == 3 else ".parquet"
    assert len({path for path in set(tmp_path.rglob("*")) - before if path.suffix == suffix}) == 1
    laws.model = collections.Counter({(key, 1): 1 for key in (0, 4, 5, 6, 7, 8, 9)} | {(2, 4): 1})
    laws.check(has_equality_deletes=False)


def test_a_conversion_that_is_overtaken_leaves_no_delete_file_behind(spark: SparkSession, tmp_path: Path) -> None:
    laws = Converting(spark, tmp_path, 1, ["int"], 3)
    laws.commit("equality-delete", None, None)
    append(laws.catalog, CommitTarget(NAME), Mark("q", "s", 1), {1: laws.files([], list(range(40)), equality=True)})
    laws.model.clear()
    laws.convert(laws.adds)
    assert len(list(tmp_path.rglob("*.puffin"))) == 1
    laws.check(has_equality_deletes=False)


@pytest.mark.parametrize("partitions", [(), (("city", "identity"),)])
def test_null_keys_and_more_keys_than_memory_has_room_for_are_left_to_a_rewrite(
    kept: Any, monkeypatch: Any, partitions: Any
) -> None:
    table: Kept = kept(partitions)
    table.change({key: ("x" if key else None, key) for key in range(4)})
    table.commit([_deletes(table, "null", 2, "city", pa.array([None], pa.string()))])
    del table.oracle[0]
    assert keys_to_positions(table.bench) is None
    assert convert(table.bench).rewritten.files
    assert table.rows() == table.with_pyiceberg() == table.oracle
    table.change({1: ("y", 5)})
    with monkeypatch.context() as patch:
        patch.setattr(conversion, "_MOST_KEYS", 0)
        assert keys_to_positions(table.bench) is None
    rewritten = convert(table.bench)
    assert rewritten.positions == 1
    assert table.rows() == table.with_pyiceberg() == table.oracle


def test_a_foreign_delete_of_one_partition_leaves_the_same_key_in_another(kept: Any) -> None:
    table: Kept = kept()
    for city in ("x", "y"):
        table.commit([file for file in table.stage({1: (city, 5), 2: (city, 5)}) if file.is_data])
    for city, key in (("x", 1), ("y", 2)):
        delete = _deletes(table, city, 1, "id", pa.array([key], pa.int64()))
        begun = table.catalog.begin("db.t")
        begun.inspect("main")
        begun.change("main", [structs.replace(delete, spec_id=0, partition=[city])], {})
        begun.swap("main")
    assert table.rows() == {1: ("y", 5), 2: ("x", 5)}
    assert keys_to_positions(table.bench) == 2
    assert table.rows() == table.with_pyiceberg() == {1: ("y", 5), 2: ("x", 5)}


def _deletes(table: Kept, name: str, number: int, column: str, keys: pa.Array) -> ContentFile:
    """Write an equality delete of a foreign writer, which applies to all partitions."""
    table.batch += 1
    path = table.home / "data" / f"{name}.parquet"
    field = pa.field(column, keys.type, True, metadata={"PARQUET:field_id": str(number)})
    pq.write_table(pa.table([keys], schema=pa.schema([field])), path)
    loaded = table.catalog.load("db.t")
    assert loaded
    if loaded.unpartitioned_spec_id is None:
        loaded = table.catalog.add_unpartitioned_spec("db.t")
    about = {"content": "EQUALITY_DELETES", "spec_id": loaded.unpartitioned_spec_id, "equality_ids": [number]}
    return data_file(str(path), path.stat().st_size, len(keys), **about)

"""The fence and the catalog on a real REST catalog with real object storage."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.io import load_file_io
from pyspark.sql import SparkSession

from calve.catalog.catalog import Catalog
from calve.columns.evolve import Evolution, NewColumn
from calve.commit import branch_keys
from calve.commit.branch_keys import BranchKeys
from calve.commit.fence import append, invalidate_open_attempts
from calve.commit.index_folder import IndexFolder
from calve.commit.mark import CommitTarget, Mark
from calve.engine import session
from calve.observe.log import Log
from calve.record.content_file import ContentFile
from calve.state.local_folder import LocalFolder
from calve.table.loaded import Table
from kit.compiled_core import needs_core
from kit.content_files import data_file

pytestmark = [pytest.mark.spark, pytest.mark.services]


@pytest.fixture
def catalog(spark: SparkSession, object_store: Any) -> Catalog:
    return Catalog(session.start(), object_store.rest_catalog())


@pytest.fixture
def table(catalog: Catalog, schema_json: str, request: pytest.FixtureRequest) -> Table:
    return catalog.create(f"{request.node.name.split('_')[1]}.{request.node.name}"[:60], schema_json)


def file(table: Table, name: str, ids: list[int]) -> ContentFile:
    """Write as an executor does: with the storage properties that came with the table, and nothing else."""
    path = f"{table.location}/data/{name}.parquet"
    output = load_file_io(table.io_properties, table.location).new_output(path)
    schema = pa.schema([pa.field("id", pa.int64(), metadata={"PARQUET:field_id": "1"})])
    with output.create() as stream:
        pq.write_table(pa.table({"id": ids}, schema=schema), stream)
    return data_file(path, len(output.to_input_file()), len(ids))


def ids(object_store: Any, table: Table) -> list[int]:
    theirs = load_catalog("theirs", **object_store.rest_catalog())
    return sorted(theirs.load_table(table.identifier).scan().to_arrow()["id"].to_pylist())


def test_a_batch_committed_twice_appears_once(catalog: Catalog, table: Table, object_store: Any) -> None:
    files = {1: [file(table, "a", [1, 2])]}
    assert append(catalog, CommitTarget(table.identifier, table.uuid), Mark("shop", "s", 1), files).rows == 2
    assert append(catalog, CommitTarget(table.identifier, table.uuid), Mark("shop", "s", 1), files).already
    assert ids(object_store, table) == [1, 2]


def test_a_zombie_between_look_and_swap_adds_nothing_twice(
    catalog: Catalog, table: Table, object_store: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {1: [file(table, "a", [1])]}
    waiting = [lambda: append(catalog, CommitTarget(table.identifier), Mark("shop", "s", 1), files)]
    monkeypatch.setattr(
        "calve.commit.swap.stop_at",
        lambda point: waiting.pop()() if point == "commit.before-swap" and waiting else None,
    )
    assert append(catalog, CommitTarget(table.identifier), Mark("shop", "s", 1), files).already
    assert ids(object_store, table) == [1]


def test_an_attempt_that_began_before_it_was_forestalled_fails(
    catalog: Catalog, table: Table, object_store: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    target, owners = CommitTarget(table.identifier), iter([lambda: None, lambda: 1 / 0])
    waiting = [lambda: invalidate_open_attempts(catalog, target, Mark("shop", "s", 1))]
    monkeypatch.setattr(
        "calve.commit.swap.stop_at",
        lambda point: waiting.pop()() if point == "commit.before-swap" and waiting else None,
    )
    with pytest.raises(ZeroDivisionError):
        append(catalog, target, Mark("shop", "s", 1, lambda _: next(owners)()), {1: [file(table, "a", [1])]})
    assert ids(object_store, table) == []


def test_writers_side_by_side_lose_and_double_nothing(catalog: Catalog, table: Table, object_store: Any) -> None:
    def write(number: int) -> None:
        for batch in range(1, 4):
            files = {batch: [file(table, f"p{number}-{batch}", [number * 100 + batch])]}
            append(catalog, CommitTarget(table.identifier), Mark(f"p{number}", "s", batch), files)

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(write, range(2)))
    assert ids(object_store, table) == [1, 2, 3, 101, 102, 103]


def test_tables_evolve(catalog: Catalog, table: Table) -> None:
    nested = {"type": "struct", "fields": [{"id": 1, "name": "x", "required": False, "type": "int"}]}
    evolved = catalog.evolve(table.identifier, Evolution([NewColumn((), "more", nested)]))
    assert [column.name for column in evolved.schema.fields] == ["id", "note", "more"]
    assert evolved.schema == catalog.load(table.identifier).schema
    assert json.loads(evolved.schema_json)


@needs_core
def test_a_key_index_finds_rows_on_an_object_store_and_on_a_branch_and_others_read_the_vectors(
    spark: SparkSession, schema_json: str, object_store: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It reads each file once. The buckets of this catalog take no Puffin files, so these are in another bucket."""
    properties = {"format-version": "3", "write.data.path": object_store.place("vectors")}
    catalog = Catalog(session.start(), object_store.rest_catalog())
    table = catalog.create("indexed.rows", schema_json, properties=properties)
    monkeypatch.setattr(branch_keys, "STORE_ROWS", 1)
    append(catalog, CommitTarget(table.identifier), Mark("shop", "s", 1), {1: [file(table, "a", list(range(9)))]})
    for branch, others in (("main", 9), ("audit", 12)):
        keys = BranchKeys(IndexFolder(LocalFolder(tmp_path), table.uuid, branch), table.identifier, Log("shop"))
        target = CommitTarget(table.identifier, branch=branch, write_mode="merge-on-read", keys=keys)
        for batch in (2, 3, 4):
            old = file(table, f"{branch}-{batch}-keys", [batch, batch - 1])
            deletes = msgspec.structs.replace(old, content="EQUALITY_DELETES", equality_ids=[1])
            files = {batch: [file(table, f"{branch}-{batch}", [batch]), deletes]}
            assert not append(catalog, target, Mark("shop", "s", batch), files).already
        assert keys.stats
        assert keys.stats.read_rows == others + 2  # the last commit's own file is read by the next one
    theirs = load_catalog("theirs", **object_store.rest_catalog()).load_table(table.identifier)
    their_spark = spark.newSession()
    for key, value in object_store.rest_catalog().items():
        their_spark.conf.set(f"spark.sql.catalog.theirs.{key}", value)
    their_spark.conf.set("spark.sql.catalog.theirs", "org.apache.iceberg.spark.SparkCatalog")
    for branch in ("main", "audit"):
        scan = theirs.scan().use_ref(branch)
        deletes = {str(one.file_format) for task in scan.plan_files() for one in task.delete_files}
        assert deletes == {"FileFormat.PUFFIN"}
        assert sorted(scan.to_arrow()["id"].to_pylist()) == [0, 4, 5, 6, 7, 8]
        in_spark = their_spark.sql(f"SELECT id FROM theirs.indexed.rows VERSION AS OF '{branch}' ORDER BY id").collect()
        assert [row.id for row in in_spark] == [0, 4, 5, 6, 7, 8]

"""Small files on object storage are joined with the storage properties that come with their table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from pyiceberg.table import StaticTable
from pyspark.sql import SparkSession

from calve.catalog.catalog import Catalog, embedded
from calve.commit.fence import append
from calve.commit.mark import CommitTarget, Mark
from calve.engine import session
from calve.maintenance.by_need import Rounds
from calve.maintenance.context import MaintenanceContext
from calve.record.content_file import ContentFile
from calve.record.target import MERGE_ON_READ, RowStream
from calve.reduce.key import Key
from calve.table.arrow_schema import arrow_schema
from calve.write.writer import Writers
from maintenance.conftest import SCHEMA
from maintenance.test_by_need import LIMITS

pytestmark = [pytest.mark.spark, pytest.mark.services]


@pytest.mark.parametrize("version", [2, 3])
def test_files_on_an_object_store_are_joined_beside_deletes_by_position_and_read_by_others(
    spark: SparkSession, object_store: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    """Position deletes in a REST catalog, whose buckets take no Puffin file here; vectors in a plain bucket."""
    store, name = object_store.s3_file_io(), "joined.on_s3"
    plain = {**embedded(tmp_path), **store, "warehouse": object_store.place("joined")}
    catalog = Catalog(session.start(), object_store.rest_catalog() if version == 2 else plain)
    table = catalog.create(name, SCHEMA, properties={"format-version": str(version)})
    wanted, key = arrow_schema(table.schema), Key(table)

    def commit(batch: int, *ids: int) -> None:
        """Replace the rows of these ids."""
        rows = pa.table(
            [pa.array(ids if one.name == "id" else [None] * len(ids), one.type) for one in wanted], schema=wanted
        )
        writers = Writers(f"b{batch}", 10)
        writers.write(RowStream(0, ""), table, {}, rows)
        writers.write(RowStream(1, ""), key.deletes, {}, pa.table([ids], schema=key.arrow_schema), key.ids)
        files = [
            msgspec.json.decode(file, type=ContentFile) for each in writers.close().values() for file in each.files
        ]
        append(catalog, target, Mark("p", "s", batch), {batch: files})

    target = CommitTarget(name, write_mode=MERGE_ON_READ)
    for batch in range(1, 7):
        commit(batch, batch, 50)
    monkeypatch.setattr("calve.maintenance.join.stop_at", lambda _: commit(7, 2, 50))
    Rounds(MaintenanceContext(session.start(), catalog, target), LIMITS).run()

    theirs = StaticTable.from_metadata(catalog.load_java(name).operations().current().metadataFileLocation(), store)
    joined = [task for task in theirs.scan().plan_files() if "/joined-" in task.file.file_path]
    assert [(task.file.record_count, len(task.delete_files)) for task in joined] == [(7, 1)]
    assert sorted(theirs.scan().to_arrow()["id"].to_pylist()) == [1, 2, 3, 4, 5, 6, 50]

"""Small files on object storage are joined with the storage properties that come with their table."""

from __future__ import annotations

from typing import Any

import msgspec
import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog
from pyspark.sql import SparkSession

from calve.catalog.catalog import Catalog
from calve.commit.fence import append
from calve.commit.mark import CommitTarget, Mark
from calve.engine import session
from calve.maintenance.by_need import Rounds
from calve.maintenance.context import MaintenanceContext
from calve.record.content_file import ContentFile
from calve.record.target import Stream
from calve.table.arrow_schema import arrow_schema
from calve.write.writer import Writers
from maintenance.conftest import SCHEMA
from maintenance.test_by_need import LIMITS

pytestmark = [pytest.mark.spark, pytest.mark.services]


def test_files_of_a_rest_catalog_are_joined_and_read_by_others(spark: SparkSession, object_store: Any) -> None:
    catalog = Catalog(session.start(), object_store.rest_catalog())
    table = catalog.create("joined.on_s3", SCHEMA)
    wanted = arrow_schema(table.schema)
    for batch in range(1, 7):
        rows = pa.table([pa.array([batch if one.name == "id" else None], one.type) for one in wanted], schema=wanted)
        writers = Writers(f"b{batch}", 10)
        writers.write(Stream(0, ""), table, {}, rows)
        files = [
            msgspec.json.decode(file, type=ContentFile) for each in writers.close().values() for file in each.files
        ]
        append(catalog, CommitTarget("joined.on_s3"), Mark("p", "s", batch), {batch: files})

    Rounds(MaintenanceContext(session.start(), catalog, CommitTarget("joined.on_s3")), LIMITS).run()

    theirs = load_catalog("theirs", **object_store.rest_catalog()).load_table("joined.on_s3")
    [task] = theirs.scan().plan_files()
    assert "/joined-" in task.file.file_path
    assert sorted(theirs.scan().to_arrow()["id"].to_pylist()) == [1, 2, 3, 4, 5, 6]

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.table import StaticTable
from pyspark.sql import SparkSession

from calve.catalog.catalog import Catalog, embedded
from calve.engine import session
from calve.record.content_file import ContentFile
from calve.table.loaded import Table
from kit.content_files import data_file

SCHEMA = json.dumps(
    {
        "type": "struct",
        "schema-id": 0,
        "fields": [
            {"id": 1, "name": "id", "required": False, "type": "long"},
            {"id": 2, "name": "note", "required": False, "type": "string"},
        ],
    }
)


@dataclass
class Lake:
    """A catalog with a table of `id` and `note`, and what a test asks about it."""

    catalog: Catalog
    table: Table

    @property
    def name(self) -> str:
        return self.table.identifier

    def file(self, name: str, ids: list[int]) -> ContentFile:
        path = Path(self.table.location.removeprefix("file:")) / "data" / f"{name}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        columns = [("id", pa.int64(), "1"), ("note", pa.string(), "2")]
        schema = pa.schema([pa.field(n, kind, metadata={"PARQUET:field_id": key}) for n, kind, key in columns])
        pq.write_table(pa.table({"id": ids, "note": [name] * len(ids)}, schema=schema), path)
        return data_file(str(path), path.stat().st_size, len(ids))

    def ids(self, branch: str = "main") -> list[int]:
        """The rows as PyIceberg reads them from the metadata, without the catalog's help."""
        metadata = self.java.operations().current()
        table = StaticTable.from_metadata(metadata.metadataFileLocation())
        snapshot = table.snapshot_by_name(branch)
        return (
            []
            if snapshot is None
            else sorted(table.scan(snapshot_id=snapshot.snapshot_id).to_arrow()["id"].to_pylist())
        )

    @property
    def java(self) -> Any:
        return self.catalog.load_java(self.name)

    def summary(self) -> dict[str, str]:
        return dict(self.java.currentSnapshot().summary())

    def manifests(self) -> set[str]:
        folder = Path(self.table.location.removeprefix("file:")) / "metadata"
        return {file.name for file in folder.glob("*.avro")}


@pytest.fixture(params=["embedded", "hadoop"])
def lake(request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path) -> Lake:
    properties = embedded(tmp_path)
    if request.param == "hadoop":
        properties = {"type": "hadoop", "warehouse": str(tmp_path)}
    catalog = Catalog(session.start(), properties)
    return Lake(catalog, catalog.create("db.events", SCHEMA))


@pytest.fixture
def schema_json() -> str:
    return SCHEMA

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from calve.catalog.catalog import Catalog, embedded
from calve.commit.fence import append
from calve.commit.mark import CommitTarget, Mark
from calve.engine import session
from calve.maintenance.context import MaintenanceContext
from calve.record.content_file import ContentFile
from calve.reduce.key import Key
from calve.write.writer import Writers

SCHEMA = json.dumps(
    {
        "type": "struct",
        "schema-id": 0,
        "identifier-field-ids": [1],
        "fields": [
            {"id": 1, "name": "id", "required": True, "type": "long"},
            {"id": 2, "name": "city", "required": False, "type": "string"},
            {"id": 3, "name": "n", "required": False, "type": "long"},
        ],
    }
)
STATE = "0123abcd-0000-4000-8000-000000000000"


class Kept:
    """A table that a pipeline writes to, batch by batch, beside a dictionary of what it must hold."""

    def __init__(self, spark: SparkSession, folder: Path, partitions: list[tuple[str, str]], version: int) -> None:
        self.catalog = Catalog(session.start(), embedded(folder))
        table = self.catalog.create("db.t", SCHEMA, partitions, {"format-version": str(version)})
        self.spark, self.folder, self.home = spark, folder, Path(table.location.removeprefix("file:"))
        self.oracle: dict[int, tuple[str | None, int]] = {}
        self.batch = 0

    @property
    def bench(self) -> MaintenanceContext:
        return MaintenanceContext(session.start(), self.catalog, CommitTarget("db.t"))

    @property
    def java(self) -> Any:
        return self.catalog.load_java("db.t")

    def stage(self, rows: dict[int, tuple[str | None, int]], deleted: list[int] = ()) -> list[ContentFile]:  # type: ignore[assignment]
        """Write what replaces rows and deletes others, as a pipeline does; nothing is visible yet."""
        self.batch += 1
        table = self.catalog.load("db.t")
        assert table
        if not Key(table).names_partition and table.unpartitioned_spec_id is None:
            table = self.catalog.add_unpartitioned_spec("db.t")
        key = Key(table)
        writers = Writers(f"p-{STATE[:8]}-{self.batch:08d}-abcdef-0-00000-0", 10)
        columns = [list(rows), [city for city, _ in rows.values()], [n for _, n in rows.values()]]
        typed = pa.table(
            columns, schema=pa.schema([("id", pa.int64()), ("city", pa.large_string()), ("n", pa.int64())])
        )
        typed = typed.cast(self.arrow(table))
        writers.write("rows", key.required, {}, typed)
        keys = pa.table([[*rows, *deleted]], schema=key.arrow_schema)
        writers.write("deletes", key.deletes, {}, keys, key.ids)
        self.oracle.update(rows)
        self.oracle = {one: row for one, row in self.oracle.items() if one not in deleted}
        return [
            msgspec.json.decode(file, type=ContentFile)
            for written in writers.close().values()
            for file in written.files
        ]

    def arrow(self, table: Any) -> pa.Schema:
        from pyiceberg.io.pyarrow import schema_to_pyarrow

        return schema_to_pyarrow(Key(table).required.schema)

    def commit(self, files: list[ContentFile], branch: str = "main") -> None:
        append(self.catalog, CommitTarget("db.t", branch=branch), Mark("p", STATE, self.batch), {self.batch: files})

    def change(self, rows: dict[int, tuple[str | None, int]], *deleted: int) -> None:
        self.commit(self.stage(rows, list(deleted)))

    def rows(self) -> dict[int, tuple[str | None, int]]:
        """The rows as Spark reads them."""
        session, prefix = self.spark.newSession(), "spark.sql.catalog.lakehouse"
        session.conf.set(prefix, "org.apache.iceberg.spark.SparkCatalog")
        for key, value in {**self.catalog.properties, "cache-enabled": "false"}.items():
            session.conf.set(f"{prefix}.{key}", value)
        lines = session.sql("select id, city, n from lakehouse.db.t")._jdf.toJSON().collectAsList()
        found = [json.loads(line) for line in lines]
        assert len(found) == len({row["id"] for row in found}), "a key twice"
        return {row["id"]: (row.get("city"), row["n"]) for row in found}

    def with_pyiceberg(self) -> dict[int, tuple[str | None, int]]:
        return {row["id"]: (row["city"], row["n"]) for row in self.scanned()}

    def scanned(self) -> list[dict[str, Any]]:
        """The rows with all columns, as PyIceberg reads them."""
        from pyiceberg.catalog.sql import SqlCatalog

        catalog = SqlCatalog("lakehouse", uri=f"sqlite:///{self.folder}/catalog.db")
        found: list[dict[str, Any]] = catalog.load_table("db.t").scan().to_arrow().to_pylist()
        return found


@pytest.fixture
def kept(spark: SparkSession, tmp_path: Path) -> Any:
    """Make a table: by default partitioned by a column that is not in the key."""
    return lambda partitions=(("city", "identity"),), version=2: Kept(spark, tmp_path, list(partitions), version)

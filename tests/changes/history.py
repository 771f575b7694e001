"""Random histories of a table: every kind of change that Spark and Iceberg's API can make to one."""

from __future__ import annotations

import random
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from calve.catalog.catalog import Catalog

PARTS = ["a", "b", "c"]
FLOATS = [0.0, -0.0, float("nan"), float("inf"), 1.5, -2.25, None]
MODES = {
    "copy-on-write": ["copy-on-write"],
    "merge-on-read": ["merge-on-read"],
    "mixed": ["copy-on-write", "merge-on-read"],
}


def planned(java_table: Any) -> list[Any]:
    """The scan tasks of a table."""
    tasks = java_table.newScan().planFiles()
    found, each = [], tasks.iterator()
    while each.hasNext():
        found.append(each.next())
    tasks.close()
    return found


@dataclass
class Kind:
    """How a table begins."""

    write: str
    version: int
    partition: str = ""
    has_key: bool = True

    def __str__(self) -> str:
        return f"{self.write}-v{self.version}-{self.partition or 'flat'}-{'key' if self.has_key else 'no key'}"


@dataclass
class Table:
    """One table, and a source of random changes to it; `done` names what was done."""

    spark: SparkSession
    lake: Catalog
    kind: Kind
    seed: str
    done: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.identifier = f"db.t{uuid.uuid4().hex[:8]}"
        self.name = f"lake.{self.identifier}"
        self.next_id = 0
        self.extra = 0
        self.version = self.kind.version
        by = f"PARTITIONED BY ({self.kind.partition})" if self.kind.partition else ""
        self.spark.sql(
            f"CREATE TABLE {self.name} (id INT NOT NULL, p STRING, n INT, x FLOAT, s STRING, m MAP<STRING, DOUBLE>) "
            f"USING iceberg {by} TBLPROPERTIES ('format-version'='{self.version}', 'write.distribution-mode'='none', "
            "'write.spark.fanout.enabled'='true')"
        )
        if self.kind.has_key:
            self.java().updateSchema().setIdentifierFields(self._names("id")).commit()

    def java(self) -> Any:
        return self.lake.load_java(self.identifier)

    def change(self) -> None:
        """Make random changes until there is a new snapshot."""
        before = self._head()
        while self._head() == before:
            names = [name for name, weight in WEIGHTS.items() for _ in range(weight)]
            name = "append" if before is None else self.random.choice(names)
            getattr(self, name)()
            self.done.append(name)

    # -- rows ---------------------------------------------------------------------------------------------------------

    def append(self) -> None:
        self._frame(self.random.randint(1, 8)).writeTo(self.name).append()

    def overwrite_partitions(self) -> None:
        """INSERT OVERWRITE of the partitions that the rows are in."""
        self._frame(self.random.randint(1, 3)).writeTo(self.name).overwritePartitions()

    def update(self) -> None:
        self._choose_mode("update")
        self._try(f"UPDATE {self.name} SET s = '{self._word()}', x = {self._float()} WHERE {self._some()}")

    def update_nothing(self) -> None:
        """An update that changes no value."""
        self._choose_mode("update")
        self._try(f"UPDATE {self.name} SET s = s WHERE {self._some()}")

    def move(self) -> None:
        """An update that moves rows to another partition."""
        self._choose_mode("update")
        self._try(f"UPDATE {self.name} SET p = '{self.random.choice(PARTS)}' WHERE {self._some()}")

    def delete(self) -> None:
        self._choose_mode("delete")
        self._try(f"DELETE FROM {self.name} WHERE {self._some()}")

    def delete_partition(self) -> None:
        self._try(f"DELETE FROM {self.name} WHERE p = '{self.random.choice(PARTS)}'")

    def merge(self) -> None:
        self._choose_mode("merge")
        old = self.random.randrange(max(self.next_id, 1))
        rows = f"SELECT {old} AS id UNION ALL SELECT {self.next_id}"
        self.next_id += 1
        self._try(
            f"MERGE INTO {self.name} t USING ({rows}) u ON t.id = u.id "
            f"WHEN MATCHED AND t.p = 'a' THEN DELETE WHEN MATCHED THEN UPDATE SET t.n = t.n + 1, t.m = map('k', -0.0D) "
            f"WHEN NOT MATCHED THEN INSERT (id, p, s) VALUES (u.id, 'b', '{self._word()}')"
        )

    def equality_delete(self) -> None:
        """Delete by `id`, in the whole table or in a partition."""
        table = self.java()
        target = self._delete_target(table)
        if target is None:
            return
        spec, path = target
        ids = [self.random.randrange(max(self.next_id, 1)) for _ in range(self.random.randint(1, 6))]
        file = self._parquet(
            table, pa.table({"id": pa.array(ids, pa.int32())}), table.schema().findField("id").fieldId()
        )
        metadata = self._iceberg.FileMetadata.deleteFileBuilder(spec).ofEqualityDeletes(self._ints(1))
        metadata = metadata.withPath(str(file)).withFileSizeInBytes(file.stat().st_size).withFormat("parquet")
        metadata = metadata.withRecordCount(len(ids))
        metadata = metadata.withPartitionPath(path) if path else metadata
        table.newRowDelta().addDeletes(metadata.build()).commit()

    # -- files ----------------------------------------------------------------------------------------------------------

    def undelete(self) -> None:
        """Take delete files away: the rows are back.

        Not where they could be old versions of rows that live on: a key, or a row id, would be there twice.
        """
        if self.kind.has_key or (self.version >= 3 and {"update", "update_nothing", "move", "merge"} & {*self.done}):
            return
        table = self.java()
        tasks = planned(table)
        deletes = {f"{one.location()}#{one.contentOffset()}": one for task in tasks for one in task.deletes()}
        if not deletes:
            return
        chosen = self.random.choice(sorted(deletes))
        table.newRowDelta().removeDeletes(deletes[chosen]).commit()

    def compact(self) -> None:
        self._call("rewrite_data_files", "options => map('rewrite-all', 'true')")

    def compact_deletes(self) -> None:
        self._call("rewrite_position_delete_files", "options => map('rewrite-all', 'true')")

    def rewrite_manifests(self) -> None:
        self._call("rewrite_manifests")

    # -- the table ------------------------------------------------------------------------------------------------------

    def add_column(self) -> None:
        self.extra += 1
        kind = self.random.choice(["INT", "DOUBLE", "STRING", "DECIMAL(9, 2)"])
        self.spark.sql(f"ALTER TABLE {self.name} ADD COLUMN e{self.extra} {kind}")

    def rename_column(self) -> None:
        if name := self._an_extra():
            self.extra += 1
            self.spark.sql(f"ALTER TABLE {self.name} RENAME COLUMN {name} TO e{self.extra}")

    def drop_column(self) -> None:
        if name := self._an_extra():
            self.spark.sql(f"ALTER TABLE {self.name} DROP COLUMN {name}")

    def widen_columns(self) -> None:
        self.spark.sql(f"ALTER TABLE {self.name} ALTER COLUMN n TYPE BIGINT")
        self.spark.sql(f"ALTER TABLE {self.name} ALTER COLUMN x TYPE DOUBLE")

    def evolve_partition(self) -> None:
        table = self.java()
        names = [each.name() for each in table.spec().fields()]
        expressions = self._iceberg.expressions.Expressions
        if "id_bucket" in names:
            table.updateSpec().removeField("id_bucket").commit()
        else:
            table.updateSpec().addField("id_bucket", expressions.bucket("id", 2)).commit()

    def upgrade(self) -> None:
        self.version = 3
        self.spark.sql(f"ALTER TABLE {self.name} SET TBLPROPERTIES ('format-version'='3')")

    # -- parts ----------------------------------------------------------------------------------------------------------

    @property
    def _iceberg(self) -> Any:
        return self.spark._jvm.org.apache.iceberg

    def _head(self) -> int | None:
        snapshot = self.java().currentSnapshot()
        return None if snapshot is None else int(snapshot.snapshotId())

    def _frame(self, count: int) -> Any:
        schema = self.spark.table(self.name).schema
        rows = [self._row(schema) for _ in range(count)]
        if not self.kind.has_key:
            rows += rows[: self.random.randint(0, 2)]  # equal rows
        return self.spark.createDataFrame(rows, schema).coalesce(1)

    def _row(self, schema: Any) -> tuple[Any, ...]:
        self.next_id += 1
        weights = {f"k{number}": self.random.choice(FLOATS) for number in range(self.random.randint(0, 2))}
        given = {
            "id": self.next_id - 1,
            "p": self.random.choice([*PARTS, None]),
            "n": self.random.randint(-3, 3),
            "x": self.random.choice(FLOATS),
            "s": self._word(),
            "m": self.random.choice([None, weights]),
        }
        return tuple(given.get(each.name) for each in schema.fields)

    def _word(self) -> str:
        return self.random.choice(["", "one", "two|", "drei\\\\"])

    def _float(self) -> str:
        value = self.random.choice(FLOATS)
        return "NULL" if value is None else f"CAST('{value}' AS FLOAT)"

    def _some(self) -> str:
        return self.random.choice(
            [
                f"id % 3 = {self.random.randrange(3)}",
                f"id = {self.random.randrange(max(self.next_id, 1))}",
                "n > 0",
                "true",
            ]
            if self.random.random() < 0.3
            else [f"id % 5 = {self.random.randrange(5)}"]
        )

    def _an_extra(self) -> str | None:
        names = [each.name() for each in self.java().schema().columns() if each.name().startswith("e")]
        return self.random.choice(names) if names else None

    def _choose_mode(self, what: str) -> None:
        mode = self.random.choice(MODES[self.kind.write])
        granularity = self.random.choice(["file", "partition"])
        update = self.java().updateProperties().set(f"write.{what}.mode", mode)
        update.set("write.delete.granularity", granularity).commit()

    def _try(self, statement: str) -> None:
        self.spark.sql(statement)

    def _call(self, procedure: str, more: str = "") -> None:
        self.spark.sql(f"CALL lake.system.{procedure}(table => '{self.identifier}'{', ' if more else ''}{more})")

    def _delete_target(self, table: Any) -> tuple[Any, str] | None:
        """A spec and a partition for an equality delete: everywhere, or one `p`."""
        specs = list(table.specs().values())
        flat = [spec for spec in specs if spec.isUnpartitioned()]
        by_part = [spec for spec in specs if [each.name() for each in spec.fields()] == ["p"]]
        if flat:
            return flat[0], ""
        return (by_part[0], f"p={self.random.choice(PARTS)}") if by_part else None

    def _parquet(self, table: Any, rows: pa.Table, field_id: int) -> Path:
        file = Path(table.location().removeprefix("file:")) / "data" / f"{uuid.uuid4().hex}.parquet"
        file.parent.mkdir(parents=True, exist_ok=True)
        field = rows.schema.field(0).with_nullable(False).with_metadata({"PARQUET:field_id": str(field_id)})
        pq.write_table(rows.cast(pa.schema([field])), file)
        return file

    def _ints(self, value: int) -> Any:
        array = self.spark.sparkContext._gateway.new_array(self.spark._jvm.int, 1)
        array[0] = value
        return array

    def _names(self, name: str) -> Any:
        names = self.spark._jvm.java.util.ArrayList()
        names.add(name)
        return names


WEIGHTS = {
    "append": 5,
    "overwrite_partitions": 2,
    "update": 5,
    "update_nothing": 1,
    "move": 2,
    "delete": 3,
    "delete_partition": 1,
    "merge": 4,
    "equality_delete": 3,
    "undelete": 2,
    "compact": 2,
    "compact_deletes": 1,
    "rewrite_manifests": 1,
    "add_column": 1,
    "rename_column": 1,
    "drop_column": 1,
    "widen_columns": 1,
    "evolve_partition": 1,
    "upgrade": 1,
}

"""What others do to a table while Calve writes into it: Spark's procedures, SQL, changes of the schema."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from matrix.watched import APPEND, Watched

__all__ = ["DROP_AND_CREATE", "RENAME_AND_BACK", "Neighbour"]

DROP_AND_CREATE = "DROP and CREATE TABLE"
RENAME_AND_BACK = "RENAME TABLE and back"
TRIES = 4
MINE = 2_000_000_000
"""The neighbour's own rows have such keys."""


class Neighbour:
    """Does one thing at a time.

    Args:
        chance: Chooses.
        wait: Waits for as long as a table is to be away.
    """

    def __init__(self, chance: random.Random, wait: Callable[[], None]) -> None:
        self._chance, self._wait, self._count = chance, wait, 0
        self.refusal = ""
        self.actions: dict[str, Callable[[Watched], Any]] = {
            "rewrite_data_files": lambda one: _call(one, "rewrite_data_files", "options => map('rewrite-all', 'true')"),
            "rewrite_position_delete_files": lambda one: _call(
                one, "rewrite_position_delete_files", "options => map('rewrite-all', 'true')"
            ),
            "rewrite_manifests": lambda one: _call(one, "rewrite_manifests", "use_caching => false"),
            "expire_snapshots": self._expire,
            "expire_snapshots, clean_expired_metadata": lambda one: self._expire(
                one, ", clean_expired_metadata => true"
            ),
            "remove_orphan_files": _remove_orphans,
            "rollback_to_snapshot": lambda one: _call(
                one, "rollback_to_snapshot", f"snapshot_id => {self._older(one)}"
            ),
            "set_current_snapshot": lambda one: _call(
                one, "set_current_snapshot", f"snapshot_id => {self._older(one)}"
            ),
            "INSERT into a branch, fast_forward": self._fast_forward,
            "ADD COLUMN, RENAME, DROP": self._columns,
            "DROP COLUMN that is written": self._drop_column,
            "ALTER COLUMN": self._alter_column,
            "partition field": self._partition,
            "WRITE ORDERED BY": self._order,
            "table properties": self._properties,
            "CREATE and DROP BRANCH, TAG": self._references,
            "INSERT": self._insert,
            "DELETE": lambda one: one.spark.sql(
                f"DELETE FROM {one.name} WHERE {one.key} % 9 = {self._chance.randrange(9)}"
            ),
            "UPDATE": lambda one: one.spark.sql(f"UPDATE {one.name} SET v = 7 WHERE {one.key} % 9 = 5"),
            "MERGE": self._merge,
            "CREATE OR REPLACE TABLE": lambda one: one.spark.sql(
                f"CREATE OR REPLACE TABLE {one.name} ({_columns(one)}) USING iceberg"
            ),
            "CREATE OR REPLACE TABLE AS SELECT": lambda one: one.spark.sql(
                f"CREATE OR REPLACE TABLE {one.name} USING iceberg AS SELECT * FROM {one.name} WHERE {one.key} % 2 = 0"
            ),
            RENAME_AND_BACK: self._rename,
            DROP_AND_CREATE: self._drop,
        }

    def act(self, name: str, table: Watched) -> int | None:
        """Do one thing; return how often it was refused before, or None if it always was.

        A refusal is a conflict with a commit of Calve, which was faster.
        """
        for refused in range(TRIES):
            try:
                self.actions[name](table)
                return refused
            except (Py4JError, PySparkException) as error:
                self.refusal = str(error)[:300]
        return None

    def _older(self, table: Watched) -> int:
        line = [one.snapshot_id for one in table.metadata().metadata.snapshot_log if one][-8:]
        held = {one.snapshot_id for one in table.metadata().metadata.snapshots}
        return self._chance.choice([one for one in line if one in held])

    def _expire(self, table: Watched, more: str = "") -> None:
        _call(table, "expire_snapshots", f"older_than => now(), retain_last => {self._chance.choice([1, 3])}{more}")

    def _fast_forward(self, table: Watched) -> None:
        table.spark.sql(f"ALTER TABLE {table.name} CREATE OR REPLACE BRANCH audit")
        self._insert(table, ".branch_audit")
        _call(table, "fast_forward", "branch => 'main', to => 'audit'")

    def _columns(self, table: Watched) -> None:
        table.spark.sql(f"ALTER TABLE {table.name} ADD COLUMN theirs{self._next()} STRING")
        table.spark.sql(f"ALTER TABLE {table.name} RENAME COLUMN theirs{self._count} TO renamed{self._count}")
        if self._chance.random() < 0.5:
            table.spark.sql(f"ALTER TABLE {table.name} DROP COLUMN renamed{self._count}")

    def _drop_column(self, table: Watched) -> None:
        if "extra" in table.spark.table(table.name).columns:
            table.spark.sql(f"ALTER TABLE {table.name} DROP COLUMN extra")
        if self._chance.random() < 0.5:
            table.spark.sql(f"ALTER TABLE {table.name} ADD COLUMN extra STRING")

    def _alter_column(self, table: Watched) -> None:
        table.spark.sql(f"ALTER TABLE {table.name} ALTER COLUMN v TYPE BIGINT")
        table.spark.sql(f"ALTER TABLE {table.name} ALTER COLUMN v {self._chance.choice(['FIRST', 'AFTER id'])}")
        table.spark.sql(f"ALTER TABLE {table.name} ALTER COLUMN v COMMENT 'number {self._next()}'")

    def _partition(self, table: Watched) -> None:
        fields = [field.name for field in table.metadata().spec().fields]
        for field in fields:
            table.spark.sql(f"ALTER TABLE {table.name} DROP PARTITION FIELD {field}")
        if not fields or self._chance.random() < 0.3:
            many = self._chance.randint(2, 4)
            table.spark.sql(
                f"ALTER TABLE {table.name} ADD PARTITION FIELD bucket({many}, {table.key}) AS b{self._next()}"
            )

    def _order(self, table: Watched) -> None:
        table.spark.sql(f"ALTER TABLE {table.name} WRITE {self._chance.choice(['ORDERED BY v', 'UNORDERED'])}")

    def _properties(self, table: Watched) -> None:
        codec = self._chance.choice(["zstd", "gzip", "snappy"])
        table.spark.sql(
            f"ALTER TABLE {table.name} SET TBLPROPERTIES ('write.parquet.compression-codec'='{codec}', "
            f"'theirs'='{self._next()}', 'write.target-file-size-bytes'='{self._chance.choice([1 << 20, 1 << 29])}')"
        )

    def _references(self, table: Watched) -> None:
        table.spark.sql(f"ALTER TABLE {table.name} CREATE BRANCH b{self._next()}")
        table.spark.sql(f"ALTER TABLE {table.name} CREATE TAG t{self._count}")
        table.spark.sql(f"ALTER TABLE {table.name} DROP BRANCH b{self._count}")

    def _insert(self, table: Watched, branch: str = "") -> None:
        keys = [MINE + 3 * self._next() + each for each in range(3)]
        values = ", ".join(f"({key}, {key % 100})" for key in keys)
        table.spark.sql(f"INSERT INTO {table.name}{branch} ({table.key}, v) VALUES {values}")

    def _merge(self, table: Watched) -> None:
        key = MINE + 3 * self._chance.randint(0, self._count)
        columns = f"{table.key}, v"
        table.spark.sql(
            f"MERGE INTO {table.name} t USING (SELECT {key}L AS k, 1 AS w) s ON t.{table.key} = s.k WHEN MATCHED THEN "
            f"UPDATE SET v = t.v + s.w WHEN NOT MATCHED THEN INSERT ({columns}) VALUES (s.k, s.w)"
        )

    def _rename(self, table: Watched) -> None:
        table.spark.sql(f"ALTER TABLE {table.name} RENAME TO to.away")
        try:
            self._wait()
        finally:
            table.spark.sql(f"ALTER TABLE lakehouse.to.away RENAME TO {table.identifier}")

    def _drop(self, table: Watched) -> None:
        table.spark.sql(f"DROP TABLE {table.name} PURGE")
        if self._chance.random() < 0.5:
            self._wait()
        table.create()

    def _next(self) -> int:
        self._count += 1
        return self._count


def _call(table: Watched, procedure: str, arguments: str) -> None:
    table.spark.sql(f"CALL lakehouse.system.{procedure}(table => '{table.identifier}', {arguments})").collect()


def _remove_orphans(table: Watched) -> None:
    """Remove what is older than a day, the least that the procedure allows: the files of batches that wait are younger."""
    day_ago = datetime.now(UTC) - timedelta(hours=25)
    _call(table, "remove_orphan_files", f"older_than => TIMESTAMP '{day_ago:%F %T}+00:00'")


def _columns(table: Watched) -> str:
    return ("n BIGINT, " if table.mode == APPEND else "") + "id BIGINT, v INT, extra BIGINT"

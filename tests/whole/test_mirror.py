"""Iceberg to Iceberg: a mirror has the rows of its table after every run, whatever happened in between."""

from __future__ import annotations

import hmac
import os
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql import SparkSession

from calve.catalog.catalog import Catalog
from calve.engine import session
from calve.observe.watch import Watch
from calve.pipeline.driver import Driver, RunMode
from calve.pipeline.pipeline_parts import PipelineParts
from calve.pipeline.plugins import PLUGINS
from calve.pipeline.run import Catalogs
from calve.settings import parse_text
from calve.state.local_folder import LocalFolder
from changes.history import Kind, Table
from changes.values import exact
from kit.compiled_core import needs_core
from kit.small_indexes import small_indexes

pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),  # PySpark's, of `collect`
]

ROUNDS = int(os.environ.get("CALVE_MIRROR_ROUNDS", "2"))
SEED = int(os.environ.get("CALVE_MIRROR_SEED", "1"))
KINDS = [
    (Kind("mixed", 2, "p", has_key=True), "", "equality-delete"),
    (Kind("mixed", 3, "", has_key=False), "row_id_column: row", "merge-on-read"),
]
YAML = """
mirror:
  source:
    iceberg:
      tables: [{{table_name: {table}, {more}}}]
      catalog: {catalog}
  processor: [{processor}]
  sink:
    - iceberg:
        table_identifier: mirror.${{getMetadata("iceberg_table_name")}}
        catalog: {catalog}
        operation: ${{getMetadata("iceberg_operation")}}
        identifier_columns: [{key}]
        write_mode: {mode}
        auto_create: true
        schema_evolution: true
"""


class Mirror:
    """A pipeline from a table to its mirror, run in this process, each time to the end of what is there."""

    def __init__(
        self,
        spark: SparkSession,
        lake: Catalog,
        table: Table,
        more: str,
        mode: str,
        folder: Path,
        processor: str = "",
        key: str = "",
    ) -> None:
        self.spark, self.folder = spark, folder
        catalog = {"name": "lake", **lake.properties}
        keys = {"key": key or ("row" if "row" in more else "id"), "processor": processor}
        text = YAML.format(table=table.identifier, catalog=catalog, more=more, mode=mode, **keys)
        self.settings = parse_text(text, PLUGINS).pipelines[0]
        self.name = f"lake.mirror.{table.identifier}"

    def catch_up(self) -> dict[str, Any]:
        with Watch() as watch:
            parts = PipelineParts(self.settings, LocalFolder(self.folder), Catalogs(session.start()).get)
            Driver(
                session.start(), parts, LocalFolder(self.folder), RunMode(once=True, give_up_seconds=20), watch
            ).run()
            (report,) = watch.reports()
        return report.to_dict()


@pytest.mark.parametrize(("kind", "more", "mode"), KINDS, ids=str)
def test_a_mirror_has_the_rows_and_columns_of_its_table_after_every_run(
    spark: SparkSession, lake: Catalog, tmp_path: Path, kind: Kind, more: str, mode: str
) -> None:
    table = Table(spark, lake, kind, seed=f"{SEED} {kind}")
    mirror = Mirror(spark, lake, table, more, mode, tmp_path / "mirror")
    for _ in range(ROUNDS):
        for _ in range(table.random.randint(1, 4)):
            table.change()
        report = mirror.catch_up()
        assert report["rejects"] == {}, table.done
        assert rows(spark, mirror.name, columns(spark, table.name)) == rows(
            spark, table.name, columns(spark, table.name)
        ), table.done


def test_a_mirror_has_the_variants_of_its_table_and_tells_their_null_from_that_of_sql(
    spark: SparkSession, lake: Catalog, tmp_path: Path
) -> None:
    spark.sql(
        "CREATE TABLE lake.db.free (id INT, v VARIANT, `w 'x` VARIANT) USING iceberg TBLPROPERTIES ('format-version'='3')"
    )
    table = SimpleNamespace(identifier="db.free", name="lake.db.free")
    mode = "merge-on-read\n        table_properties: {format-version: '3'}"
    mirror = Mirror(spark, lake, table, "identifier_columns: [id]", mode, tmp_path / "mirror")
    changes = [
        """INSERT INTO lake.db.free VALUES (1, parse_json('{"b":[1.5,null],"a":{"é":"x"}}'), NULL), (2, parse_json('null'), NULL),
           (3, NULL, parse_json('12345678901234567890.5')), (4, parse_json('"y"'), parse_json('[]'))""",
        "UPDATE lake.db.free SET v = parse_json('null') WHERE id >= 3",
        "UPDATE lake.db.free SET v = NULL WHERE id = 2",
    ]
    for change in changes:
        spark.sql(change)
        assert mirror.catch_up()["rejects"] == {}
        found = [
            spark.sql(f"SELECT id, to_json(v), to_json(`w 'x`) FROM {name} ORDER BY id").collect()
            for name in (table.name, mirror.name)
        ]
        assert found[0] == found[1]
    assert [row[1] for row in found[1]][1:] == [None, "null", "null"]


def test_a_masked_mirror_has_hashed_keys_after_load_and_changes_and_deletes_find_their_rows(
    spark: SparkSession, lake: Catalog, tmp_path: Path
) -> None:
    secret = "the key of this test"
    masks = "[{names: [id], action: hash}, {names: [name], action: fixed}]"
    processors = (
        f"mask: {{key: {secret}, columns: {masks}}}",
        "rename_keys: {entries: [{from_key: id, to_key: person}]}",
        "convert_type: {key: n, type: string}",
        "lowercase_string: {with_keys: [city]}",
        "add_entries: {entries: [{key: origin, value: 1}]}",
        "delete_entries: {with_keys: [note]}",
    )
    processor = ", ".join(f"{{{text}}}" for text in processors)
    spark.sql("CREATE TABLE lake.db.people (id BIGINT, name STRING, n INT, city STRING, note STRING) USING iceberg")
    table = SimpleNamespace(identifier="db.people", name="lake.db.people")
    mirror = Mirror(
        spark, lake, table, "identifier_columns: [id]", "merge-on-read", tmp_path / "mirror", processor, "person"
    )
    changes = [
        ["INSERT INTO lake.db.people SELECT id, 'canary', id % 3, 'Kiel', 'canary' FROM range(20)"],
        [
            "UPDATE lake.db.people SET n = NULL, city = 'Bonn' WHERE id < 5",
            "UPDATE lake.db.people SET id = id + 100 WHERE id = 7",
            "DELETE FROM lake.db.people WHERE id BETWEEN 10 AND 12",
            "INSERT INTO lake.db.people VALUES (11, 'canary', 9, 'ULM', 'canary')",
        ],
    ]
    for statements in changes:
        for statement in statements:
            spark.sql(statement)
        assert mirror.catch_up()["rejects"] == {}
        people = spark.sql(f"SELECT id, CAST(n AS STRING), lower(city) FROM {table.name}").collect()
        hashes = [hmac.digest(secret.encode(), str(row[0]).encode(), "sha256").hex() for row in people]
        wanted = [(key, "***", row[1], row[2], 1) for key, row in zip(hashes, people, strict=True)]
        masked = spark.sql(f"SELECT person, name, n, city, origin FROM {mirror.name}").collect()
        assert sorted(map(tuple, masked)) == sorted(wanted)
    assert "note" not in columns(spark, mirror.name)


def test_a_column_that_was_only_widened_takes_its_new_values_at_once(
    spark: SparkSession, lake: Catalog, tmp_path: Path
) -> None:
    table = Table(spark, lake, Kind("copy-on-write", 2, "", has_key=True), seed="wide")
    mirror = Mirror(spark, lake, table, "", "equality-delete", tmp_path / "mirror")
    table.append()
    mirror.catch_up()
    table.widen_columns()
    spark.sql(f"INSERT INTO {table.name} VALUES (1000, 'a', 5000000000, 0.1, 's', NULL)")
    assert mirror.catch_up()["rejects"] == {}
    assert spark.sql(f"SELECT n, x FROM {mirror.name} WHERE id = 1000").collect() == [(5_000_000_000, 0.1)]


@needs_core
def test_a_dropped_column_stays_in_the_mirror_optional_and_empty_or_goes_beside_upserts_and_that_is_said(
    spark: SparkSession,
    lake: Catalog,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    small_indexes(monkeypatch)
    caplog.set_level("INFO", "calve")
    tables = ("less", "kept", "gone")
    for name in tables:
        must = "STRING" if name == "kept" else "STRING NOT NULL"
        spark.sql(f"CREATE TABLE lake.db.{name} (id INT, must {must}, s STRUCT<a: INT, b: INT>) USING iceberg")
    table = SimpleNamespace(identifier="db.less", name="lake.db.less")
    others = "}, {".join(f"table_name: db.{name}, identifier_columns: [id]" for name in tables[1:])
    fates = "{name: mirror.db.kept, on_dropped_column: keep}, {name: mirror.db.gone, on_dropped_column: drop}"
    mode = f"merge-on-read\n        tables: [{fates}]"
    mirror = Mirror(spark, lake, table, f"identifier_columns: [id]}}, {{{others}", mode, tmp_path / "mirror")

    def change(*statements: str) -> None:
        for statement in statements:
            for name in tables:
                spark.sql(statement.format(f"lake.db.{name}"))
        assert mirror.catch_up()["rejects"] == {}

    change("INSERT INTO {} SELECT id, 'x', named_struct('a', id, 'b', 2) FROM range(4)")
    change(
        "ALTER TABLE {} DROP COLUMN must",
        "ALTER TABLE {} DROP COLUMN s.b",
        "UPDATE {} SET s = named_struct('a', 10) WHERE id = 1",
        "DELETE FROM {} WHERE id = 2",
        "INSERT INTO {} VALUES (4, struct(4))",
    )
    change("UPDATE {} SET s = named_struct('a', 30) WHERE id IN (3, 4)")
    for name in ("less", "kept"):
        found = spark.sql(f"SELECT id, must, s.a, s.b FROM lake.mirror.db.{name} ORDER BY id").collect()
        assert found == [(0, "x", 0, 2), (1, None, 10, None), (3, None, 30, None), (4, None, 30, None)]
    assert rows(spark, "lake.mirror.db.gone", ["*"]) == rows(spark, "lake.db.gone", ["*"])
    assert columns(spark, "lake.mirror.db.gone") == columns(spark, "lake.db.gone") == ["id", "s"]
    assert len(list((tmp_path / "mirror").glob("keys/*/index"))) == len(tables)
    said = [line for line in caplog.messages if "the table mirror.db.less follows its source" in line]
    assert "must is now of type optional string, " in said[0]
    assert said[0].endswith("must stays, although the source dropped it, s.b stays, although the source dropped it")


def test_a_column_that_was_dropped_and_added_again_loses_its_older_values_in_the_mirror_too(
    spark: SparkSession, lake: Catalog, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "calve")
    spark.sql("CREATE TABLE lake.db.again (id INT, v INT, w STRING, s STRUCT<a: INT, b: INT>) USING iceberg")
    table = SimpleNamespace(identifier="db.again", name="lake.db.again")
    mirror = Mirror(spark, lake, table, "identifier_columns: [id]", "equality-delete", tmp_path / "mirror")
    spark.sql("INSERT INTO lake.db.again VALUES (1, 10, 'x', struct(1, 2)), (2, 20, 'y', struct(3, 4))")
    mirror.catch_up()
    for column, kind in (("v", "INT"), ("w", "DOUBLE"), ("s.b", "INT")):
        spark.sql(f"ALTER TABLE lake.db.again DROP COLUMN {column}")
        spark.sql(f"ALTER TABLE lake.db.again ADD COLUMN {column} {kind}")
    spark.sql("INSERT INTO lake.db.again SELECT 3 AS id, struct(5, 6) AS s, 30 AS v, 1.5D AS w")
    assert mirror.catch_up()["rejects"] == {}
    wanted = columns(spark, table.name)
    assert rows(spark, mirror.name, wanted) == rows(spark, table.name, wanted)
    assert spark.sql(f"SELECT v, w, s.b FROM {mirror.name} WHERE id = 1").collect() == [(None, None, None)]
    assert caplog.text.count("is another column in the source now, so its older values were removed") == 3


def test_a_replaced_column_that_partitions_the_mirror_stays_and_the_remedy_is_said(
    spark: SparkSession, lake: Catalog, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "calve")
    spark.sql("CREATE TABLE lake.db.parted (id INT, p STRING) USING iceberg")
    table = SimpleNamespace(identifier="db.parted", name="lake.db.parted")
    mode = "merge-on-read\n        partition_by: [p]"
    mirror = Mirror(spark, lake, table, "identifier_columns: [id]", mode, tmp_path / "mirror")
    spark.sql("INSERT INTO lake.db.parted VALUES (1, 'x')")
    mirror.catch_up()
    spark.sql("ALTER TABLE lake.db.parted DROP COLUMN p")
    spark.sql("ALTER TABLE lake.db.parted ADD COLUMN p STRING")
    spark.sql("INSERT INTO lake.db.parted VALUES (2, 'z')")
    assert mirror.catch_up()["rejects"] == {}
    assert sorted(spark.sql(f"SELECT id, p FROM {mirror.name}").collect()) == [(1, "x"), (2, "z")]
    assert (
        "p is another column in the source now, but keeps its older values, because it cannot be removed" in caplog.text
    )


@pytest.mark.parametrize("mode", ["equality-delete", "merge-on-read"])
def test_rows_that_were_deleted_by_a_key_stay_deleted_when_the_source_widens_it(
    spark: SparkSession, lake: Catalog, tmp_path: Path, mode: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "calve")
    keeps = mode == "equality-delete"
    name = f"key_{mode.partition('-')[0]}"
    spark.sql(f"CREATE TABLE lake.db.{name} (id INT, t STRING) USING iceberg")
    table = SimpleNamespace(identifier=f"db.{name}", name=f"lake.db.{name}")
    mirror = Mirror(spark, lake, table, "identifier_columns: [id]", mode, tmp_path / "mirror")
    changes = [
        "INSERT INTO {} VALUES (1, 'a'), (2, 'b'), (3, 'c'), (4, 'd')",
        "DELETE FROM {} WHERE id = 1",
        "ALTER TABLE {} ALTER COLUMN id TYPE BIGINT",
        "INSERT INTO {} VALUES (5000000000, 'e'), (6, 'f')",
        "DELETE FROM {} WHERE id = 2",
        "UPDATE {} SET t = 'g' WHERE id IN (3, 6)",
    ]
    for change in changes:
        spark.sql(change.format(table.name))
        rejects = mirror.catch_up()["rejects"]
        there = spark.sql(f"SELECT * FROM {table.name} {'WHERE id < 5000' if keeps else ''}").collect()
        assert sorted(spark.sql(f"SELECT * FROM {mirror.name}").collect()) == sorted(there), change
    assert rejects == ({"NOT_COERCIBLE": 1} if keeps else {})
    assert ("id stays of type int because of equality deletes" in caplog.text) == keeps


def columns(spark: SparkSession, name: str) -> list[str]:
    return spark.table(name).columns


def rows(spark: SparkSession, name: str, wanted: list[str]) -> Counter[Any]:
    return Counter(tuple(exact(value) for value in row) for row in spark.table(name).select(*wanted).collect())


@pytest.mark.parametrize("version", [2, 3])
def test_a_column_with_a_default_is_in_the_rows_of_a_mirror_that_can_have_defaults_and_else_said(
    spark: SparkSession, lake: Catalog, tmp_path: Path, caplog: pytest.LogCaptureFixture, version: int
) -> None:
    caplog.set_level("INFO", "calve")
    name = f"lake.db.defaults{version}"
    spark.sql(f"CREATE TABLE {name} (id INT, s STRUCT<a: INT>) USING iceberg TBLPROPERTIES ('format-version'='3')")
    table = SimpleNamespace(identifier=name.removeprefix("lake."), name=name)
    mode = f"merge-on-read\n        table_properties: {{format-version: '{version}'}}"
    mirror = Mirror(spark, lake, table, "identifier_columns: [id]", mode, tmp_path / "mirror")
    _add_default(spark, lake, table.identifier, None, "before", "b")
    spark.sql(f"INSERT INTO {name} VALUES (1, struct(1), 'x'), (2, NULL, NULL)")
    mirror.catch_up()
    _add_default(spark, lake, table.identifier, None, "v", "é")
    _add_default(spark, lake, table.identifier, "s", "n", "in")
    spark.sql(f"INSERT INTO {name} VALUES (3, struct(3, NULL), 'y', 'given')")
    assert mirror.catch_up()["rejects"] == {}
    wanted = columns(spark, name)
    found = rows(spark, mirror.name, wanted)
    assert (found == rows(spark, name, wanted)) == (version == 3)
    assert caplog.text.count("is NULL in the rows that are there") == (2 if version == 2 else 0)
    assert version == 3 or spark.sql(f"SELECT v, s.n FROM {mirror.name} WHERE id = 1").collect() == [(None, None)]


def _add_default(spark: SparkSession, lake: Catalog, table: str, parent: str | None, name: str, value: str) -> None:
    """Add a column with a default, which Spark's SQL cannot."""
    iceberg = session.start().jvm.org.apache.iceberg
    literal = iceberg.expressions.Literal.of(value)
    update = lake.load_java(table).updateSchema()
    update.addColumn(parent, name, iceberg.types.Types.StringType.get(), None, literal).commit()
    spark.sql(f"REFRESH TABLE lake.{table}")

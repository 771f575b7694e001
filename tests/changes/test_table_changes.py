"""What single kinds of snapshots change, on real tables; `test_histories` mixes them."""

from __future__ import annotations

import json
import re
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from calve.catalog.catalog import Catalog
from calve.changes.plan import Planner
from calve.changes.table_changes import TableChanges
from calve.engine import session
from calve.errors import NoTargetError, PositionLostError, SettingsError
from changes.history import planned

pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),  # PySpark's, of `collect`
]


class Told:
    """A table, and what is told of it."""

    def __init__(
        self, spark: SparkSession, lake: Catalog, name: str, columns: str, partition: str = "", **properties: str
    ) -> None:
        self.spark, self.lake, self.identifier, self.name = spark, lake, f"db.{name}", f"lake.db.{name}"
        texts = {"format-version": "2", **{key.replace("_", "."): value for key, value in properties.items()}}
        listed = ", ".join(f"'{key}'='{value}'" for key, value in texts.items())
        by = f"PARTITIONED BY ({partition})" if partition else ""
        spark.sql(f"CREATE TABLE {self.name} ({columns}) USING iceberg {by} TBLPROPERTIES ({listed})")

    def sql(self, text: str) -> int:
        """Run a statement on the table, `T`; give the snapshot that it made."""
        self.spark.sql(re.sub(r"\bT\b", self.name, text, count=1))
        snapshot = self.java().currentSnapshot()
        return 0 if snapshot is None else int(snapshot.snapshotId())

    def java(self) -> Any:
        return self.lake.load_java(self.identifier)

    def changes(self, key: tuple[str, ...] = (), branch: str = "main") -> TableChanges:
        load = partial(self.lake.load_java, self.identifier)
        return TableChanges(Planner(session.start()), self.identifier, load, branch, key)

    def lines(self, after: int | None = None, key: tuple[str, ...] = (), **more: Any) -> list[dict[str, Any]]:
        told = self.changes(key, **more)
        return [json.loads(line) for step in told.steps(after) for line in told.lines(step)]

    def brief(self, after: int | None = None, key: tuple[str, ...] = ()) -> list[tuple[Any, ...]]:
        found = self.lines(after, key)
        return sorted((each["metadata"]["iceberg_operation"], *each["event"].values()) for each in found)


def test_values_and_metadata_are_written_as_data_prepper_writes_them(spark: SparkSession, lake: Catalog) -> None:
    told = Told(
        spark,
        lake,
        "written",
        "id BIGINT, d DECIMAL(20, 10), day DATE, ts TIMESTAMP, local TIMESTAMP_NTZ, b BINARY, x FLOAT, s STRING, "
        "m MAP<DATE, DECIMAL(5, 2)>, st STRUCT<a: TIMESTAMP, l: ARRAY<BINARY>>, none STRING",
    )
    head = told.sql(
        "INSERT INTO T SELECT 9007199254740993, 0.0000000001, DATE'2024-01-15', TIMESTAMP'2024-03-15 14:30:00.1', "
        "TIMESTAMP_NTZ'2024-03-15 14:30:00', X'FFFE', CAST('NaN' AS FLOAT), 'a|b', map(DATE'2020-01-01', 1.5), "
        "named_struct('a', TIMESTAMP'2024-03-15 14:30:00.123456', 'l', array(X'01', NULL)), NULL"
    )
    (line,) = told.lines(key=("id", "s", "none", "st.a"))
    assert line["event"] == {
        "id": 9007199254740993,
        "d": "0.0000000001",
        "day": "2024-01-15",
        "ts": "2024-03-15T14:30:00.1Z",
        "local": "2024-03-15T14:30:00",
        "b": "//4=",
        "x": "NaN",
        "s": "a|b",
        "m": {"2020-01-01": "1.50"},
        "st": {"a": "2024-03-15T14:30:00.123456Z", "l": ["AQ==", None]},
        "none": None,
    }
    moment = line["metadata"].pop("iceberg_commit_timestamp")
    assert moment == told.changes().steps()[0].snapshot.committed_at
    assert line["metadata"] == {
        "iceberg_operation": "INSERT",
        "iceberg_table_name": "db.written",
        "iceberg_snapshot_id": head,
        "iceberg_sequence_number": 1,
        "document_id": "9007199254740993|a\\|b|\\N|2024-03-15T14:30:00.123456Z",
        "bulk_action": "index",
    }


def test_keys_that_could_be_taken_for_one_another_give_different_documents(spark: SparkSession, lake: Catalog) -> None:
    told = Told(spark, lake, "keys", "a STRING, b STRING")
    told.sql(r"INSERT INTO T VALUES ('a|b', 'c'), ('a', 'b|c'), ('a\\', 'b|c'), (NULL, 'N'), ('\\N', 'N'), ('', NULL)")
    ids = {line["metadata"]["document_id"] for line in told.lines(key=("a", "b"))}
    assert ids == {r"a\|b|c", r"a|b\|c", r"a\\|b\|c", r"\N|N", r"\\N|N", r"|\N"}


def test_a_key_that_is_one_empty_text_gives_a_document_that_its_delete_finds(
    spark: SparkSession, lake: Catalog
) -> None:
    told = Told(spark, lake, "alone", "a STRING")
    head = told.sql(r"INSERT INTO T VALUES (''), (NULL), ('\\E'), ('|')")
    assert {line["metadata"]["document_id"] for line in told.lines(key=("a",))} == {r"\E", r"\N", r"\\E", r"\|"}
    told.sql("DELETE FROM T WHERE a = ''")
    [delete] = told.lines(head, key=("a",))
    assert (delete["metadata"]["document_id"], delete["metadata"]["bulk_action"]) == (r"\E", "delete")


def test_carry_over_is_exact_to_the_sign_of_a_zero(spark: SparkSession, lake: Catalog) -> None:
    told = Told(spark, lake, "exact", "id INT, x DOUBLE, m MAP<STRING, INT>, l ARRAY<FLOAT>")
    after = told.sql(
        "INSERT INTO T SELECT /*+ COALESCE(1) */ * FROM VALUES (1, -0.0D, map('b', 1, 'a', 2), array(-0.0F)), "
        "(2, DOUBLE('NaN'), map(), array(FLOAT('NaN'), NULL)), (3, 0.0D, NULL, NULL), (4, NULL, map('a', NULL), array())"
    )
    told.sql("UPDATE T SET x = -0.0D WHERE id = 3")
    found = [(*line["metadata"].values(), line["event"]) for line in told.lines(after, ("id",))]
    assert [(each[0], str(each[-1]["x"]), each[-1]["id"]) for each in found] == [
        ("UPDATE_BEFORE", "0.0", 3),
        ("UPDATE_AFTER", "-0.0", 3),
    ]


def test_variants_are_told_as_json_and_their_null_is_not_that_of_sql(spark: SparkSession, lake: Catalog) -> None:
    properties = {"format-version": "3", "write.update.mode": "copy-on-write"}
    told = Told(spark, lake, "variants", "id INT, v VARIANT, s STRUCT<v: VARIANT>", **properties)
    texts = ["null", '{"b":[1.5,null],"a":{}}', "12345678901234567890.5", '"x"']
    rows = [f"({number}, parse_json('{text}'), struct(parse_json('{text}')))" for number, text in enumerate(texts)]
    after = told.sql(f"INSERT INTO T SELECT /*+ COALESCE(1) */ * FROM VALUES {', '.join(rows)}, (4, NULL, NULL)")
    events = {line["event"]["id"]: line["event"] for line in told.lines()}
    assert [events[number]["v"] for number in range(5)] == [*map(json.loads, texts), None]
    assert [events[number]["s"] for number in range(5)] == [*({"v": json.loads(text)} for text in texts), None]
    told.sql("UPDATE T SET v = parse_json('null') WHERE id = 4 OR id = 0")
    found = {(line["metadata"]["iceberg_operation"], line["event"]["id"]) for line in told.lines(after, ("id",))}
    assert found == {("UPDATE_BEFORE", 4), ("UPDATE_AFTER", 4)}


def test_equal_rows_are_counted(spark: SparkSession, lake: Catalog) -> None:
    told = Told(spark, lake, "counted", "id INT")
    told.sql("INSERT INTO T SELECT /*+ COALESCE(1) */ * FROM VALUES (1), (1), (1), (2)")
    after = told.sql("INSERT INTO T VALUES (1)")
    told.spark.conf.set("spark.sql.sources.partitionOverwriteMode", "static")
    try:
        told.sql("INSERT OVERWRITE T VALUES (1), (2), (2)")
    finally:
        told.spark.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
    assert told.brief(after) == [("DELETE", 1), ("DELETE", 1), ("DELETE", 1), ("INSERT", 2)]


def test_of_a_key_that_is_not_unique_the_old_rows_come_first(spark: SparkSession, lake: Catalog) -> None:
    told = Told(spark, lake, "twice", "id INT, v INT")
    after = told.sql("INSERT INTO T SELECT /*+ COALESCE(1) */ * FROM VALUES (1, 1), (1, 2)")
    told.spark.conf.set("spark.sql.sources.partitionOverwriteMode", "static")
    try:
        told.sql("INSERT OVERWRITE T VALUES (1, 3)")
    finally:
        told.spark.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
    operations = [line["metadata"]["iceberg_operation"] for line in told.lines(after, ("id",))]
    assert sorted(operations[:2]) == ["DELETE", "UPDATE_BEFORE"]
    assert operations[2:] == ["UPDATE_AFTER"]


def test_the_first_changes_after_an_upgrade_have_no_row_ids_yet(spark: SparkSession, lake: Catalog) -> None:
    told = Told(spark, lake, "upgraded", "id INT, v INT")
    told.sql("INSERT INTO T SELECT /*+ COALESCE(1) */ * FROM VALUES (1, 1), (2, 2)")
    upgraded = told.sql("ALTER TABLE T SET TBLPROPERTIES ('format-version'='3')")
    first = told.sql("UPDATE T SET v = 9 WHERE id = 1")
    told.sql("UPDATE T SET v = 8 WHERE id = 1")
    assert told.brief(upgraded) == [
        ("DELETE", 1, 1),
        ("INSERT", 1, 9),
        ("UPDATE_AFTER", 1, 8),
        ("UPDATE_BEFORE", 1, 9),
    ]
    ids = [line["metadata"]["document_id"] for line in told.lines(first)]
    assert len(set(ids)) == 1
    assert ids[0].isdecimal()


def test_a_rolled_back_position_is_an_error_and_what_is_left_can_be_told(spark: SparkSession, lake: Catalog) -> None:
    told = Told(spark, lake, "rolled", "id INT")
    kept = told.sql("INSERT INTO T VALUES (1)")
    undone = told.sql("INSERT INTO T VALUES (2)")
    told.java().manageSnapshots().rollbackTo(kept).commit()
    told.sql("INSERT INTO T VALUES (3)")
    with pytest.raises(PositionLostError, match=rf"{undone} of db\.rolled is not on the branch main.*start at {kept}"):
        told.brief(undone)
    assert told.brief(kept) == [("INSERT", 3)]
    assert told.brief() == [("INSERT", 1), ("INSERT", 3)]


def test_an_expired_position_is_an_error_unless_only_rows_were_added_since(spark: SparkSession, lake: Catalog) -> None:
    told = Told(spark, lake, "expired", "id INT")
    first = told.sql("INSERT INTO T SELECT /*+ COALESCE(1) */ * FROM VALUES (1), (2)")
    second = told.sql("INSERT INTO T VALUES (3)")
    third = told.sql("DELETE FROM T WHERE id = 1")
    fourth = told.sql("INSERT INTO T VALUES (4)")
    told.java().expireSnapshots().expireSnapshotId(first).commit()
    assert told.brief(first) == [("DELETE", 1), ("INSERT", 3), ("INSERT", 4)]  # its child only added rows
    told.java().expireSnapshots().expireSnapshotId(second).commit()
    with pytest.raises(
        PositionLostError, match=rf"The changes of the snapshot {third} of db\.expired are no longer known"
    ):
        told.brief(second)
    with pytest.raises(PositionLostError, match=rf"has no snapshot {first}: it has expired"):
        told.brief(first)
    assert told.brief() == [("INSERT", 2), ("INSERT", 3), ("INSERT", 4)]  # the oldest one whole
    assert told.brief(third) == [("INSERT", 4)]
    assert told.brief(fourth) == []


def test_a_table_that_was_made_anew_is_not_taken_for_the_old_one(spark: SparkSession, lake: Catalog) -> None:
    told = Told(spark, lake, "anew", "id INT")
    told.sql("INSERT INTO T VALUES (1)")
    changes = told.changes()
    after = changes.steps()[-1].snapshot.snapshot_id
    spark.sql(f"DROP TABLE {told.name}")
    with pytest.raises(NoTargetError, match=r"db\.anew does not exist"):
        changes.steps(after)
    spark.sql(f"CREATE TABLE {told.name} (id INT) USING iceberg")
    with pytest.raises(PositionLostError, match=r"db\.anew was dropped and recreated"):
        changes.steps(after)


def test_a_branch_has_changes_of_its_own(spark: SparkSession, lake: Catalog) -> None:
    told = Told(spark, lake, "branched", "id INT")
    after = told.sql("INSERT INTO T VALUES (1)")
    told.sql("ALTER TABLE T SET TBLPROPERTIES ('x'='y')")
    told.java().manageSnapshots().createBranch("audit", after).commit()
    spark.sql(f"INSERT INTO {told.name}.branch_audit VALUES (2)")
    assert [line["event"]["id"] for line in told.lines(after, branch="audit")] == [2]
    assert told.lines(after) == []
    with pytest.raises(NoTargetError, match=r"has no branch nowhere. It has: audit, main"):
        told.lines(after, branch="nowhere")


def test_files_that_are_gone_are_a_lost_position(spark: SparkSession, lake: Catalog) -> None:
    told = Told(spark, lake, "missing", "id INT")
    told.sql("INSERT INTO T VALUES (1)")
    for task in planned(told.java()):
        told.java().io().deleteFile(task.file().location())
    with pytest.raises(PositionLostError, match=r"Files of snapshots of db\.missing no longer exist"):
        told.lines()


@pytest.mark.parametrize(("key", "why"), [("nope", "nope of db.keyed does not exist. It has: id"), ("l", "is a list")])
def test_a_key_that_can_be_none_is_a_mistake(spark: SparkSession, lake: Catalog, key: str, why: str) -> None:
    if lake.load("db.keyed") is None:
        Told(spark, lake, "keyed", "id INT, l ARRAY<INT>")
    with pytest.raises(SettingsError, match=why):
        TableChanges(Planner(session.start()), "db.keyed", partial(lake.load_java, "db.keyed"), key=(key,)).steps()


def test_columns_that_spark_lacks_are_read_with_their_defaults(spark: SparkSession, lake: Catalog) -> None:
    told = Told(spark, lake, "timed", "id INT, p STRING", "p", **{"format-version": "3"})
    told.sql("INSERT INTO T VALUES (1, 'a'), (2, 'b')")
    iceberg = session.start().jvm.org.apache.iceberg
    types, literals = iceberg.types.Types, iceberg.expressions.Expressions
    update = (
        told.java().updateSchema().addColumn("at", types.TimeType.get(), literals.lit("12:00").to(types.TimeType.get()))
    )
    update.addColumn("place", types.GeometryType.crs84()).addColumn("nothing", types.UnknownType.get()).commit()
    _append(told, "p=c", at=pa.array([1], pa.time64("us")), place=pa.array([b"\0\1"]), nothing=pa.nulls(1))
    assert told.brief() == [
        ("INSERT", 1, "a", "12:00:00", None, None),
        ("INSERT", 2, "b", "12:00:00", None, None),
        ("INSERT", 3, "c", "00:00:00.000001", "AAE=", None),
    ]


def test_a_file_on_which_spark_fails_is_read_by_iceberg(spark: SparkSession, lake: Catalog) -> None:
    told = Told(spark, lake, "pages", "id INT, b BOOLEAN")
    _append(told, "", b=pa.array([True]))
    assert told.brief() == [("INSERT", 3, True)]


def _append(told: Told, partition: str, **columns: pa.Array) -> None:
    file, iceberg = _written(told, **columns), session.start().jvm.org.apache.iceberg
    builder = iceberg.DataFiles.builder(told.java().spec()).withPath(str(file)).withFormat("parquet")
    builder = builder.withFileSizeInBytes(file.stat().st_size).withRecordCount(1)
    builder = builder.withPartitionPath(partition) if partition else builder
    told.java().newAppend().appendFile(builder.build()).commit()


def _written(told: Told, **columns: pa.Array) -> Path:
    """A file of another writer, with `id` 3, the second version of pages, and without the column of the partition."""
    ids = {str(field.name()): str(field.fieldId()) for field in told.java().schema().columns()}
    values = {"id": pa.array([3], pa.int32()), **columns}
    fields = [pa.field(name, array.type, metadata={"PARQUET:field_id": ids[name]}) for name, array in values.items()]
    file = Path(str(told.java().location()).removeprefix("file:")) / "data" / "other.parquet"
    file.parent.mkdir(exist_ok=True)
    pq.write_table(pa.table(list(values.values()), schema=pa.schema(fields)), file, data_page_version="2.0")
    return file


@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
def test_what_a_snapshot_did_not_touch_is_not_looked_at(spark: SparkSession, lake: Catalog, mode: str) -> None:
    name = f"touched_{mode[0]}"
    told = Told(spark, lake, name, "id INT, p STRING", "p", write_delete_mode=mode)
    for part in ("a", "b"):
        told.sql(f"INSERT INTO T SELECT /*+ COALESCE(1) */ id, '{part}' FROM range(4)")
    told.sql("DELETE FROM T WHERE p = 'a' AND id = 0")  # now there are deletes, too
    after = told.sql("INSERT INTO T VALUES (9, 'c')")
    told.sql("DELETE FROM T WHERE p = 'a' AND id = 3")
    for task in planned(told.java()):
        if task.file().partition().toString() != "PartitionData{p=a}":
            told.java().io().deleteFile(task.file().location())
    _remove_manifests(told, "b", "c")
    assert told.brief(after) == [("DELETE", 3, "a")]


def _remove_manifests(told: Told, *parts: str) -> None:
    """Remove the manifests that are of these partitions alone."""
    manifests = told.spark.sql(f"SELECT * FROM {told.name}.manifests").collect()
    found = [each.path for each in manifests if {each.partition_summaries[0].lower_bound} <= {*parts}]
    assert len(found) == len(parts)
    for path in found:
        told.java().io().deleteFile(path)

"""Updates that lack columns leave these as they are (`partial_updates: keep`), whatever their type, name and branch."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from pyiceberg.table import StaticTable
from pyspark.sql import SparkSession

from calve.catalog.rows import TableRows
from calve.commit.fence import append
from calve.commit.mark import CommitTarget, Mark
from calve.dead_letters.rejects import DeadLetterLocation
from calve.errors import CommitError
from calve.expression import compile_format
from calve.record.receipt import Failure, Receipt
from calve.reduce.absent import nothing_lacking
from calve.reduce.key import EVENTS, identified
from calve.route.by_table import ByTable
from calve.route.sink_route import SinkRoute
from calve.sinks.iceberg.job import TableJob
from calve.sources.source import Split
from calve.table.definition import schema_from_columns
from calve.task.job import Job
from commit.changes import NAME, Changing, Events, run
from commit.test_changes import named

pytestmark = pytest.mark.spark

UUID = "0f8fad5b-d9cb-469f-a165-7086772895aa"
COLUMNS: dict[str, tuple[str, Any]] = {
    "text": ("string", "ä`\"'"),
    "${/id}": ("string", "${spark.app.name}"),
    "uuid": ("uuid", UUID),
    "fixed": ("fixed[3]", "AAEC"),
    "binary": ("binary", "AAEC"),
    "decimal": ("decimal(38,10)", "12345678901234567890.0123456789"),
    "local": ("timestamp", "1931-01-01T00:00:00.123456"),
    "at": ("timestamptz", "1931-07-01T00:00:00.123456Z"),
    "day": ("date", "0950-01-01"),
    "yes": ("boolean", True),
    "int": ("int", -5),
    "float": ("float", 0.1),
    "double": ("double", 1e300),
    "struct": (
        "struct<a: uuid, x: struct<f: fixed[3], n: decimal(5,1)>, l: list<uuid>>",
        {"a": UUID, "x": {"f": "AAEC", "n": "1.5"}, "l": [UUID, None]},
    ),
    "strict": ("struct<n: int>", {"n": 5}),
    "list": ("list<struct<u: uuid, t: timestamptz>>", [{"u": UUID, "t": "2026-01-01T00:00:00Z"}, None]),
    "map": ("map<uuid, struct<u: uuid, f: fixed[3], d: date>>", {UUID: {"u": UUID, "f": "AAEC", "d": "2026-01-01"}}),
}


MORE: dict[int, dict[str, tuple[str, Any]]] = {
    2: {"time": ("time", "10:11:12.000001")},
    3: {
        "variant": ("variant", {"a": [1, None, "x", 1.5]}),
        "within": ("struct<n: int, v: variant>", {"n": 1, "v": ["y"]}),
    },
}
"""Types by format version; only the search by position can keep times, which Spark has not."""


@pytest.mark.parametrize(("mode", "version"), [("merge-on-read", 2), ("merge-on-read", 3), ("copy-on-write", 3)])
def test_a_value_of_any_type_is_kept_exactly_however_many_updates_it_takes(
    spark: SparkSession, tmp_path: Path, mode: Any, version: int
) -> None:
    catalog = named(spark, tmp_path)
    kinds = {**COLUMNS, **MORE[version]}
    values = {name: value for name, (_, value) in kinds.items()}
    columns = [{"name": name, "type": kind, "required": name == "text"} for name, (kind, _) in kinds.items()]
    schema = identified(schema_from_columns([{"name": "id", "type": "long"}, *columns]), ["id"]).model_dump()
    [strict] = [field["type"] for field in schema["fields"] if field["name"] == "strict"]
    strict["fields"][0]["required"] = True
    catalog.create(NAME, json.dumps(schema), (), {"format-version": str(version)})

    def apply(batch: int, *events: dict[str, Any]) -> None:
        route = SinkRoute(compile_format(NAME, []), (), ByTable(compile_format("${/op}", [])))
        table, place = catalog.load(NAME), DeadLetterLocation(str(tmp_path / "dlq"))
        assert table
        sink = TableJob("iceberg", route, place, "", {NAME: table}, changes=True, keep=True)
        job = Job("p", f"p-{batch}", Events(), (sink,), 100)
        lines = [json.dumps(event).encode() for event in events]
        receipts = [msgspec.json.decode(one, type=Receipt | Failure) for one in run(job, [[Split({"lines": lines})]])]
        assert not [receipt for receipt in receipts if isinstance(receipt, Failure) or receipt.rejects]
        files = [file for receipt in receipts for one in receipt.tables for file in one.files]
        with ThreadPoolExecutor() as committer:  # as in a run: a thread that has no session of its own
            target = CommitTarget(NAME, "", "main", mode)
            committer.submit(append, catalog, target, Mark("p", "s", batch), {batch: files}).result()

    parts = [dict(list(values.items())[start::2]) for start in range(2)]
    apply(1, {"op": "c", "id": 0, **values}, *({"op": "c", "id": key, "text": "x"} for key in (1, 2)))
    apply(2, {"op": "u", "id": 0}, {"op": "u", "id": 1, **parts[0]}, {"op": "u", "id": 1, **parts[1], "struct": None})
    apply(
        3,
        {"op": "u", "id": 1, "struct": values["struct"]},
        {"op": "u", "id": 2, **parts[1]},
        {"op": "u", "id": 3, "text": "y"},
    )
    apply(4, {"op": "u", "id": 2, **parts[0], "int": 7}, {"op": "u", "id": 2, "int": values["int"]})
    metadata = catalog.load_java(NAME).operations().current().metadataFileLocation()
    rows = (
        [list(row.values()) for row in TableRows(StaticTable.from_metadata(metadata)).reader().read_all().to_pylist()]
        if version == 2
        else list(map(list, spark.sql(f"select * from lakehouse.{NAME}").collect()))
    )
    rows.sort(key=lambda row: row[0])
    assert str(rows[0][1:]) == str(rows[1][1:]) == str(rows[2][1:])
    assert None not in rows[0]
    assert [value or None for value in rows[3]] == [3, "y", *[None] * (len(kinds) - 1)]  # PyIceberg reads NULL as []


@pytest.mark.parametrize("mode", ["merge-on-read", "copy-on-write"])
def test_updates_that_are_no_rows_without_older_ones_are_left_out_and_the_rest_is_committed(
    spark: SparkSession, tmp_path: Path, mode: Any
) -> None:
    table = Changing(named(spark, tmp_path), tmp_path, "uuid", [], 2, keep=True)
    table.create()
    assert table.commit({1: table.stage([("c", 1, 0, "x"), ("c", 2, 0, "x"), ("c", 5, 0, "x")])}, mode) == {}
    changes = [("d", 1, 0, None), ("v", 1, 0, "y"), ("v", 2, 0, "y"), ("d", 3, 0, None), ("k", 3, 0, None)]
    later = [("v", 4, 0, "z"), ("d", 5, 0, None), ("c", 0, 0, "z")]
    files = {2: table.stage([*changes, ("v", 4, 0, "x"), ("v", 4, 0, "y")], 2), 3: table.stage(later)}
    lost = table.commit(files, mode)
    assert {batch: sorted(event["id"][-1] for event in events) for batch, events in lost.items()} == {
        2: ["1", "3", "4", "4"],
        3: ["4"],
    }
    assert table.rejected() == 5
    assert table.in_spark() == table.in_pyiceberg() == [[0, 0, "z", 3002], [2, 0, "y", 1001]]


@pytest.mark.parametrize("mode", ["merge-on-read", "copy-on-write"])
def test_a_variant_column_that_no_snapshot_has_yet_does_not_stop_a_merge(
    spark: SparkSession, tmp_path: Path, mode: Any
) -> None:
    table = Changing(named(spark, tmp_path), tmp_path, "long", [], 3)
    table.create()
    table.commit({1: table.stage([("c", 1, 0, "x"), ("c", 2, 0, "x")])}, mode)
    variant = table.catalog.spark.jvm.org.apache.iceberg.types.Types.VariantType.get()
    table.catalog.load_java(NAME).updateSchema().addColumn("payload", variant).commit()
    table.commit({2: table.stage([("d", 1, 0, None), ("u", 2, 0, "y")])}, mode)
    assert [row[:3] for row in table.in_spark()] == [[2, 0, "y"]]


def no_letters(rows: int) -> pa.Array:
    return nothing_lacking(rows).column(EVENTS).combine_chunks()


def test_an_update_is_a_row_if_the_column_has_become_optional_and_holds_the_table_if_nobody_knows_its_event(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = Changing(named(spark, tmp_path), tmp_path, "long", [], 2, keep=True)
    table.create()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("calve.reduce.absent.Absences._letters", lambda *given: no_letters(len(given[-1])))
        files = {1: table.stage([("v", 1, 0, "y"), ("v", 2, 0, "y")])}
    for mode in ("merge-on-read", "copy-on-write"):
        with pytest.raises(CommitError, match=r"2 staged updates .* lack a required column \(value\)") as caught:
            table.commit(files, mode)
        assert "DROP NOT NULL" in caught.value.hint
    table.catalog.load_java(NAME).updateSchema().makeColumnOptional("value").commit()
    assert table.commit(files, "merge-on-read") == {}
    assert table.in_spark() == table.in_pyiceberg() == [[1, 0, "y", None], [2, 0, "y", None]]


def test_a_repeated_commit_tells_anew_what_is_left_out(spark: SparkSession, tmp_path: Path) -> None:
    table = Changing(named(spark, tmp_path), tmp_path, "long", [], 2, keep=True)
    table.create()
    table.commit({1: table.stage([("c", 0, 0, "x")])}, "merge-on-read")
    files = {2: table.stage([("v", 1, 0, "y"), ("v", 2, 0, "y")])}

    def overtake(point: str) -> None:
        if "before" in point and overtaking:
            overtaking.pop()
            spark.sql(f"insert into lakehouse.{NAME} values (1, named_struct('n', 0), 'x', 7)")

    overtaking = [1]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("calve.commit.swap.stop_at", overtake)
        lost = table.commit(files, "merge-on-read")
    assert not overtaking
    assert [event["id"] for event in lost[2]] == [2]
    assert table.rejected() == 1
    assert table.in_spark() == table.in_pyiceberg() == [[0, 0, "x", 1000], [1, 0, "y", 7]]


@pytest.mark.parametrize("mode", ["merge-on-read", "copy-on-write"])
def test_columns_that_were_renamed_dropped_or_added_after_staging_are_kept_as_they_are_by_then(
    spark: SparkSession, tmp_path: Path, mode: Any
) -> None:
    table = Changing(named(spark, tmp_path), tmp_path, "long", [], 3, keep=True)
    table.create()
    table.commit({1: table.stage([("c", 1, 0, "x"), ("c", 2, 0, "y")])}, mode)
    files = {2: table.stage([("v", 1, 0, "z"), ("p", 2, 0, None)])}
    spark.sql(f"alter table lakehouse.{NAME} rename column value to worth")
    spark.sql(f"alter table lakehouse.{NAME} drop column place")
    spark.sql(f"alter table lakehouse.{NAME} add column more string")
    spark.sql(f"update lakehouse.{NAME} set more = 'new'")
    table.commit(files, mode)
    rows = spark.sql(f"select id, worth, more from lakehouse.{NAME} order by id").collect()
    assert [list(row) for row in rows] == [[1, 1000, "new"], [2, 2001, "new"]]


def test_a_changed_row_keeps_its_id_and_has_the_default_of_a_column_that_is_younger_than_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = Changing(named(spark, tmp_path), tmp_path, "long", [("place", "identity")], 3, keep=True)
    table.create()
    table.commit({1: table.stage([("c", key, 0, "x") for key in range(3)])}, "merge-on-read")
    before = dict(spark.sql(f"select id, _row_id from lakehouse.{NAME}").collect())
    jvm = table.catalog.spark.jvm.org.apache.iceberg
    default = jvm.expressions.Literal.of(7)
    java = table.catalog.load_java(NAME)
    java.updateSchema().addColumn("more", jvm.types.Types.IntegerType.get(), default).commit()
    files = {
        2: table.stage([("p", 1, 0, None), ("v", 2, 0, "y")]),
        3: table.stage([("v", 1, 0, "z"), ("u", 0, 0, "x")]),
    }
    table.commit(files, "merge-on-read")
    rows = spark.sql(f"select id, place, value, more, _row_id from lakehouse.{NAME} order by id").collect()
    assert [tuple(row)[:4] for row in rows] == [(0, "x", 3001, 7), (1, "z", 2000, 7), (2, "y", 1002, 7)]
    assert {row[0]: row[4] for row in rows} == before
    table.commit({4: table.stage([("v", 1, 0, "w")])}, "merge-on-read")
    row = spark.sql(
        f"select place, _row_id, _last_updated_sequence_number from lakehouse.{NAME} where id = 1"
    ).collect()
    assert [tuple(each) for each in row] == [("w", before[1], 3)]
    assert "spark.app.id" not in dict(table.catalog.load_java(NAME).currentSnapshot().summary())


@pytest.mark.parametrize("branch", ["main", "audit"])
def test_an_update_that_lacks_columns_may_be_the_first_row_of_a_branch(
    spark: SparkSession, tmp_path: Path, branch: str
) -> None:
    table = Changing(named(spark, tmp_path), tmp_path, "string", [("place", "identity")], 2, branch, keep=True)
    table.create()
    table.commit({1: table.stage([("p", 1, 0, None)])}, "merge-on-read")
    table.commit({2: table.stage([("v", 1, 0, "y"), ("p", 2, 0, None)])}, "merge-on-read")
    assert table.in_spark() == table.in_pyiceberg() == table.expected()


YAML = """
orders:
  source: {file: {path: "*.ndjson"}}
  sink:
    - iceberg:
        table_identifier: shop.orders
        auto_create: true
        schema: {columns: [{name: id, type: long}, {name: must, type: string, required: true}, {name: n, type: long}]}
        operation: ${/op}
        identifier_columns: [id]
        write_mode: merge-on-read
        partial_updates: keep
        exclude_keys: [op]
"""


def test_what_only_the_commit_rejects_is_counted_by_the_run_by_status_and_by_the_snapshot(calve: Any) -> None:
    job = calve(YAML)
    events = [{"op": "c", "id": 1, "must": "x", "n": 1}, {"op": "u", "id": 2, "n": 2}, {"op": "c", "id": 3}]
    (job.folder / "1.ndjson").write_text("".join(json.dumps(each) + "\n" for each in events))
    assert job.once() == 0, job.said()
    assert "2 rejected (REQUIRED_MISSING 2): calve dlq show" in job.said()
    assert job.status("orders")["tables"]["shop.orders"]["rejects"] == {"REQUIRED_MISSING": 2}
    assert job.catalog().load_table("shop.orders").current_snapshot().summary["calve.rejected"] == "2"
    assert len(job.dead_letters("orders")) == 2

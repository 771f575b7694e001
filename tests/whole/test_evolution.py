"""Tables that are made, kept, missing or changed while a pipeline runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.table import StaticTable, Table

from kit.running import Calve, post, until
from services.process import free_ports

pytestmark = pytest.mark.spark

QUICK = {"flush_interval": "200ms", "commit_interval": "200ms"}
FILE = {"file": {"path": "events.ndjson"}}
SCHEMA = {
    "columns": [
        {"name": "id", "type": "long", "required": True},
        {"name": "at", "type": "timestamptz"},
        {"name": "place", "type": "struct<city: string, zip: int>"},
    ],
    "partition_spec": [{"column": "at", "transform": "day"}, {"column": "place.city", "transform": "truncate[2]"}],
}


def configuration(**pipelines: tuple[dict[str, Any], dict[str, Any]]) -> str:
    """Pipelines of one source and one Iceberg sink, as YAML (JSON is YAML)."""
    return json.dumps(
        {name: {"source": source, "sink": [{"iceberg": sink}]} for name, (source, sink) in pipelines.items()}
    )


def feed(job: Calve, *events: dict[str, Any]) -> None:
    (job.folder / "events.ndjson").write_text("".join(json.dumps(each) + "\n" for each in events))


def feed_two_tasks(job: Calve, *last: dict[str, Any]) -> int:
    """Write two files, each large enough for a task of its own; only the second ends with these events."""
    long = "x" * 1000
    for part in (0, 1):
        events = [{"id": part * 10_000 + number, "place": {"city": long}} for number in range(10_000)]
        events += [{"id": f"bad {part}"}, *(last if part else ())]
        text = "".join(json.dumps(each) + "\n" for each in events)
        (job.folder / f"part-{part}.ndjson").write_text(text)
    return 20_000


def rows(table: Table) -> list[dict[str, Any]]:
    return table.scan().to_arrow().sort_by("id").to_pylist()


def test_what_a_task_could_write_is_not_written_again_when_another_task_meets_a_new_field(calve) -> None:
    sink = {"table_identifier": "db.wide", "auto_create": True, "schema_evolution": True, "schema": SCHEMA}
    job: Calve = calve(configuration(wide=({"file": {"path": "part-*.ndjson"}}, sink)))
    count = feed_two_tasks(job, {"id": -1, "late": True})
    assert job.once() == 0
    found = job.rows("db.wide").column("id").to_pylist()
    assert sorted(found) == [-1, *range(count)]
    assert sorted(json.loads(one["event"])["id"] for one in job.dead_letters("wide")) == ["bad 0", "bad 1"]


def test_new_fields_in_mid_stream_add_columns_without_a_restart(calve) -> None:
    [port] = free_ports(1)
    sink = {"table_identifier": "grow.${/kind}", "auto_create": True, "schema_evolution": True, **QUICK}
    job: Calve = calve(configuration(grow=({"http": {"port": port}}, sink)))
    with job.running():
        first = {"id": 1, "kind": "a", "in": {"x": 1}}
        until(lambda: post(port, [first]) == 200, "the source listens")
        until(lambda: "grow.a" in _committed(job, "grow"), "the first event is committed")
        assert post(port, [{"id": 2, "kind": "a", "in": {"x": 2, "y": "new"}, "tags": ["t"], "price": 1.5}]) == 200
        until(lambda: _committed(job, "grow").get("grow.a") == 2, "the second event is committed")
        assert post(port, [{"id": 3, "kind": "a"}, {"id": 4, "kind": "b", "other": True}]) == 200
        until(lambda: sum(_committed(job, "grow").values()) == 4, "all events are committed")
    nothing = {"tags": None, "price": None}
    assert job.rows("grow.a").sort_by("id").to_pylist() == [
        {"id": 1, "kind": "a", "in": {"x": 1, "y": None}, **nothing},
        {"id": 2, "kind": "a", "in": {"x": 2, "y": "new"}, "tags": ["t"], "price": 1.5},
        {"id": 3, "kind": "a", "in": None, **nothing},
    ]
    assert job.rows("grow.b").to_pylist() == [{"id": 4, "kind": "b", "other": True}]
    assert job.dead_letters("grow") == []


WIDE = {
    "columns": [
        {"name": "id", "type": "int", "required": True},
        {"name": "n", "type": "int"},
        {"name": "d", "type": "decimal(5,2)"},
        {"name": "of", "type": "list<struct<f: float, m: map<string, int>>>"},
    ],
    "partition_spec": [{"column": "n"}, {"column": "d"}],
}


def test_columns_become_wider_for_values_and_readers_see_old_rows_and_deletes_as_before(calve) -> None:
    made = {"auto_create": True, "schema_evolution": True, "schema": WIDE}
    upsert = {"identifier_columns": ["id"], "upsert": True}
    pipelines = {
        name: ({"file": {"path": "*.ndjson"}}, {"table_identifier": f"db.{name}", **made})
        for name in ("keyed", "plain")
    }
    pipelines["keyed"][1].update(upsert)
    job: Calve = calve(configuration(**pipelines))
    small = {"n": 1, "d": 1.5, "of": [{"f": 1.5, "m": {"k": 1}}]}
    large = {"n": 2**40, "d": "12345.67", "of": [{"f": 1e39, "m": {"k": 2**40}}, None]}
    first = [{"id": number, **small} for number in range(4)]
    second = [{"id": 0, **small}, {"id": 1, "n": 2}, {"id": 5, "n": 7}]
    third = [{"id": 2, **large}, {"id": 9, **large}, {"id": 2**40, "n": 1}]
    for number, events in enumerate((first, second, third)):
        text = "".join(json.dumps(each) + "\n" for each in events)
        (job.folder / f"{number}.ndjson").write_text(text)
        assert job.once() == 0, job.said()
    for name in pipelines:
        assert [(one["code"], one["field"]) for one in job.dead_letters(name)] == [("NOT_COERCIBLE", "id")]
        assert f"the column of.element.m.value of the table db.{name} is now of type long" in job.said()
    old, new = (1, "1.50", 1.5, 1), (2**40, "12345.67", 1e39, 2**40)
    keyed = {(0, *old), (1, 2, *[None] * 3), (2, *new), (3, *old), (5, 7, *[None] * 3), (9, *new)}
    before = {(1, *old), (2, *old)}
    flat = [
        (each["id"], each["n"], each["d"] and str(each["d"]), *((of["f"], dict(of["m"])["k"]) if of else (None, None)))
        for each in job.rows("db.plain").to_pylist()
        for of in [(each["of"] or [None])[0]]
    ]
    assert (len(flat), set(flat)) == (9, keyed | before)
    query = "SELECT id, n, CAST(d AS STRING), of[0].f, of[0].m['k'] FROM lakehouse.db."
    spark = job.shared_spark()
    rows_of_keyed = [tuple(each) for each in spark.sql(f"{query}keyed").collect()]
    assert (len(rows_of_keyed), set(rows_of_keyed)) == (len(keyed), keyed)
    pruned = {tuple(each) for each in spark.sql(f"{query}plain WHERE n = 1").collect()}
    assert pruned == {each for each in keyed | before if each[1] == 1}


def test_a_missing_table_stops_a_static_pipeline_and_rejects_events_of_a_dynamic_one(calve) -> None:
    job: Calve = calve(
        configuration(
            static=(FILE, {"table_identifier": "no.such"}),
            dynamic=(FILE, {"table_identifier": "no.${/kind}"}),
        )
    )
    feed(job, {"id": 1, "kind": "a"}, {"id": 2, "kind": "b"})
    assert job.once() == 1
    assert "The table no.such does not exist in the catalog lakehouse. Create it, " in job.said()
    assert "Traceback" not in job.said()
    assert job.status("static")["state"] == "failed"
    found = job.dead_letters("dynamic")
    assert [(each["code"], each["table"], json.loads(each["event"])["id"]) for each in found] == [
        ("NO_SUCH_TABLE", "no.a", 1),
        ("NO_SUCH_TABLE", "no.b", 2),
    ]


def test_a_table_is_made_as_its_settings_say_on_every_kind_of_catalog(calve, tmp_path: Path) -> None:
    kept = {
        "table_identifier": "kept.events",
        "auto_create": True,
        "schema": SCHEMA,
        "table_properties": {"write.parquet.compression-codec": "gzip", "owner": "me"},
    }
    place = {"table_location": str(tmp_path / "elsewhere")}
    hadoop = {"catalog": {"type": "hadoop", "warehouse": str(tmp_path / "hadoop")}}
    jdbc = {"type": "jdbc", "uri": f"jdbc:sqlite:{tmp_path}/own.db", "warehouse": str(tmp_path / "own"), "name": "own"}
    job: Calve = calve(
        configuration(
            embedded=(FILE, kept | place),
            hadoop=(FILE, kept | hadoop),
            jdbc=(FILE, kept | {"catalog": jdbc}),
        )
    )
    events = [
        {"id": 1, "at": "2026-03-04T05:06:07Z", "place": {"city": "Ulm", "zip": 89073}},
        {"id": 2, "at": "1969-12-31T23:00:00Z", "place": {"city": "Ürzig", "zip": 54539}},
        {"id": 3},
    ]
    feed(job, *events, {"at": "2026-03-04T05:06:07Z"})
    assert job.once() == 0, job.said()[-2000:]
    tables = {
        "embedded": job.catalog().load_table("kept.events"),
        "hadoop": _newest(tmp_path / "hadoop/kept/events"),
        "jdbc": _newest(tmp_path / "own/kept/events"),
    }
    for name, table in tables.items():
        assert [each["id"] for each in rows(table)] == [1, 2, 3]
        assert rows(table)[1]["place"] == {"city": "Ürzig", "zip": 54539}
        assert [str(field.transform) for field in table.spec().fields] == ["day", "truncate[2]"]
        assert len(list(table.scan(row_filter="place.city = 'Ulm'").plan_files())) == 1
        assert table.properties["owner"] == "me"
        assert table.schema().find_field("id").required
        assert [each["code"] for each in job.dead_letters(name)] == ["REQUIRED_MISSING"]
    assert tables["embedded"].location() == str(tmp_path / "elsewhere")


def _committed(job: Calve, pipeline: str) -> dict[str, int]:
    return {name: table["rows"] for name, table in job.status(pipeline).get("tables", {}).items()}


def _newest(folder: Path) -> StaticTable:
    """Open a table by its last metadata file, whatever its catalog."""
    files = (folder / "metadata").glob("*.metadata.json")
    return StaticTable.from_metadata(str(max(files, key=lambda path: path.stat().st_mtime_ns)))


def test_tables_made_from_events_are_partitioned_by_time_also_where_no_event_has_had_one(calve) -> None:
    sink = {"table_identifier": "timed.${/kind}", "auto_create": True, "partition_by": ["day(ts)", "bucket(4, id)"]}
    job: Calve = calve(configuration(timed=(FILE, sink)))
    feed(job, {"id": 1, "kind": "a", "ts": "2026-03-04T05:06:07+01:00"}, {"id": 2, "kind": "b"})
    assert job.once() == 0, job.said()[-2000:]
    table = job.catalog().load_table("timed.a")
    assert str(table.schema().find_type("ts")) == "timestamptz"
    assert len(list(table.scan(row_filter="ts >= '2026-03-04T00:00:00+00:00' and id = 1").plan_files())) == 1
    assert len(list(table.scan(row_filter="ts >= '2026-03-05T00:00:00+00:00'").plan_files())) == 0
    assert str(job.catalog().load_table("timed.b").schema().find_type("ts")) == "timestamptz"
    assert job.rows("timed.b").to_pylist() == [{"id": 2, "kind": "b", "ts": None}]
    assert not list(job.dead_letters("timed"))


def test_a_text_of_a_csv_file_that_is_no_time_is_not_lost_where_partition_by_makes_its_column_a_time(calve) -> None:
    sink = {"table_identifier": "db.cells", "auto_create": True, "partition_by": ["day(ts)"]}
    job: Calve = calve(configuration(cells=({"file": {"path": "cells.csv"}}, sink)))
    (job.folder / "cells.csv").write_text("id,ts\n1,2026-03-04T05:06:07Z\n2,yesterday\n")
    assert job.once() == 0, job.said()[-2000:]
    assert job.rows("db.cells").column("id").to_pylist() == ["1"]
    assert [(each["code"], each["field"]) for each in job.dead_letters("cells")] == [("NOT_COERCIBLE", "ts")]


HOSTILE = [
    {"id": 1, "a": {"b": 1}, "t": "x" * 10_000},
    {"id": 2, "a.b": 2, "t": "../../evil"},
    {"id": 3, "ID": 4},
    {"id": 4, "_file": "x"},
    {"id": 5, "": 1},
    {"id": 6, "n" * 10_000: 1},
    {"id": 7, "half\ud800": 1},
    {"id": 8, "a.c": 1, "t": "a/b\x00\n%é😀"},
]


def test_hostile_names_depths_and_partition_values_leave_a_table_that_spark_reads_and_changes(calve) -> None:
    sink = {"table_identifier": "odd.t", "auto_create": True, "schema_evolution": True, "partition_by": ["t"]}
    job: Calve = calve(configuration(odd=(FILE, sink)))
    deep = [f'{{"id":{10 + at},"t":"x","d":{"[" * size}{"]" * size}}}\n' for at, size in enumerate((130, 10_000))]
    (job.folder / "events.ndjson").write_text("".join(json.dumps(each) + "\n" for each in HOSTILE) + "".join(deep))
    assert job.once() == 0, job.said()[-2000:]
    codes = sorted((each["event"][:8], each["code"]) for each in job.dead_letters("odd"))
    refused = [(f'{{"id": {id}', "AMBIGUOUS_FIELD") for id in (3, 4, 5, 6, 7)]
    assert codes == [*refused, ('{"id":11', "MALFORMED")]
    written = {each["id"]: each["t"] for each in job.rows("odd.t").to_pylist()}
    assert written == {1: "x" * 10_000, 2: "../../evil", 8: "a/b\x00\n%é😀", 10: "x"}
    spark = job.shared_spark()
    spark.conf.set("spark.sql.caseSensitive", "false")
    source = "(SELECT 1 AS id, 'new' AS t)"
    spark.sql(f"MERGE INTO lakehouse.odd.t t USING {source} s ON t.id = s.id WHEN MATCHED THEN UPDATE SET t.t = s.t")
    rows = spark.sql("SELECT id, t FROM lakehouse.odd.t WHERE t IN ('new', '../../evil') ORDER BY id").collect()
    assert [tuple(row) for row in rows] == [(1, "new"), (2, "../../evil")]


def test_a_table_that_was_dropped_between_two_runs_is_created_from_the_events_of_a_backlog(calve) -> None:
    sink = {"table_identifier": "db.${/kind}", "auto_create": True}
    job: Calve = calve(configuration(kinds=({"file": {"path": "part-*.ndjson"}}, sink)))
    (job.folder / "part-0.ndjson").write_text('{"id": 0, "kind": "a"}\n')
    assert job.once() == 0
    job.catalog().drop_table("db.a")
    note = "x" * 1000
    lines = (json.dumps({"id": number, "kind": "a", "note": note}) for number in range(1, 10_001))
    (job.folder / "part-1.ndjson").write_text("\n".join(lines))
    assert job.once() == 0
    assert sorted(job.rows("db.a").column("id").to_pylist()) == list(range(1, 10_001))
    assert job.dead_letters("kinds") == []

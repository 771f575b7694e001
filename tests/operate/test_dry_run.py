"""`calve try`: what it says is what a run does, and it writes nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog

from calve.engine import session
from calve.errors import CommitError, NoTargetError, UnsupportedError
from calve.operate.dry_run import Trial, dry_run
from calve.pipeline.plugins import PLUGINS
from calve.settings import parse_text
from calve.sources.file.rows import SCHEMA
from calve.table.ddl import type_sql
from kit.running import Calve

LINES = [
    '{"id": 1, "kind": "orders", "total": 9.5, "at": "2026-01-01T00:00:00Z", "to": {"city": "Rome"}}',
    '{"id": 2, "kind": "orders", "total": 1, "at": "no moment", "to": {"city": "Oslo", "zip": 17}}',
    '{"id": 3, "kind": "clicks", "page": ["a", null]}',
    '{"id": 4, "kind": "a/b"}',
    '{"kind": "other", "id": 5}',
    "oops",
    "[1]",
]
ROUTED: dict[str, Any] = {
    "source": {"file": {"path": "in/*.ndjson"}},
    "route": [{"known": '/kind != "other"'}],
    "sink": [
        {
            "iceberg": {
                "routes": ["known"],
                "table_identifier": "shop.${/kind}",
                "auto_create": True,
                "schema_evolution": True,
                "table_properties": {"owner": "me"},
            }
        }
    ],
}


SCHEMAS: dict[str, Any] = {
    "hour(t)": {
        "columns": [{"name": "t", "type": "timestamp"}],
        "partition_spec": [{"column": "t", "transform": "day"}, {"column": "t", "transform": "hour"}],
    },
    "day(id_bucket)": {
        "columns": [{"name": "id", "type": "long"}, {"name": "id_bucket", "type": "date"}],
        "partition_spec": [{"column": "id", "transform": "bucket[4]"}],
    },
}


def sink(table: str, **options: Any) -> dict[str, Any]:
    return {"source": {"http": {}}, "sink": [{"iceberg": {"table_identifier": table, **options}}]}


def tried(pipeline: dict[str, Any], *lines: str) -> Trial:
    [settings] = parse_text(json.dumps({"one": pipeline}), PLUGINS).pipelines
    rows = {"event": [line.encode() for line in lines], "file_row": list(range(1, len(lines) + 1))}
    none = {name: [None] * len(lines) for name in SCHEMA.names}
    return dry_run(settings, pa.table({**none, **rows}).cast(SCHEMA))


@pytest.fixture(autouse=True)
def folder(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to stand in, which no plain test may write to or start Spark in."""
    monkeypatch.chdir(tmp_path)

    def never(**options: Any) -> None:
        raise AssertionError("Spark is not needed here")

    if not request.node.get_closest_marker("spark"):
        monkeypatch.setattr(session, "start", never)
    return tmp_path


def everything(folder: Path) -> dict[str, bytes | None]:
    return {str(path): path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


def test_each_event_has_its_table_or_its_reason_or_no_route_and_nothing_is_written(folder: Path) -> None:
    found = tried(ROUTED, *LINES)
    assert [[place.table for place in event.tables] for event in found.events] == [
        ["shop.orders"],
        ["shop.orders"],
        ["shop.clicks"],
        [],
        [],
        [],
        [],
    ]
    codes = [[(reject.code, reject.field) for reject in event.rejects] for event in found.events]
    bad_name, malformed = ("BAD_TABLE_NAME", "table_identifier"), ("MALFORMED", "")
    assert codes == [[], [], [], [bad_name], [], [malformed], [malformed]]
    assert [event.line for event in found.events] == [1, 2, 3, 4, 5, 6, 7]
    assert everything(folder) == {}


def test_a_new_table_is_shown_as_the_statement_that_makes_it() -> None:
    pipeline = sink("shop.${/kind}", auto_create=True, partition_by=["day(at)", "bucket(8, id)"], table_location="/t")
    found = tried(pipeline, *LINES[:2])
    [table] = found.tables
    assert (table.rows, table.created, table.nulled) == (1, True, {})
    assert [[one.code for one in event.rejects] for event in found.events] == [[], ["NOT_COERCIBLE"]]
    assert table.statements == [
        "CREATE TABLE lakehouse.shop.orders (\n"
        "  id bigint,\n  kind string,\n  total double,\n  at timestamp,\n  to struct<city: string>\n"
        ") USING iceberg\nPARTITIONED BY (days(at), bucket(8, id))\nLOCATION '/t'\n"
        "TBLPROPERTIES ('calve.columns' = 'inferred');"
    ]


def test_a_value_that_does_not_fit_is_a_dead_letter_in_inferred_columns_and_null_in_declared_ones() -> None:
    events = ['{"id": 1, "n": 1}', '{"id": 2, "n": "x"}']
    schema = {"columns": [{"name": "id", "type": "long"}, {"name": "n", "type": "long"}]}
    partitioned = {"partition_by": ["day(n)"]}
    fates = {}
    for name, options in {"inferred": partitioned, "declared": {"schema": schema}}.items():
        for mismatch in ("absent", "null", "dlq"):
            given = {} if mismatch == "absent" else {"on_type_mismatch": mismatch}
            found = tried(sink("a.b", auto_create=True, **options, **given), *events)
            fates[name, mismatch] = (found.tables[0].rows, found.tables[0].nulled)
    rejected, nulled = (1, {}), (2, {"n": 1})
    assert fates == {
        ("inferred", "absent"): rejected,
        ("inferred", "null"): nulled,
        ("inferred", "dlq"): rejected,
        ("declared", "absent"): nulled,
        ("declared", "null"): nulled,
        ("declared", "dlq"): rejected,
    }


def test_schemas_and_types_are_given_to_tables_by_their_names() -> None:
    given = {
        "schemas": [
            {"tables": "shop.ord*", "columns": [{"name": "id", "type": "int"}], "partition_spec": [{"column": "id"}]},
            {"tables": "shop.*s", "columns": [{"name": "page", "type": "list<string>"}]},
        ],
        "column_types": {"*at": "timestamp", "n": "decimal(9,2)"},
    }
    lines = ['{"id": 1, "kind": "orders"}', '{"page": [], "kind": "clicks"}', '{"n": 1, "at": "soon", "kind": "other"}']
    found = tried(sink("shop.${/kind}", auto_create=True, **given), *lines)
    assert [table.statements[0] for table in found.tables] == [
        "CREATE TABLE lakehouse.shop.orders (\n  id int\n) USING iceberg\nPARTITIONED BY (id);",
        "CREATE TABLE lakehouse.shop.clicks (\n  page array<string>\n) USING iceberg;",
        "CREATE TABLE lakehouse.shop.other (\n  n decimal(9, 2),\n  at timestamp_ntz,\n  kind string\n) USING iceberg\n"
        "TBLPROPERTIES ('calve.columns' = 'inferred');",
    ]
    assert (found.tables[2].rows, found.tables[2].nulled) == (1, {"at": 1})  # a declared column


def test_changes_name_their_table_and_those_without_a_key_or_a_known_operation_their_reason(folder: Path) -> None:
    options = {"operation": "${/op}", "identifier_columns": ["id"], "auto_create": True, "partition_by": ["day(at)"]}
    words = ("insert", "d", "oops", "u")
    lines = [f'{{"op": "{word}", "id": {number}, "at": "2026-01-01"}}' for number, word in enumerate(words)]
    found = tried(sink("shop.rows", **options), *lines, '{"op": "d", "at": "2026-01-01"}', '{"op": "update_before"}')
    assert [[place.table for place in event.tables] for event in found.events] == [
        ["shop.rows"],
        ["shop.rows"],
        [],
        ["shop.rows"],
        [],
        [],
    ]
    codes = [[reject.code for reject in event.rejects] for event in found.events]
    assert codes == [[], [], ["UNKNOWN_OPERATION"], [], ["NO_KEY"], []]
    assert found.tables[0].statements[1] == "ALTER TABLE lakehouse.shop.rows SET IDENTIFIER FIELDS id;"
    assert everything(folder) == {}


def test_envelopes_of_a_change_stream_are_tried_as_they_would_be_run() -> None:
    options = {"auto_create": True, "identifier_columns": ["id"]}
    pipeline = sink('shop.${getMetadata("debezium_source_table")}', **options)
    pipeline["source"] = {"file": {"path": "in/*", "codec": {"debezium": {}}}}
    about = '"source":{"table":"people"}'
    lines = [
        f'{{"op":"c","after":{{"id":1,"name":"a"}},{about}}}',
        f'{{"op":"u","before":{{"id":1,"name":"a"}},"after":{{"id":2,"name":"a"}},{about}}}',
        f'{{"op":"d","before":{{"id":2}},{about}}}',
        "null",
        f'{{"op":"t",{about}}}',
    ]
    found = tried(pipeline, *lines)
    assert [len(event.tables) for event in found.events] == [1, 2, 1, 0, 0]  # a new key: a delete and an update
    assert [reject.code for event in found.events for reject in event.rejects] == ["UNKNOWN_OPERATION"]
    [table] = found.tables
    assert (table.table, table.rows, found.missing_metadata) == ("shop.people", 4, {})


def test_a_table_with_a_schema_is_made_without_events_and_then_evolves() -> None:
    columns = [{"name": "id", "type": "int", "required": True}, {"name": "to", "type": "struct<city: string>"}]
    pipeline = sink("shop.orders", auto_create=True, schema_evolution=True, schema={"columns": columns})
    [made] = tried(pipeline).tables
    assert (made.created, made.rows, len(made.statements)) == (True, 0, 1)
    found = tried(pipeline, '{"id": 1, "to": {"zip": 7}}', '{"to": {}}', '{"id": "x"}')
    assert [[(one.code, one.field) for one in event.rejects] for event in found.events] == [
        [],
        [("REQUIRED_MISSING", "id")],
        [("NOT_COERCIBLE", "id")],
    ]
    assert found.tables[0].statements[1] == "ALTER TABLE lakehouse.shop.orders ADD COLUMNS (\n  to.zip bigint\n);"


def test_two_sinks_on_one_table_make_it_once() -> None:
    pipeline = sink("a.b", auto_create=True)
    pipeline["sink"] *= 2
    found = tried(pipeline, '{"x": 1}')
    assert [(table.rows, len(table.statements)) for table in found.tables] == [(2, 1)]
    assert [place.sink for place in found.events[0].tables] == ["sink[0].iceberg", "sink[1].iceberg"]


def test_a_missing_table_that_may_not_be_created_is_the_error_of_a_run() -> None:
    with pytest.raises(NoTargetError, match=r"The table a\.b does not exist in the catalog lakehouse"):
        tried(sink("a.b"), '{"x": 1}')
    [event] = tried(sink("a.${/x}"), '{"x": "b"}').events
    assert [(one.table, one.code) for one in event.rejects] == [("a.b", "NO_SUCH_TABLE")]


@pytest.mark.parametrize("fields", [["day(t)", "hour(t)"], ["bucket(4, id)", "day(id_bucket)"]])
def test_partitions_that_do_not_go_together_refuse_the_table(fields: list[str]) -> None:
    lines = ['{"id": 1, "t": "2026-01-01T00:00:00Z", "id_bucket": "2026-01-01"}']
    [event] = tried(sink("a.${/id}", auto_create=True, partition_by=fields), *lines).events
    assert [one.code for one in event.rejects] == ["NO_SUCH_TABLE"]
    with pytest.raises(CommitError):
        tried(sink("a.b", auto_create=True, schema=SCHEMAS[fields[1]]))


def test_a_table_of_another_file_format_is_the_error_of_a_run() -> None:
    pipeline = sink("a.b", auto_create=True, write_properties={"write.format.default": "lance"})
    with pytest.raises(UnsupportedError, match="requires lance files"):
        tried(pipeline, '{"x": 1}')


def test_metadata_is_missing_and_who_asks_for_it_is_named() -> None:
    pipeline = sink("a.b", auto_create=True)
    pipeline["source"] = {"file": {"path": "x.ndjson"}}
    pipeline["route"] = [{"here": 'getMetadata("file_path") == "x.ndjson"'}]
    pipeline["sink"][0]["iceberg"]["routes"] = ["here"]
    found = tried(pipeline, '{"x": 1}')
    assert found.missing_metadata == {"the route here": ["file_path"]}
    assert (found.events[0].tables, found.events[0].rejects) == ([], [])


def test_a_table_that_exists_is_read_and_left_as_it_is(folder: Path) -> None:
    (folder / "lakehouse").mkdir()
    catalog = SqlCatalog("lakehouse", uri=f"sqlite:///{folder}/lakehouse/catalog.db", warehouse=f"{folder}/lakehouse")
    catalog.create_namespace("a")
    catalog.create_table("a.b", schema=pa.schema([("x", pa.int64()), ("s", pa.struct([("y", pa.string())]))]))
    before = everything(folder)
    fits, grows = sink("a.b"), sink("a.b", schema_evolution=True)
    assert [(one.rows, one.created, one.statements) for one in tried(fits, '{"x": 1, "z": 1}').tables] == [
        (1, False, [])
    ]
    [table] = tried(grows, '{"x": "no", "s": {"v": [1]}, "z": 1}').tables
    assert table.statements == ["ALTER TABLE lakehouse.a.b ADD COLUMNS (\n  s.v array<bigint>,\n  z bigint\n);"]
    assert (table.created, table.nulled) == (False, {"x": 1})
    assert everything(folder) == before


def says(job: Calve, sample: str) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Run `calve try --json` in a job's folder; give the events and the tables."""
    done = job.call("try", "pipelines.yaml", sample, "--json")
    assert done.exit_code == 0, done.stderr
    found = [json.loads(line) for line in done.stdout.splitlines()]
    return tuple([one for one in found if one["type"] == kind] for kind in ("event", "table"))  # type: ignore[return-value]


def tables(job: Calve) -> dict[str, tuple[int, list[str]]]:
    """Give the rows and the columns of each table in the job's lakehouse."""
    if not (job.folder / "lakehouse").exists():
        return {}
    fields = {name: job.catalog().load_table(name).schema().fields for name in job.tables("shop")}
    return {
        name: (len(job.rows(name)), [f"{one.name} {type_sql(one.field_type)}" for one in columns])
        for name, columns in fields.items()
    }


def compare(job: Calve, sample: str) -> None:
    """Hold what `try` says against what a run then does."""
    before, dead, stood = tables(job), len(job.dead_letters("one")), everything(job.folder)
    events, said = says(job, f"in/{sample}")
    assert everything(job.folder) == stood
    assert job.once() == 0, job.said()
    for name, (rows, columns) in tables(job).items():
        rows_before, columns_before = before.get(name, (0, []))
        [table] = [each for each in said if each["table"] == name]
        shown = [line.strip().rstrip(",") for text in table["statements"] for line in text.splitlines()]
        assert (table["rows"], table["created"]) == (rows - rows_before, name not in before)
        assert [line for line in shown if line in columns] == columns[len(columns_before) :]
    told = [(each["line"], one) for each in events for one in each["rejects"]]
    keys = ("table", "code", "field", "reason")
    assert sorted((line, *(one[key] for key in keys)) for line, one in told) == sorted(
        (letter["metadata"]["file_row"], *(letter[key] for key in keys)) for letter in job.dead_letters("one")[dead:]
    )


@pytest.mark.spark
def test_what_is_said_is_what_a_run_does(calve: Any) -> None:
    job = calve(json.dumps({"one": ROUTED}))
    (job.folder / "in").mkdir()
    (job.folder / "in" / "1.ndjson").write_text("\n".join(LINES) + "\n")
    compare(job, "1.ndjson")
    later = ['{"id": {"odd": 1}, "kind": "orders", "note": [{"text": "x"}]}', '{"id": "x", "kind": "clicks"}', "{"]
    (job.folder / "in" / "2.ndjson").write_text("\n".join(later) + "\n")
    compare(job, "2.ndjson")


@pytest.mark.spark
def test_a_catalog_that_spark_must_be_asked_for_is_read_and_left_as_it_is(calve: Any, tmp_path: Path) -> None:
    hadoop = {"type": "hadoop", "warehouse": str(tmp_path / "warehouse")}
    pipeline = sink("a.b", catalog=hadoop, auto_create=True, schema_evolution=True, commit_interval="100ms")
    pipeline["source"] = {"file": {"path": "1.ndjson"}}
    job = calve(json.dumps({"one": pipeline}))
    (job.folder / "1.ndjson").write_text('{"x": 1}\n')
    assert job.once() == 0, job.said()
    (job.folder / "2.ndjson").write_text('{"x": 2, "y": true}\n')
    before = everything(tmp_path)
    _, [table] = says(job, "2.ndjson")
    assert table["statements"] == ["ALTER TABLE iceberg.a.b ADD COLUMNS (\n  y boolean\n);"]
    assert everything(tmp_path) == before

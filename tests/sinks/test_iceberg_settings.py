import json
import pickle
from datetime import timedelta
from typing import Any

import jsonschema
import pytest
import yaml

from calve.settings import Plugins, SettingsErrors, json_schema, parse_text
from calve.sinks.iceberg.settings import IcebergSettings

PLUGINS = Plugins(sources={"iceberg": IcebergSettings}, sinks={"iceberg": IcebergSettings})
SOURCE = "p: {source: {iceberg: {table_identifier: a.b}}, sink: [iceberg: {%s}]}"

EXAMPLES = {
    "append to a table": """
log-pipeline:
  source: {iceberg: {table_identifier: a.b}}
  sink:
    - iceberg:
        catalog: {type: rest, uri: http://localhost:8181, warehouse: s3://bucket/warehouse, clients: 4, strict: true}
        table_identifier: db.logs
""",
    "a table of a schema": """
log-pipeline:
  source: {iceberg: {table_identifier: a.b}}
  sink:
    - iceberg:
        table_identifier: db.logs
        auto_create: true
        schema:
          columns:
            - {name: id, type: long, required: true}
            - {name: at, type: timestamptz}
            - {name: tags, type: "map<string, decimal(9,2)>"}
          partition_spec:
            - {column: at, transform: day}
            - {column: id, transform: "bucket[16]"}
        table_properties: {format-version: 2, write.parquet.compression-codec: zstd}
        table_location: s3://bucket/logs
""",
    "tables named by events": """
log-pipeline:
  source: {iceberg: {table_identifier: a.b}}
  route: [{errors: /status >= 500}]
  sink:
    - iceberg:
        table_identifier: logs.${/kind}
        routes: [errors]
        auto_create: true
        schema_evolution: true
        partition_by: ["day(at)", "bucket(16, id)"]
        commit_interval: 30s
        flush_interval: PT5S
        ack_poll_interval: 5s
        commit_size: 512mb
        max_batch_bytes: 64mb
        on_type_mismatch: null
        case_insensitive: true
        write_properties: {write.target-file-size-bytes: 134217728}
        max_open_writers: 64
        dlq: s3://bucket/dead
""",
}

TIMED = """schema: {columns: [{name: id, type: long}, {name: at, type: timestamptz}, {name: day, type: date},
    {name: place, type: "struct<since: timestamp>"}, {name: ats, type: "list<timestamp>"}]}"""


def sink(options: str) -> Any:
    return parse_text(SOURCE % options, PLUGINS, environment={}).pipelines[0].sinks[0].value


def errors(options: str) -> list[str]:
    with pytest.raises(SettingsErrors) as caught:
        parse_text(SOURCE % options, PLUGINS, name="f", environment={})
    return [
        f"{problem.path.removeprefix('p.sink[0].iceberg.')}: {problem.message}" for problem in caught.value.problems
    ]


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_is_read_pickles_and_is_valid_in_the_schema(name: str) -> None:
    (pipeline,) = parse_text(EXAMPLES[name], PLUGINS).pipelines
    assert pickle.loads(pickle.dumps(pipeline)) == pipeline
    jsonschema.validate(yaml.safe_load(EXAMPLES[name]), json_schema(PLUGINS))


@pytest.mark.parametrize("name", EXAMPLES)
@pytest.mark.parametrize("typo", [("table_identifier: db", "table_identifer: db"), ("iceberg:\n", "icebreg:\n")])
def test_a_typo_in_an_example_is_refused_by_parser_and_schema(name: str, typo: tuple[str, str]) -> None:
    text = EXAMPLES[name].replace("logs.${", "db.${").replace(*typo)
    with pytest.raises(SettingsErrors, match="did you mean"):
        parse_text(text, PLUGINS)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(yaml.safe_load(text), json_schema(PLUGINS))


def test_the_defaults_are_the_rfcs_and_the_designs() -> None:
    settings = sink("table_identifier: a.b")
    five = timedelta(minutes=5)
    assert (settings.commit_interval, settings.flush_interval, settings.ack_poll_interval) == (
        five,
        five,
        timedelta(seconds=5),
    )
    assert (settings.commit_size, settings.max_batch_bytes, settings.max_open_writers) == (1 << 30, None, 256)
    assert (settings.auto_create, settings.schema_evolution, settings.case_insensitive) == (False, False, False)
    assert (settings.catalog, settings.dlq_prefix, settings.on_type_mismatch) == (None, None, None)
    assert (settings.write_mode, settings.upsert, settings.dynamic) == ("merge-on-read", False, False)


def test_a_type_of_column_types_that_is_none_is_refused_where_it_stands() -> None:
    [found] = errors('table_identifier: a.b, column_types: {a: long, "*_at": moment}')
    assert found.startswith(
        "column_types.*_at: The type 'moment' cannot be read: 'moment' is not a type at character 7. All"
    )


def test_null_for_a_mismatch_is_a_word_like_dlq_and_not_an_absent_option() -> None:
    for written, read in {"null": "null", "~": "null", '"null"': "null", "dlq": "dlq"}.items():
        assert sink(f"table_identifier: a.b, on_type_mismatch: {written}").on_type_mismatch == read


def test_catalog_properties_are_text_whatever_yaml_makes_of_them() -> None:
    settings = sink("table_identifier: a.b, catalog: {type: hive, clients: 05, cache-enabled: false, ratio: 1.50}")
    assert settings.catalog == {"type": "hive", "clients": "05", "cache-enabled": "false", "ratio": "1.50"}


def test_catalog_properties_never_show() -> None:
    settings = sink("table_identifier: a.b, catalog: {type: rest, uri: 'http://x', credential: geheim}")
    assert "geheim" not in repr(settings)
    (error,) = errors("table_identifier: a.b, catalog: {type: rest, uri: 'http://x', credential: [geheim]}")
    assert error == "catalog.credential: expected text"


def test_partitions_come_from_the_schema_or_from_partition_by() -> None:
    by_name = sink("table_identifier: 'a.${/b}', partition_by: [day(at)]")
    assert (by_name.partition_fields, by_name.columns) == (["day(at)"], [])
    columns = "table_identifier: a.b, schema: {columns: [{name: at, type: date}], partition_spec: [{column: at}]}"
    assert sink(columns).columns == [{"name": "at", "type": "date", "required": False}]
    assert sink(columns).partition_fields == [{"column": "at", "transform": "identity"}]


@pytest.mark.parametrize(
    ("dlq", "prefix"),
    [
        ("/var/dead", "/var/dead"),
        ("{s3: {bucket: b, key_path_prefix: dead/letters/}}", "s3://b/dead/letters"),
        ("{s3: {bucket: b}}", "s3://b"),
        ("{s3: {bucket: 's3://b/', key_path_prefix: p, bucket_owner: '123456789012'}}", "s3://b/p"),
    ],
)
def test_dead_letters_go_to_a_prefix(dlq: str, prefix: str) -> None:
    assert sink(f"table_identifier: a.b, dlq: {dlq}").dlq_prefix == prefix


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ("auto_create: true", "table_identifier: is required but missing"),
        ("table_identifier: ''", "table_identifier: the table name is empty"),
        ("table_identifier: logs", "table_identifier: the table name 'logs' has no namespace: write namespace.table"),
        (
            "table_identifier: a..b",
            "table_identifier: the table name 'a..b' has an empty part, or spaces around a part",
        ),
        (
            "table_identifier: 'a.${/b'",
            "table_identifier: ${ without } at character 3 of `a.${/b`. Write ${/field}",
        ),
        (
            "table_identifier: 'a.${/b}', schema: {columns: [{name: a, type: int}]}",
            "schema: needs a table_identifier without ${…}: tables named by events are created from their events",
        ),
        (
            "table_identifier: a.b, partition_by: [day(x)], schema: {columns: [{name: x, type: date}]}",
            "partition_by: is for tables without a schema here; use schema.partition_spec",
        ),
        (
            "table_identifier: a.b, schema: {columns: [{name: x, type: int}, {name: x, type: int}]}",
            "schema.columns[1].name: the column x appears twice",
        ),
        (
            "table_identifier: a.b, schema: {columns: [{name: x, type: int}, {name: X, type: int}]}",
            "schema.columns[1]: a table cannot have the column X: it differs from the column x by case only",
        ),
        (
            "table_identifier: a.b, schema: {columns: [{name: _pos, type: long}]}",
            "schema.columns[0]: a table cannot have the column _pos: Iceberg reserves the name",
        ),
        (
            "table_identifier: a.b, schema: {columns: [{name: s, type: 'struct<a: int, A: int>'}]}",
            "schema.columns[0]: a table cannot have the column s.A: it differs from the column s.a by case only",
        ),
        (
            "table_identifier: a.b, schema: {columns: [{name: x, type: variant}]}, identifier_columns: [x]",
            "identifier_columns[0]: x is a variant, which cannot be a key",
        ),
        (
            "table_identifier: a.b, schema: {columns: [{name: x, type: unknown, required: true}]}",
            "schema.columns[0].required: a column of type unknown is always null",
        ),
        (
            "table_identifier: 'a.${/b}', partition_by: [day(x), day(x)]",
            "partition_by[1]: this partition field appears twice",
        ),
        (
            "table_identifier: a.b, metadata_columns: {_file: batch}",
            "metadata_columns._file: Iceberg reserves this name; use another one, e.g. source_file",
        ),
        (
            "table_identifier: a.b, metadata_columns: {_n: batch, _N: batch}",
            "metadata_columns._N: differs from _n by case only",
        ),
        (
            "table_identifier: a.b, metadata_columns: {a-b: batch}",
            "metadata_columns.a-b: must consist of letters, digits and _, and not begin with a digit",
        ),
        (
            "table_identifier: a.b, metadata_columns: {_n: batch}, identifier_columns: [_n]",
            "identifier_columns[0]: _n is in metadata_columns; a key consists of fields",
        ),
        ("table_identifier: a.b, schema: {columns: []}", "schema.columns: must not be empty"),
        ("table_identifier: a.b, schema: ", "schema.columns: is required but missing"),
        ("table_identifier: a.b, catalog: {type: rest}", "catalog: a catalog of type rest needs `uri`"),
        (
            "table_identifier: a.b, catalog: {type: rset, uri: x}",
            "catalog.type: must be one of rest, jdbc, hadoop, hive, glue, nessie, bigquery, spark; "
            "for any other catalog set `catalog-impl`",
        ),
        (
            "table_identifier: a.b, catalog: {name: x}",
            "catalog: needs either `type` (rest, jdbc, hadoop, hive, glue, nessie, bigquery, spark) or `catalog-impl`; "
            "without `catalog` Calve uses its embedded catalog",
        ),
        ("table_identifier: a.b, on_type_mismatch: drop", "on_type_mismatch: expected one of null, dlq, found 'drop'"),
        ("table_identifier: a.b, max_open_writers: 0", "max_open_writers: must be at least 1, not 0"),
        ("table_identifier: a.b, dlq: ''", "dlq: needs a location; leave it out for <state>/<pipeline>/dlq"),
        (
            "table_identifier: a.b, dlq: {}",
            "dlq: needs a location: a path, `s3: {bucket: …}` or `table: namespace.table`",
        ),
    ],
)
def test_what_cannot_be_meant_is_refused_with_the_way_out(options: str, error: str) -> None:
    assert errors(options) == [error]


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ("schema: {columns: [{name: x, type: lnog}]}", "schema.columns[0].type: "),
        ("schema: {columns: [{name: x, type: 'list<'}]}", "schema.columns[0].type: "),
        (
            "schema: {columns: [{name: x, type: int}], partition_spec: [{column: x, transform: buckets}]}",
            "schema.partition_spec[0].transform: ",
        ),
        (
            "schema: {columns: [{name: x, type: int}], partition_spec: [{column: x}, {column: y}]}",
            "schema.partition_spec[1]: ",
        ),
        (
            "schema: {columns: [{name: x, type: string}], partition_spec: [{column: x, transform: day}]}",
            "schema.partition_spec[0]: ",
        ),
        ("schema: {columns: [{name: x, type: 'list<variant>'}]}", "schema.columns[0].type: "),
        (
            "schema: {columns: [{name: x, type: variant}], partition_spec: [{column: x}]}",
            "schema.partition_spec[0]: ",
        ),
        ("partition_by: ['day(ts)', 'bucket(id)']", "partition_by[1]: "),
    ],
)
def test_a_type_or_partition_that_iceberg_lacks_is_refused_in_its_place(options: str, error: str) -> None:
    (found,) = errors(f"table_identifier: a.b, {options}")
    assert found.startswith(error)


def test_columns_are_kept_only_where_older_rows_are_looked_for() -> None:
    options = "table_identifier: a.b, operation: '${/op}', identifier_columns: [id], partial_updates: keep"
    (found,) = errors(f"{options}, write_mode: equality-delete")
    assert found.startswith("partial_updates: keep needs the older row")
    assert "remove write_mode: equality-delete" in found
    for mode in ("", ", write_mode: copy-on-write"):
        assert sink(f"{options}{mode}").partial_updates == "keep"


def test_row_ids_are_kept_by_position_on_version_3() -> None:
    options = (
        "table_identifier: a.b, operation: '${/op}', identifier_columns: [id], auto_create: true, keep_row_ids: true"
    )
    (found,) = errors(options)
    assert found.startswith("keep_row_ids: rows have ids from format version 3")
    (found,) = errors(f"{options}, table_properties: {{format-version: '3'}}, write_mode: equality-delete")
    assert found.startswith("keep_row_ids: needs the place of the older row")
    assert sink(f"{options}, table_properties: {{format-version: '3'}}").keep_row_ids


@pytest.mark.parametrize("column", ["at", "day", "place.since"])
def test_an_event_time_is_a_column_of_a_time_or_a_date(column: str) -> None:
    assert sink(f"table_identifier: a.b, event_time: {column}, {TIMED}").event_time == column


@pytest.mark.parametrize(
    ("column", "error"),
    [
        ("no", "there is no column 'no'"),
        ("place.no", "there is no column 'place.no'"),
        ("ats.element", "there is no column 'ats.element'"),
        ("id", "the column 'id' is a long, not a timestamp, timestamptz or date"),
    ],
)
def test_an_event_time_that_the_schema_cannot_give_is_refused(column: str, error: str) -> None:
    assert errors(f"table_identifier: a.b, event_time: {column}, {TIMED}") == [f"event_time: {error}"]


@pytest.mark.parametrize("name", ["main", "audit", "2026_q1", "team/audit-1.0", "prüfung", "a" * 200])
def test_a_branch_may_have_such_a_name(name: str) -> None:
    assert sink(f"table_identifier: a.b, branch: '{name}'").branch == name


@pytest.mark.parametrize("name", ["", " ", "a b", "-a", "/a", "${/kind}", "audit\n", "17", "a" * 201, "a'b"])
def test_a_branch_may_not_have_such_a_name(name: str) -> None:
    (found,) = errors(f"table_identifier: a.b, branch: {json.dumps(name)}")
    assert found.startswith(f"branch: {name[:100]!r} is not a branch name: ")


def test_a_bad_name_and_a_bad_type_are_told_beside_a_typo() -> None:
    found = errors("table_identifier: 'a.${/b', comit_size: 1gb, schema: {columns: [{nam: x, type: lnog}]}")
    assert [line.split(":")[0] for line in found] == [
        "table_identifier",
        "comit_size",
        "schema.columns[0].name",
        "schema.columns[0].nam",
        "schema.columns[0].type",
    ]


def test_dead_letters_go_to_a_table() -> None:
    read = sink("table_identifier: a.b, dlq: {table: ns.dead}")
    assert (read.dlq_table, read.dlq_prefix) == ("ns.dead", None)


@pytest.mark.parametrize(
    ("dlq", "said"),
    [
        ("{table: dead}", "dlq.table: the table name 'dead' has no namespace"),
        ("{table: 'ns.${/kind}'}", "dlq.table: all dead letters go to one table"),
        ("{table: a.b}", "dlq.table: is the table of the events; set another one"),
        ("{table: ns.dead, s3: {bucket: b}}", "dlq.table: cannot be set beside `s3`; set only one"),
    ],
)
def test_a_dead_letter_table_that_cannot_be_meant_is_refused(dlq: str, said: str) -> None:
    (found,) = errors(f"table_identifier: a.b, dlq: {dlq}")
    assert found.startswith(said)


def test_what_becomes_of_absent_columns_may_be_yaml_s_null() -> None:
    assert sink("table_identifier: a.b, partial_updates: null").partial_updates == "null"


NEEDS = "schema: {columns: [{name: id, type: long, required: true}, {name: n, type: long}]}, auto_create: true"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (f"include_keys: [n], {NEEDS}", "include_keys: omits the field of the required column id"),
        (f"exclude_keys: [n, id], {NEEDS}", "exclude_keys[1]: omits the field of the required column id"),
        (
            "include_keys: [n], upsert: true, identifier_columns: [key.id]",
            "include_keys: omits the field of the identifier column key.id",
        ),
    ],
)
def test_keys_that_leave_out_what_every_row_needs_are_warned_of(options: str, said: str) -> None:
    (warning,) = parse_text(SOURCE % f"table_identifier: a.b, {options}", PLUGINS, environment={}).warnings
    assert f"{warning.path}: {warning.message}" == f"p.sink[0].iceberg.{said}: every event will be rejected"


@pytest.mark.parametrize(
    "options",
    [
        f"include_keys: [id], {NEEDS}",
        f"exclude_keys: [n], {NEEDS}",
        f"include_keys: [ID], case_insensitive: true, {NEEDS}",
        "include_keys: [n], identifier_columns: [id]",
        f"{NEEDS}",
    ],
)
def test_keys_that_leave_all_that_is_needed_are_not_warned_of(options: str) -> None:
    assert parse_text(SOURCE % f"table_identifier: a.b, {options}", PLUGINS, environment={}).warnings == []

"""Tables with columns of every type, of which Spark lacks some: their changes, and a mirror, value for value.

Rows are inserted, updated and deleted, by position (deletes in version 2, vectors in version 3) and by key.
"""

from __future__ import annotations

import json
import uuid
from functools import partial
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from calve.changes.plan import Planner
from calve.changes.table_changes import TableChanges
from calve.engine import session
from kit.running import Calve

pytestmark = pytest.mark.spark

KINDS = {
    "time": ["01:02:03.5", "00:00:00", "23:59:59.999999"],
    "uuid": [str(uuid.UUID(int=number)) for number in (2**128 - 1, 0, 2**127)],
    "fixed[3]": ["AAEC", "////", "AAAA"],
    "binary": ["//79AA==", "", "AA=="],
    "decimal(38,10)": ["9999999999999999999999999999.9999999999", "-0.0000000001", "0.0000000000"],
    "date": ["0001-01-01", "9999-12-31", "1582-10-10"],
    "timestamptz": ["0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999999Z", "1969-12-31T23:59:59.999999Z"],
    "double": ["NaN", -0.0, 1e300],
}
NANOS = {
    "timestamp_ns": ["1677-09-22T00:00:00.000000001", "2262-04-11T23:47:16.854775807", "1970-01-01T00:00:00"],
    "timestamptz_ns": ["1969-12-31T23:59:59.999999999Z", "2024-02-29T12:00:00.1Z", "2024-02-29T12:00:00Z"],
}
SPECIAL = {"variant": [{"a": [1, None, "x"]}, "text", 1.50], "unknown": [None, None, None]}
PLACES = ("{0}", "struct<x: {0}>", "list<struct<x: {0}>>", "map<string, {0}>", "struct<l: list<{0}>>")
TABLES: dict[str, tuple[int, str, dict[str, list[Any]]]] = {
    "positions.v2": (2, "merge-on-read", KINDS),
    "keys.v2": (2, "equality-delete", KINDS),
    "vectors.v3": (3, "merge-on-read", KINDS | NANOS),
    "keys.v3": (3, "equality-delete", KINDS | NANOS | SPECIAL),
}
BY_POSITION = ("positions.v2", "vectors.v3")
NESTED = {
    "positions.v2": PLACES[1::2],
    "keys.v2": PLACES[2::2],
    "vectors.v3": PLACES[2::2],
    "keys.v3": PLACES[1::2],
}
"""Where the types of a table are beside a column of their own: each type of both versions is in each of these places in a
table whose rows are deleted by position, and in one by key."""
PARTITIONS = {"keys.v3": ("time", "timestamp_ns", "timestamptz_ns", "uuid")}
"""The types of the columns that a table is partitioned by: readers take their values from the table's metadata."""
INSERTED = {1: 0, 2: 1, 3: 2, 4: None}
"""Which value of each type the rows have, by id; those of the last are NULL."""
CHANGED = {1: 1, 2: None, 4: 0}
"""The same after one row was deleted and the others updated."""


def columns(table: str) -> dict[str, tuple[str, str]]:
    """The type and the place of each column; variants are in no list or map, and types that are always null alone."""
    kinds = TABLES[table][2]
    places = (PLACES[0], *NESTED[table])
    pairs = [(kind, place) for kind in kinds for place in (PLACES[:2] if kind in SPECIAL else places)]
    return {f"c{number}": pair for number, pair in enumerate(pairs)}


def value(table: str, kind: str, place: str, index: int | None) -> Any:
    if index is None:
        return None
    one, other = TABLES[table][2][kind][index], TABLES[table][2][kind][(index + 1) % 3]
    nested = (one, {"x": one}, [{"x": one}, {"x": None}, None], {"k": one, "n": None}, {"l": [one, None, other]})
    return nested[PLACES.index(place)]


def row(table: str, id: int, index: int | None) -> dict[str, Any]:
    return {"id": id} | {name: value(table, *pair, index) for name, pair in columns(table).items()}


def rows(table: str, indexes: dict[int, int | None]) -> list[str]:
    """The rows as texts, in which NaN is equal to itself, and -0.0 not to 0.0."""
    return sorted(json.dumps(row(table, *pair)) for pair in indexes.items())


def texts(table: pa.Table) -> list[str]:
    """The columns as Arrow prints them: NaN is equal to itself, and nanoseconds are not cut."""
    return [column.combine_chunks().to_string(window=len(table)) for column in table.columns]


def load(table: str) -> dict[str, Any]:
    version, mode, _ = TABLES[table]
    kinds = {"id": "long"} | {name: place.format(kind) for name, (kind, place) in columns(table).items()}
    sink = {
        "table_identifier": table,
        "auto_create": True,
        "operation": "${op}",
        "identifier_columns": ["id"],
        "write_mode": mode,
        "exclude_keys": ["op"],
        "on_type_mismatch": "dlq",
        "table_properties": {"format-version": str(version)},
        "schema": {
            "columns": [{"name": name, "type": kind} for name, kind in kinds.items()],
            "partition_spec": [
                {"column": name, "transform": "identity"}
                for name, kind in kinds.items()
                if kind in PARTITIONS.get(table, ())
            ],
        },
    }
    return {"source": {"file": {"path": f"{table}.*.ndjson"}}, "sink": [{"iceberg": sink}]}


def mirror(table: str) -> dict[str, Any]:
    followed = {"table_name": table, "identifier_columns": ["id"], "start_timestamp": "2020-01-01T00:00:00Z"}
    sink = {
        "table_identifier": f"mirror_{table}",
        "auto_create": True,
        "operation": '${getMetadata("iceberg_operation")}',
        "identifier_columns": ["id"],
        "write_mode": "merge-on-read",
        "on_type_mismatch": "dlq",
        "table_properties": {"format-version": str(TABLES[table][0])},
    }
    return {"source": {"iceberg": {"tables": [followed]}}, "sink": [{"iceberg": sink}]}


def write(lake: Calve, name: str, operation: str, indexes: dict[int, int | None], ends: list[str]) -> None:
    for table in TABLES:
        lines = [json.dumps({"op": operation} | row(table, *pair)) for pair in indexes.items()]
        (lake.folder / f"{table}.{name}.ndjson").write_text("\n".join([*lines, *ends]))
    assert lake.once() == 0, lake.said()[-2000:]


@pytest.fixture(scope="module")
def lake(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Calve:
    loads = {table.replace(".", "-"): load(table) for table in TABLES}
    lake = Calve(tmp_path_factory.mktemp("types"), json.dumps(loads), spark)
    write(lake, "1", "INSERT", INSERTED, [])
    write(lake, "2", "UPDATE", CHANGED, ['{"op": "DELETE", "id": 3}'])
    lake.configure(json.dumps({f"mirror-{table.replace('.', '-')}": mirror(table) for table in TABLES}))
    assert lake.once() == 0, lake.said()[-2000:]
    return lake


@pytest.mark.parametrize("table", TABLES)
def test_changes_have_every_value_of_every_type(lake: Calve, table: str) -> None:
    changes = TableChanges(Planner(session.start()), table, partial(lake.java_table, table), "main", ("id",))
    first, second = ([json.loads(line) for line in changes.lines(step)] for step in changes.steps(None, None))
    assert {change["metadata"]["iceberg_operation"] for change in first} == {"INSERT"}
    assert sorted(json.dumps(change["event"]) for change in first) == rows(table, INSERTED)
    found = {(change["metadata"]["iceberg_operation"], json.dumps(change["event"])) for change in second}
    assert found == {
        ("DELETE", *rows(table, {3: 2})),
        *(("UPDATE_BEFORE", text) for text in rows(table, {id: INSERTED[id] for id in CHANGED})),
        *(("UPDATE_AFTER", text) for text in rows(table, CHANGED)),
    }


@pytest.mark.parametrize("table", TABLES)
def test_a_mirror_has_the_columns_and_the_rows_of_its_table(lake: Calve, table: str) -> None:
    for shown in (table, f"mirror_{table}")[table in PARTITIONS :]:  # PyIceberg reads no partitions by nanoseconds
        printed = lake.call("show", shown, "--json")
        assert printed.exit_code == 0, printed.output
        assert sorted(map(_with_json_variants, printed.stdout.splitlines())) == rows(table, CHANGED)
    schemas = [str(lake.java_table(name).schema().asStruct()) for name in (table, f"mirror_{table}")]
    assert schemas[0] == schemas[1]
    if table in BY_POSITION:  # which PyIceberg reads by itself
        source, copy = (lake.rows(name).sort_by("id") for name in (table, f"mirror_{table}"))
        assert source.schema == copy.schema
        assert texts(source) == texts(copy)


def _with_json_variants(line: str) -> str:
    """`calve show` prints a variant in a struct as a text."""
    shown = json.loads(line)
    for name, (kind, place) in columns("keys.v3").items():
        if kind == "variant" and place != "{0}" and shown.get(name):
            shown[name] = {"x": json.loads(shown[name]["x"])}
    return json.dumps(shown)

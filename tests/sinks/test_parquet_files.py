"""The file sink's Parquet, read back by DuckDB and pyarrow and compared with the events and with the sink's lines."""

from __future__ import annotations

import base64
import json
import random
import uuid
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from calve.errors import SettingsError
from calve.event.typed_schema import declaration
from calve.pipeline.plugins import PLUGINS
from calve.settings import SettingsErrors, parse_text
from sinks.test_lines import CHANGES, FakeWork, job_of, run

NAME = "pre-000000000001"


def sink(folder: Path, parquet: Any = None, **more: Any) -> str:
    return json.dumps({"file": {"path": str(folder), "codec": {"parquet": parquet or {}}, **more}})


def columns(*declared: str) -> dict[str, Any]:
    named = [text.split(":", 1) for text in declared]
    return {
        "schema": {
            "columns": [{"name": name.strip("!"), "type": kind, "required": "!" in name} for name, kind in named]
        }
    }


def written(folder: Path, events: list[Any], parquet: Any = None, **more: Any) -> tuple[pa.Table, list[Any]]:
    """Return the file of events that go to one folder, as pyarrow reads it, and the rejects."""
    receipt, rejects = run(job_of(sink(folder, parquet), more.pop("kinds", {})), events, (str(folder),), **more)
    path = folder / f"{NAME}.parquet"
    table = pq.ParquetFile(path).read() if path.exists() else pa.table({})
    assert sum(index.rows for index in receipt.documents) == len(events) - len(rejects)
    return table, rejects


def model_events(count: int) -> list[dict[str, Any]]:
    """Return events of every kind of value; the type of each field is the same in all of them."""
    draw = random.Random(45)
    pool = {
        "n": lambda: draw.randrange(-(2**63), 2**63),
        "x": lambda: draw.choice([0.1, -1e300, 1e-310, 123456.789]),
        "b": lambda: draw.random() < 0.5,
        "s": lambda: draw.choice(["", "é", "\u0000", "日本\n", "NaN", "null", '"']),
        "l": lambda: [draw.choice([1, None]) for _ in range(draw.randrange(3))] + [7],
        "o": lambda: {"k": draw.choice([None, "v"]), "in": {"d": draw.randrange(9)}},
        "os": lambda: [{"a": draw.randrange(3)}, {"a": None}, None],
    }
    return [{"id": at, **{name: draw.choice([make(), None]) for name, make in pool.items()}} for at in range(count)]


def test_columns_of_events_have_all_their_values_for_pyarrow_and_duckdb(tmp_path: Path) -> None:
    events = model_events(300)
    table, rejects = written(tmp_path, events)
    assert rejects == []
    assert table.to_pylist() == events
    by_duckdb = duckdb.sql(f"FROM '{tmp_path}/*.parquet'").arrow().read_all()
    assert by_duckdb.to_pylist() == events
    assert pq.ParquetFile(tmp_path / f"{NAME}.parquet").metadata.row_group(0).column(0).compression == "ZSTD"


def test_a_file_with_other_fields_has_other_columns_and_both_are_read_together(tmp_path: Path) -> None:
    for batch, events in enumerate([[{"id": 1}], [{"id": 2, "new": {"a": "x"}}], [{"id": 3, "new": {"b": 1}}]]):
        run(job_of(sink(tmp_path), batch=batch), events, (str(tmp_path),))
    rows = duckdb.sql(f"SELECT * FROM read_parquet('{tmp_path}/*.parquet', union_by_name=true) ORDER BY id").fetchall()
    assert rows == [(1, None), (2, {"a": "x", "b": None}), (3, {"a": None, "b": 1})]


def test_declared_columns_have_every_type_exactly(tmp_path: Path) -> None:
    kinds = {
        "i": ("int", -(2**31), -(2**31)),
        "f": ("float", 0.5, 0.5),
        "dec": ("decimal(38,9)", "12345678901234567890123456789.123456789", Decimal("12345678901234567890123456789.123456789")),
        "d": ("date", "1969-12-31", date(1969, 12, 31)),
        "t": ("time", "23:59:59.999999", time(23, 59, 59, 999999)),
        "ts": ("timestamp", "2024-02-29T01:02:03.000001", datetime(2024, 2, 29, 1, 2, 3, 1)),
        "tz": ("timestamptz", "2024-02-29T01:02:03+02:00", datetime(2024, 2, 28, 23, 2, 3, tzinfo=UTC)),
        "u": ("uuid", "0f8fad5b-d9cb-469f-a165-70867728950e", uuid.UUID("0f8fad5b-d9cb-469f-a165-70867728950e")),
        "bin": ("binary", base64.b64encode(b"\0\xff").decode(), b"\0\xff"),
        "fix": ("fixed[2]", base64.b64encode(b"ab").decode(), b"ab"),
        "m": ("map<string, list<decimal(5,2)>>", {"a": [1.5, None]}, [("a", [Decimal("1.50"), None])]),
        "st": ("struct<a: int required, b: string>", {"a": 1}, {"a": 1, "b": None}),
        "doc": ("string", {"free": [1, 2.50]}, '{"free":[1,2.50]}'),
    }  # fmt: skip
    schema = columns("id!:long", *(f"{name}:{kind}" for name, (kind, *_) in kinds.items()))
    text = json.dumps({"id": 1, **{name: given for name, (_, given, _) in kinds.items()}}).replace("2.5]", "2.50]")
    table, rejects = written(tmp_path, [text, {"id": 2}], schema)
    assert rejects == []
    assert table.to_pylist() == [
        {"id": 1, **{name: value for name, (*_, value) in kinds.items()}},
        {"id": 2, **dict.fromkeys(kinds)},
    ]
    described = duckdb.sql(f"DESCRIBE FROM '{tmp_path}/*.parquet'").fetchall()
    types = {name: kind for name, kind, *_ in described}
    assert {name: types[name] for name in ("dec", "t", "ts", "tz", "u", "m")} == {
        "dec": "DECIMAL(38,9)", "t": "TIME", "ts": "TIMESTAMP", "tz": "TIMESTAMP WITH TIME ZONE", "u": "UUID",
        "m": "MAP(VARCHAR, DECIMAL(5,2)[])",
    }  # fmt: skip
    [(ids,)] = duckdb.sql(f"SELECT count(field_id) FROM parquet_schema('{tmp_path}/*.parquet')").fetchall()
    assert ids == 0  # which a table that adds the files would take for its own


def test_what_does_not_fit_declared_columns_is_rejected_alone_with_its_reason(tmp_path: Path) -> None:
    schema = columns("id!:long", "n:int", "o:struct<a: int>")
    events = [
        {"id": 1},
        {"id": 2, "n": 3e9},
        {"n": 1},
        {"id": 4, "x": 1},
        {"id": 5, "o": {"b": 1}},
        {"id": 6, "x": None},
    ]
    table, rejects = written(tmp_path, events, schema)
    assert table["id"].to_pylist() == [1, 6]
    assert [row for _, row, _ in rejects] == [1, 2, 3, 4]
    reasons = " / ".join(reason for *_, reason in rejects)
    assert "not a valid int" in reasons
    assert "required" in reasons
    assert reasons.count("`schema` has no column for the field; declare it there, or leave it out (exclude_keys)") == 2


def test_names_that_no_reader_could_tell_apart_are_rejected_or_joined_by_choice(tmp_path: Path) -> None:
    events = [{"id": 1, "A": 1}, {"id": 2, "a": 2}, {"id": 3, "a": 3}]
    table, rejects = written(tmp_path / "apart", events)
    assert ([*table["a"].to_pylist()], [row for _, row, _ in rejects]) == ([2, 3], [0])
    table, rejects = written(tmp_path / "joined", events, {"case_insensitive": True})
    assert (table["a"].to_pylist(), rejects) == ([1, 2, 3], [])


@pytest.mark.parametrize("event", [{}, {"a": None}])
def test_an_event_without_a_value_is_no_row_and_makes_no_file(tmp_path: Path, event: Any) -> None:
    table, rejects = written(tmp_path, [event])
    assert (len(table), [row for _, row, _ in rejects]) == (0, [0])
    assert [*tmp_path.rglob("*")] == []


@pytest.mark.parametrize(
    ("event", "why"),
    [('{"_file": 1}', "reserves the name"), ('{"a":' * 260 + "1" + "}" * 260, "deeper"), ("{}", "no field")],
)
def test_an_event_that_is_alone_and_no_row_has_its_own_reason(tmp_path: Path, event: str, why: str) -> None:
    [(_, _, reason)] = written(tmp_path, [event])[1]
    assert why in reason


def test_rows_of_a_typed_source_keep_its_types_also_where_all_are_null(tmp_path: Path) -> None:
    kinds = {
        "id": pa.int32(),
        "price": pa.decimal128(9, 2),
        "at": pa.timestamp("us", "UTC"),
        "raw": pa.binary(),
        "none": pa.float32(),
    }
    declared = pa.array([declaration(pa.schema(list(kinds.items())))] * 2).dictionary_encode()
    event = {
        "id": 1,
        "price": "1.5",
        "at": "2024-01-01T00:00:00Z",
        "raw": base64.b64encode(b"\1").decode(),
        "none": None,
    }
    table, rejects = written(tmp_path, [event, {**event, "price": None}], _schema=declared)
    assert rejects == []
    assert {name: table.schema.field(name).type for name in kinds} == {**kinds, "raw": pa.large_binary()}
    assert table["price"].to_pylist() == [Decimal("1.50"), None]


def test_column_types_decide_where_events_would(tmp_path: Path) -> None:
    types = {"column_types": {"price": "decimal(9,2)", "*_at": "date"}}
    table, rejects = written(tmp_path, [{"price": 1, "o": {"made_at": "2024-01-01"}}, {"price": "x"}], types)
    assert table.to_pylist() == [{"price": Decimal("1.00"), "o": {"made_at": date(2024, 1, 1)}}]
    assert [row for _, row, _ in rejects] == [1]


def test_changes_are_those_of_the_lines_with_the_columns_that_an_update_leaves_as_they_are(tmp_path: Path) -> None:
    words = ["INSERT", "UPDATE_BEFORE", "UPDATE_AFTER", "UPDATE_AFTER", "DELETE", "UPDATE_BEFORE"]
    events = [
        {"id": 1, "o": {"a": 1}, "t": "x"},
        {"id": 1, "t": "x"},
        {"id": 1, "o": None, "t": "y"},
        {"id": 2, "t": "z"},
        {"id": 3},
        {"id": 4},
    ]
    kinds = {**CHANGES, "iceberg_snapshot_id": pa.int64(), "document_id": pa.string()}
    metadata: dict[str, Any] = {
        "iceberg_operation": words, "iceberg_table_name": ["s.t"] * 6, "iceberg_snapshot_id": [2**60] * 6,
        "document_id": ["1", "1", "1", "2", "3", "4"],
    }  # fmt: skip
    folders = (str(tmp_path),)
    run(job_of(f"{{file: {{path: '{tmp_path}'}}}}", kinds), events, folders, **metadata)
    run(job_of(sink(tmp_path), kinds), events, folders, **metadata)
    lines = [json.loads(line) for line in (tmp_path / f"{NAME}.ndjson").read_bytes().splitlines()]
    rows = pq.ParquetFile(tmp_path / f"{NAME}.parquet").read().to_pylist()
    assert [line["op"] for line in lines] == ["c", "u", "u", "d", "d"]
    assert [row.pop("unchanged") for row in rows] == [None, [], ["o"], None, None]
    empty = {"id": None, "o": None, "t": None}
    for line in lines:
        for side in ("before", "after"):
            line[side] = line[side] and {**empty, **line[side]}
    assert rows == lines


def test_files_with_required_fields_in_structs_can_hold_changes(tmp_path: Path) -> None:
    words = {"iceberg_operation": ["INSERT", "DELETE"], "iceberg_table_name": ["s.t"] * 2}
    schema = columns("id:uuid", "o:struct<a: int required>")
    events = [{"id": "0f8fad5b-d9cb-469f-a165-70867728950e", "o": {"a": 1}}, {"id": None}]
    receipt, rejects = run(job_of(sink(tmp_path, schema), CHANGES), events, (str(tmp_path),), **words)
    rows = pq.ParquetFile(tmp_path / f"{NAME}.parquet").read().to_pylist()
    assert ([row["op"] for row in rows], rejects, receipt.documents[0].rows) == (["c", "d"], [], 2)
    assert (rows[0]["after"]["o"], rows[0]["before"], rows[1]["after"]) == ({"a": 1}, None, None)


def test_an_update_whose_new_row_fits_no_columns_is_no_delete_nor_is_an_old_row_that_is_replayed(
    tmp_path: Path,
) -> None:
    words = ["UPDATE_BEFORE", "UPDATE_AFTER"] * 3 + ["UPDATE_BEFORE"]
    events = [{"n": 1}, {"n": "x"}, {"n": "x"}, {"n": 2}, {"n": "x"}, {"n": "y"}, {"n": "x"}]
    metadata: dict[str, Any] = {"iceberg_operation": words, "iceberg_table_name": ["s.t"] * 7}
    _, rejects = run(job_of(sink(tmp_path, columns("n:int")), CHANGES), events, (str(tmp_path),), **metadata)
    rows = pq.ParquetFile(tmp_path / f"{NAME}.parquet").read().to_pylist()
    assert [(row["op"], row["before"], row["after"]) for row in rows] == [("u", None, {"n": 2})]
    assert sorted(row for _, row, _ in rejects) == [1, 5, 6]  # 6 went to another folder: it is a delete


def test_each_folder_has_the_columns_of_its_own_events_and_a_batch_that_comes_again_its_own_files(
    tmp_path: Path,
) -> None:
    folders = (f"{tmp_path}/k=a", f"{tmp_path}/k=b")
    for _ in range(2):
        job = job_of(sink(tmp_path / "k=${/k}"))
        run(job, [{"id": 1, "a": 1}, {"id": 2, "b": "x"}, {"id": 3, "a": 2}], folders)
    manifest = json.loads((tmp_path / "_manifests" / f"{NAME}.json").read_bytes())
    assert [(file["path"], file["rows"]) for file in manifest["files"]] == [
        (f"k=a/{NAME}.parquet", 2),
        (f"k=b/{NAME}.parquet", 1),
    ]
    assert [file["bytes"] for file in manifest["files"]] == [
        (tmp_path / file["path"]).stat().st_size for file in manifest["files"]
    ]
    assert [pq.ParquetFile(tmp_path / file["path"]).schema_arrow.names for file in manifest["files"]] == [
        ["id", "a"],
        ["id", "b"],
    ]


def test_events_that_come_in_parts_share_the_columns_of_their_file(tmp_path: Path) -> None:
    work: Any = FakeWork()
    writer: Any = job_of(sink(tmp_path)).writer(work)
    for texts in (['{"n": 1, "A": 0}', '{"n": 2}'], ['{"n": 0.5, "a": [1]}', '{"a": []}']):
        rows = pa.table({"event": [text.encode() for text in texts], "json": texts})
        list(writer.write((str(tmp_path),), rows, np.zeros(2, np.int32)))
    writer.finish()
    assert pq.ParquetFile(tmp_path / f"{NAME}.parquet").read().to_pylist() == [
        {"n": 2.0, "a": None},
        {"n": 0.5, "a": [1]},
        {"n": None, "a": []},
    ]
    assert [(row, "by case only" in reason) for _, row, reason in work.rejects] == [(0, True)]


def test_only_events_that_are_written_decide_columns(tmp_path: Path) -> None:
    table, rejects = written(tmp_path, [{"n": 1}, {"n": "text", "only": 1, "": 0}, {"n": 2}])
    assert (table.to_pylist(), [row for _, row, _ in rejects]) == ([{"n": 1}, {"n": 2}], [1])


@pytest.mark.parametrize("inside", [False, True])
def test_an_event_with_too_many_fields_takes_no_columns_of_others(tmp_path: Path, inside: bool) -> None:
    wide: dict[str, Any] = {f"c{number}": number for number in range(3000)}
    table, rejects = written(tmp_path, [{"o": wide} if inside else wide, {"z": 1}, {"y": "2:3"}])
    assert table.to_pylist() == [{"z": 1, "y": None}, {"z": None, "y": "2:3"}]
    assert [(row, "the most columns" in reason) for _, row, reason in rejects] == [(0, True)]


def test_a_test_of_some_events_converts_them_and_writes_nothing(tmp_path: Path) -> None:
    work: Any = FakeWork()
    work.is_probe = True
    writer: Any = job_of(sink(tmp_path, columns("id:long"))).writer(work)
    texts = ['{"id": 1}', '{"id": "x"}']
    rows = pa.table({"event": [text.encode() for text in texts], "json": texts})
    list(writer.write((str(tmp_path),), rows, np.zeros(2, np.int32)))
    writer.finish()
    assert [row for _, row, _ in work.rejects] == [1]
    assert [*tmp_path.iterdir()] == []


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"codec": {}}, "exactly one format"),
        ({"codec": {"ndjson": {}, "parquet": {}}}, "exactly one format"),
        ({"codec": {"avro": {}}}, "use ndjson or parquet"),
        ({"format": "parquet"}, "did you mean codec"),
        ({"compression": "snappy"}, "lines are not compressed with snappy"),
        ({"codec": {"parquet": columns("a:variant")}}, "no column of type variant"),
        ({"codec": {"parquet": columns("a:list<unknown>")}}, "no column of type unknown"),
        ({"codec": {"parquet": columns("a:long", "A:long")}}, "by case only"),
        ({"codec": {"parquet": columns("a:lng")}}, "lng"),
        ({"codec": {"parquet": {"column_types": {"a": "lng"}}}}, "lng"),
        ({"codec": {"parquet": {**columns("a:long"), "column_types": {"a": "int"}}}}, "declares the types of all"),
        (
            {"codec": {"parquet": columns("a!:long")}, "operation": "${/op}"},
            "a deleted row may have nothing but its key",
        ),
    ],
)
def test_options_of_the_format_that_cannot_work_are_refused(options: dict[str, Any], reason: str) -> None:
    with pytest.raises((SettingsErrors, SettingsError), match=reason):
        job_of(json.dumps({"file": {"path": "out", **options}}))


def test_required_columns_of_a_database_are_refused() -> None:
    sink_text = json.dumps({"file": {"path": "out", "codec": {"parquet": columns("a!:long")}}})
    source = "iceberg: {tables: [{table_name: a.b, identifier_columns: [id]}]}"
    with pytest.raises(SettingsErrors, match="cannot be required"):
        parse_text(f"p:\n  source: {{{source}}}\n  sink: [{sink_text}]\n", PLUGINS)

"""`calve try` with samples that are not text: typed files, and the values of a topic with a schema registry."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import fastavro
import pyarrow as pa
import pytest
from pyarrow import orc, parquet

import calve
from serde.avro.values import encoded
from services.registry import Registry, framed

from .conftest import Shell

HTTP = """\
one:
  source: {http: {}}
  sink:
    - iceberg: {table_identifier: shop.orders, auto_create: true}
"""
KAFKA = """\
one:
  source:
    kafka:
      bootstrap_servers: ["nobody:1"]
      topics: [{name: orders, serde_format: avro}]
      schema: %s
  sink:
    - iceberg: {table_identifier: "shop.${/kind}", auto_create: true}
"""
SCHEMA = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "id", "type": "int", "doc": "its number"}, {"name": "kind", "type": "string"}],
}
TABLE = pa.table({"id": pa.array([1, 2], pa.int32()), "at": pa.array([0, 1], pa.date32())})


@pytest.fixture(autouse=True)
def _own_plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "calve.cli.trial", raising=False)


@pytest.fixture
def registry() -> Iterator[Registry]:
    with Registry() as started:
        started.register("orders-value", SCHEMA)
        yield started


def _file(shell: Shell, name: str, data: bytes) -> str:
    path = shell.write(name, "")
    Path(path).write_bytes(data)
    return path


def _avro() -> bytes:
    out = io.BytesIO()
    fields = [{"name": "id", "type": "int"}, {"name": "at", "type": {"type": "int", "logicalType": "date"}}]
    fastavro.writer(out, {"type": "record", "name": "R", "fields": fields}, [{"id": 1, "at": 0}, {"id": 2, "at": 1}])
    return out.getvalue()


def _written(kind: str) -> bytes:
    out = io.BytesIO()
    (orc.write_table if kind == "orc" else parquet.write_table)(TABLE, out)
    return out.getvalue()


def _several(values: list[bytes | None]) -> bytes:
    return b"".join(
        (-1 if value is None else len(value)).to_bytes(4, "big", signed=True) + (value or b"") for value in values
    )


@pytest.mark.parametrize("kind", ["parquet", "orc", "avro"])
def test_a_typed_file_has_its_types_whatever_the_source_is(shell: Shell, kind: str) -> None:
    sample = _file(shell, "sample.bin", _avro() if kind == "avro" else _written(kind))
    result = shell("try", shell.write("a.yaml", HTTP), sample)
    assert result.exit_code == 0
    assert result.stdout.splitlines()[:2] == ["event 1: shop.orders", "event 2: shop.orders"]
    assert "    id int,\n    at date\n" in result.stdout


def test_one_value_of_a_topic_is_decoded_by_its_registry(shell: Shell, registry: Registry) -> None:
    yaml = shell.write("a.yaml", KAFKA % json.dumps({"registry_url": registry.url}))
    result = shell("try", yaml, _file(shell, "one.bin", framed(1, encoded(SCHEMA, {"id": 7, "kind": "a"}))))
    assert result.exit_code == 0
    assert result.stdout.splitlines()[0] == "event 1: shop.a"
    assert "    id int COMMENT 'its number',\n    kind string\n" in result.stdout


def test_several_values_with_their_lengths_keep_their_numbers(shell: Shell, registry: Registry) -> None:
    yaml = shell.write("a.yaml", KAFKA % json.dumps({"registry_url": registry.url}))
    good = [framed(1, encoded(SCHEMA, {"id": at, "kind": kind})) for at, kind in enumerate("ab")]
    result = shell(
        "try", yaml, _file(shell, "many.bin", _several([good[0], good[0] + b"\n", None, framed(9, b""), good[1]]))
    )
    lines = result.stdout.splitlines()
    assert (lines[0], lines[4]) == ("event 1: shop.a", "event 5: shop.b")
    assert [line.split(":")[1:3] for line in lines[1:4]] == [
        [" rejected, UNDECODABLE", " the value has 1 bytes more than its schema"],
        [" rejected, MALFORMED", " the record has no value"],
        [" rejected, UNKNOWN_SCHEMA", " the schema registry has no schema with the id 9"],
    ]
    assert lines[-1].startswith("5 events: 2 rows for 2 tables, 3 rejected")


def test_values_of_a_given_schema_have_no_id_and_text_stays_text(shell: Shell) -> None:
    yaml = shell.write("a.yaml", KAFKA % json.dumps({"inline_schema": json.dumps(SCHEMA)}))
    value = encoded(SCHEMA, {"id": 7, "kind": "a"})
    for data in (value, _several([value]), b'{"id": 7, "kind": "a"}\n'):
        result = shell("try", yaml, _file(shell, "a.bin", data))
        is_text = data.startswith(b"{")
        assert result.stdout.splitlines()[0] == f"{'line' if is_text else 'event'} 1: shop.a", result.stdout
        assert ("the schema of the topics is not used" in result.stderr) == is_text


def test_lines_of_json_with_a_given_schema_have_its_types(shell: Shell) -> None:
    schema = {"type": "object", "properties": {"id": {"type": "number"}, "kind": {"type": "string"}}}
    yaml = KAFKA.replace("avro", "json_schema") % json.dumps({"inline_schema": json.dumps(schema)})
    for data in (b'{"id": 7, "kind": "a"}\n\n{"id": 8, "kind": "a"}\n', b'{"id": 7, "kind": "a"}'):
        result = shell("try", shell.write("a.yaml", yaml), _file(shell, "a.ndjson", data))
        assert result.stdout.splitlines()[0] == "line 1: shop.a"
        assert "    id double,\n    kind string\n" in result.stdout
        assert not result.stderr


@pytest.mark.parametrize(
    ("name", "data"),
    [("a.json", b'[{"id":1}, 5]'), ("a.json", b'{"k":1} {"id":2} 5'), ("a.csv", b'id\n1\n\n"2"x\n')],
)
def test_events_of_files_without_lines_have_numbers(shell: Shell, name: str, data: bytes) -> None:
    yaml = shell.write("a.yaml", HTTP.replace("http: {}", "file: {path: nowhere}"))
    lines = shell("try", yaml, _file(shell, name, data)).stdout.splitlines()
    assert [line.partition(":")[0] for line in lines if line.startswith("event ")][-1] in ("event 2", "event 3")
    assert "rejected" in lines[1] or "rejected" in lines[2]
    assert not any(line.startswith(("line ", "end ")) for line in lines)


def test_json_events_may_be_tried_beside_a_registry_that_is_away(shell: Shell) -> None:
    yaml = shell.write("a.yaml", KAFKA % json.dumps({"registry_url": "http://127.0.0.1:1"}))
    result = shell("try", yaml, _file(shell, "a.ndjson", b'{"id": 7, "kind": "a"}\n'))
    assert result.stdout.splitlines()[0] == "line 1: shop.a"
    result = shell("try", yaml, _file(shell, "a.bin", framed(1, b"\x02\x02a")))
    assert (result.exit_code, "does not answer" in result.stderr) == (1, True)


def test_a_binary_sample_of_no_known_format_is_refused_with_what_can_be_taken(shell: Shell) -> None:
    for data in (framed(1, b"\x02\x02a"), b"PK\x03\x04\x14\x00\x00\x00"):
        result = shell("try", shell.write("a.yaml", HTTP), _file(shell, "a.bin", data))
        assert result.exit_code == 1
        assert "are binary, of a format that the pipeline does not name" in result.stderr
        assert "Parquet, Avro or ORC" in result.stderr


def test_python_takes_values_as_bytes(registry: Registry) -> None:
    config = KAFKA % json.dumps({"registry_url": registry.url})
    found = calve.try_events(config, [framed(1, encoded(SCHEMA, {"id": 7, "kind": "a"}))])
    assert [to.table for event in found.events for to in event.tables] == ["shop.a"]

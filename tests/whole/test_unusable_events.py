"""A batch of which no event can be used: each has its own true reason, and the next batch is written."""

from __future__ import annotations

import gzip
import io
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pytest

from kit.lake import Lake

HINT = (
    "this looks like a value with a schema id, which only topics of Kafka may have: their serde_format is then avro, "
)
HINT += "protobuf or json_schema, or debezium with `schema`"


def _parquet() -> bytes:
    out = io.BytesIO()
    pq.write_table(pa.table({"a": [1]}), out)
    return out.getvalue()


def _orc() -> bytes:
    out = io.BytesIO()
    orc.write_table(pa.table({"a": [1]}), out)
    return out.getvalue()


UNUSABLE: dict[str, tuple[bytes | None, str]] = {
    "nothing": (b"", "not JSON: Expecting value at character 0"),
    "a tombstone": (None, "the event has no value"),
    "null": (b"null", "JSON, but null and not an object"),
    "a text": (b"hello", "not JSON: Expecting value at character 0"),
    "cut JSON": (b'{"a":1', "not JSON: Expecting ',' delimiter at character 6"),
    "an array": (b"[1]", "JSON, but an array and not an object"),
    "Avro with an id": (b"\0\0\0\0\5\2", f"not JSON: Expecting value at character 0; {HINT}"),
    "Avro that is not UTF-8": (b"\0\0\0\0\5\2\xff", f"not UTF-8 at byte 6; {HINT}"),
    "JSON with an id": (b'\0\0\0\0\1{"a":1}', f"not JSON: Expecting value at character 0; {HINT}"),
    "Protobuf with an id": (b"\0\0\0\0\1\0\x08\x96\x01", f"not UTF-8 at byte 7; {HINT}"),
    "Avro alone": (b"\x02\x02", "not JSON: Expecting value at character 0"),
    "bytes": (b"\xff\xfe", "not UTF-8 at byte 0"),
    "gzip": (gzip.compress(b'{"a":1}'), "not UTF-8 at byte 1; this looks like gzip"),
    "Parquet": (_parquet(), "this looks like a Parquet file"),
    "ORC": (_orc(), "not "),
    "an Avro file": (b"Obj\x01\x04\x14avro.codec", "this looks like an Avro file"),
    "CSV": (b"a,b\n1,2", "not JSON: Expecting value at character 0"),
    "a number": (b"17", "JSON, but a number and not an object"),
}
SINKS: dict[str, dict[str, Any]] = {
    "append": {"table_identifier": "ns.t"},
    "evolve": {"table_identifier": "ns.t", "schema_evolution": True},
    "by key": {"table_identifier": "ns.t", "identifier_columns": ["a"], "upsert": True},
    "partitioned": {"table_identifier": "ns.t", "partition_by": ["day(at)"]},
    "dynamic": {"table_identifier": "ns.${/a}"},
}


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode("utf-8", "surrogateescape")


@pytest.mark.parametrize("sink", SINKS)
def test_a_first_batch_of_unusable_events_has_the_true_reason_of_each(sink: str, tmp_path: Path) -> None:
    lake = Lake(tmp_path, {**SINKS[sink], "auto_create": True})
    values = [_text(value) for value, _ in UNUSABLE.values()]
    lake.write(values[::2], values[1::2])
    assert lake.codes() == ["MALFORMED"] * len(UNUSABLE)
    reasons = sorted(letter["reason"] for letter in lake.letters)
    for _, wanted in UNUSABLE.values():
        assert any(wanted in reason for reason in reasons), wanted
    assert lake.schema() is None
    lake.write(['{"a": 1, "at": "2026-01-01T00:00:00Z"}'])
    assert (sum(map(len, lake.rows.values())), len(lake.letters)) == (1, len(UNUSABLE))


@pytest.mark.parametrize("kind", UNUSABLE)
def test_the_reason_is_the_same_beside_good_events(kind: str, tmp_path: Path) -> None:
    value, reason = UNUSABLE[kind]
    lake = Lake(tmp_path, {"table_identifier": "ns.t", "auto_create": True})
    lake.write(['{"a":1}', _text(value)])
    assert [(letter["code"], reason in letter["reason"]) for letter in lake.letters] == [("MALFORMED", True)]
    assert lake.rows == {"ns.t": [{"a": 1}]}


def test_a_table_that_may_not_be_created_rejects_objects_and_still_names_what_is_none(tmp_path: Path) -> None:
    lake = Lake(tmp_path, {"table_identifier": "ns.${/a}"})
    lake.write(['{"a": "t"}', "no"])
    assert lake.codes() == ["MALFORMED", "NO_SUCH_TABLE"]


def test_events_without_a_field_that_can_become_a_column_say_so(tmp_path: Path) -> None:
    lake = Lake(tmp_path, {"table_identifier": "ns.t", "auto_create": True})
    lake.write(["{}", '{"a":null}', "no"])
    assert lake.codes() == ["MALFORMED", "NO_MATCHING_FIELDS", "NO_MATCHING_FIELDS"]

"""Which events are JSON objects."""

from __future__ import annotations

import duckdb
import pyarrow as pa

from calve.event.validate_json import validated


def test_malformed_rows_are_rejected_with_their_positions_and_the_rest_is_kept():
    events = [
        b'{"a":1}',
        b"[1]",
        None,
        b"\xff",
        b'{"a":NaN}',
        b' {"b":[1,2]}',
        b'{"c":1,}',
        b"",
        b'{"d":"x, }"}',
        b"null",
    ]
    found = validated(pa.table({"event": pa.array(events, pa.binary()), "topic": [str(i) for i in range(len(events))]}))
    assert found.rejects["row"].to_pylist() == [1, 2, 3, 4, 6, 7, 9]
    assert set(found.rejects["code"].to_pylist()) == {"MALFORMED"}
    assert found.rows["row"].to_pylist() == [0, 5, 8]
    assert found.rows["topic"].to_pylist() == ["0", "5", "8"]
    assert found.rows["event"].to_pylist() == [events[0], events[5], events[8]]


def test_rows_that_the_source_gave_up_keep_its_reason():
    rows = pa.table({"event": pa.array([b'{"a":1}', b'{"a":2}'], pa.binary()), "malformed": [None, "the file is cut"]})
    found = validated(rows)
    assert found.rejects["reason"].to_pylist() == ["the file is cut"]
    assert found.rows["row"].to_pylist() == [0]


def test_half_a_surrogate_gets_a_text_that_duckdb_accepts():
    found = validated(pa.table({"event": pa.array([b'{"a":"\\ud800","n":1.10}'], pa.binary())}))
    text = found.rows["json"][0].as_py()
    assert duckdb.execute("SELECT ?->>'$.n'", [text]).fetchall()
    assert "1.10" in text
    assert found.rows["event"][0].as_py() == b'{"a":"\\ud800","n":1.10}'


def test_a_text_that_is_accepted_is_the_event_itself():
    event = '{ "a" : "nan, }", "b": "ä" }'
    assert validated(pa.table({"event": [event.encode()]})).rows["json"].to_pylist() == [event]


def test_no_events_are_no_rows():
    found = validated(pa.table({"event": pa.array([], pa.binary())}))
    assert found.rows.num_rows == found.rejects.num_rows == 0


def test_a_reason_of_the_strict_parser_names_the_place():
    found = validated(pa.table({"event": [b'{"a" 1}']}))
    assert "character 5" in found.rejects["reason"][0].as_py()


def test_lines_of_utf_16_are_told_as_such_and_values_with_a_schema_id_as_these():
    lines = [
        line
        for name in ("utf-16-le", "utf-16-be", "utf-16")
        for line in '{"a": 1}\n{"a": 2}\n'.encode(name).split(b"\n")
    ]
    reasons = validated(pa.table({"event": pa.array(filter(None, lines), pa.binary())})).rejects["reason"].to_pylist()
    assert len(reasons) == len([*filter(None, lines)])
    assert all("looks like UTF-16, and only UTF-8 is read: convert it" in reason for reason in reasons)
    with_id = [b"\0\0\0\0\5\2", b"\0\0\1\0\5\xff", b'\0\0\0\0\1{"a":1}', b"\0\x7b\x01\x02\x03"]
    reasons = validated(pa.table({"event": pa.array(with_id, pa.binary())})).rejects["reason"].to_pylist()
    assert all("schema id" in reason for reason in reasons)
    assert "bzip2" in validated(pa.table({"event": [b"BZh91AY"]})).rejects["reason"][0].as_py()

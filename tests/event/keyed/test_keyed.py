"""The key of a record: which columns it has, and that texts alone decide only what the exact way decides, too."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calve.event.envelope.schema import Field, field_of, text_of
from calve.event.exact_json import parse_object
from calve.event.keyed import decoder as module
from calve.event.keyed.decoder import KeyedDecoder, KeyedRows, RecordKeys
from kit.compiled_core import needs_core
from kit.examples import examples

LONG = text_of(Field("", "int64"))
RECORD = text_of(Field("", "struct", fields=(Field("id", "int64"), Field("at", "date"))))


def keyed(records: list[tuple[str | None, str | None]], column: str = "id", schema: str | None = None) -> KeyedRows:
    """Decode pairs of key and value."""
    keys, values = [key for key, _ in records], [None if value is None else value.encode() for _, value in records]
    columns = {"event": pa.array(values, pa.binary()), "kafka_key": pa.array(keys, pa.string())}
    if schema:
        columns["_key"] = pa.array([schema] * len(records), pa.string()).dictionary_encode()
    return KeyedDecoder(RecordKeys(column)).decode(pa.table(columns))


def shown(found: KeyedRows) -> list[Any]:
    rows = [(row["operation"], row["event"].decode()) for row in found.rows.to_pylist()]
    return rows + [(reject["row"], reject["code"]) for reject in found.rejects.to_pylist()]


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ('{"id":1}', '{"n":2}', ("insert", '{"id":1,"n":2}')),
        ('{"id":1}', None, ("delete", '{"id":1}')),
        ('{"id":1}', '{"id":1,"n":2}', ("insert", '{"id":1,"n":2}')),
        ('{"id":1}', '{"n":2,"id":null}', ("insert", '{"id":1,"n":2}')),
        ('{"id":1.0}', '{"id":1}', ("insert", '{"id":1}')),
        ('{"id":"1"}', '{"id":1}', ("insert", '{"id":1}')),
        ('{"id":1}', '{"id":2}', (0, "KEY_MISMATCH")),
        ('{"id":1}', '{"id":[1]}', (0, "KEY_MISMATCH")),
        ('{"id":1e99999999999999999999}', '{"id":1}', (0, "KEY_MISMATCH")),
        ('{"id":1}', '{"id":1e-99999999999999999999}', (0, "KEY_MISMATCH")),
        ('{"a":1,"b":"x"}', '{"b":"x","c":null}', ("insert", '{"a":1,"b":"x","c":null}')),
        ("user-7", '{"n":1}', ("insert", '{"id":"user-7","n":1}')),
        ("7", '{"id":7}', ("insert", '{"id":7}')),
        ('"7"', None, ("delete", '{"id":"\\"7\\""}')),
        (None, '{"id":7}', (0, "NO_KEY")),
        ("{}", '{"id":7}', (0, "NO_KEY")),
        ('{"id":', '{"id":7}', (0, "NO_KEY")),
        ('{"id":{"a":1}}', '{"id":7}', (0, "NO_KEY")),
        ('{"schema":{"type":"int64"},"payload":5}', None, ("delete", '{"id":5}')),
        ('{"schema":null,"payload":{"a":5}}', None, ("delete", '{"a":5}')),
        ('{"schema":null,"payload":null}', None, (0, "NO_KEY")),
        ('{"id":1}', "[1]", ("insert", "[1]")),
    ],
)
@pytest.mark.parametrize("earlier", [[], [('{"id":5}', '{"id":5}')], [("x", '{"n":5}')]])
def test_a_row_has_the_columns_of_its_key(key: str, value: str | None, expected: Any, earlier: list[Any]) -> None:
    *_, last = shown(keyed([*earlier, (key, value)]))
    assert last == ((expected[0] + len(earlier), expected[1]) if isinstance(expected[0], int) else expected)


def test_a_decoded_key_keeps_its_types_and_its_order() -> None:
    found = keyed([("5", '{"n":1}'), ("6", None)], schema=LONG)
    assert shown(found) == [("insert", '{"id":5,"n":1}'), ("delete", '{"id":6}')]
    [schema] = set(found.rows["_key"].to_pylist())
    assert field_of(schema).fields == (Field("id", "int64"),)
    found = keyed([('{"id":1,"at":"2026-01-01"}', '{"n":1}')], schema=RECORD)
    assert field_of(found.rows["_key"][0].as_py()) == field_of(RECORD)


def test_times_of_connects_keys_are_written_as_those_of_its_values() -> None:
    date = {"type": "int32", "name": "org.apache.kafka.connect.data.Date", "field": "day"}
    amount = {"type": "bytes", "name": "org.apache.kafka.connect.data.Decimal", "parameters": {"scale": "0"}}
    schema = {"type": "struct", "fields": [date, {**amount, "field": "n"}]}
    for n, text in (("/w==", "-1"), ("BNI=", "1234")):  # a rendered text may be Base64 as well
        for spaces in ((",", ":"), (", ", ": ")):
            key = json.dumps({"schema": schema, "payload": {"day": 20454, "n": n}}, separators=spaces)
            rows = keyed([(key, None), (key, '{"x":1}')])
            assert shown(rows) == [
                ("delete", f'{{"day":"2026-01-01","n":"{text}"}}'),
                ("insert", f'{{"day":"2026-01-01","n":"{text}","x":1}}'),
            ]


TEXTS = st.sampled_from(["x", "7", "", 'q"', "é", "{", " {", "\\", "😀", "null", "true"])
SCALARS = st.one_of(TEXTS, st.integers(0, 3), st.sampled_from([1.5, True, None, [], {"a": 1}]))
OBJECTS = st.dictionaries(st.sampled_from(["id", "b", 'q"']), SCALARS, max_size=3)
SPACED = st.sampled_from([(",", ":"), (", ", ": ")])
WRITTEN = st.builds(lambda value, spaces: json.dumps(value, separators=spaces), OBJECTS, SPACED)
ODD = st.sampled_from(["[]", "5", "{", '{"id":1,"id":2}', '{"id":"\\ud800"}', "", "null", '{"id":\n1}'])


@needs_core
@settings(max_examples=examples(60), deadline=None, database=None)
@given(
    records=st.lists(
        st.tuples(st.one_of(st.none(), WRITTEN, TEXTS), st.one_of(st.none(), WRITTEN, ODD)), min_size=1, max_size=40
    ),
    column=st.sampled_from(["id", 'q"']),
    schema=st.sampled_from([None, None, text_of(Field("", "string"))]),
)
def test_columns_of_keys_are_those_of_the_exact_way(records: list[Any], column: str, schema: str | None) -> None:
    def told(found: KeyedRows) -> list[Any]:
        rows = found.rows.to_pylist()
        return [[{**row, "event": _parsed(row["event"])} for row in rows], found.rejects.to_pylist()]

    fast = told(keyed(records, column, schema))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "merged", lambda *_: None)
        assert fast == told(keyed(records, column, schema))


@needs_core
def test_usual_records_need_no_exact_way(monkeypatch: pytest.MonkeyPatch) -> None:
    exact: list[Any] = []
    monkeypatch.setattr(module, "with_key", lambda *given: exact.append(given))
    values = ['{"n":1}', None, '{"id":%s,"n":1}']
    connect = '{"schema":{"type":"struct","fields":[{"type":"int64","field":"id"}]},"payload":{"id":%d}}'
    for form, schema in (('{"id":%d}', None), ("%d", None), ("user-%d", None), ("%d", LONG), (connect, None)):
        written = ['"user-%d"' if form == "user-%d" else "%d"]
        records = [(form % n, (v % (written[0] % n) if "%s" in v else v) if v else v) for n in range(9) for v in values]
        assert keyed(records, schema=schema).rows.num_rows == len(records)
    assert exact == []


def _parsed(event: bytes) -> Any:
    try:
        return parse_object(event)
    except ValueError:
        return event

"""Envelopes become rows: what each format and each type means, and that no envelope disturbs another."""

from __future__ import annotations

import json
import random
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from calve.compiled.library import missing
from calve.event.envelope import decoder
from calve.event.envelope.decoder import EnvelopeDecoder, Envelopes
from calve.event.envelope.exact import decode, text_of
from calve.event.envelope.schema import field_of
from calve.event.envelope.shape import SHAPES
from event.envelope.debezium import envelope, field, text, unscaled, wrapped
from event.envelope.decoding import ABOUT, DECIMAL, EXACT, WANTED, changes, decoded, events


@pytest.mark.parametrize("with_schema", [False, True])
def test_each_operation_gives_its_row(with_schema: bool) -> None:
    columns = [field("id", "int64"), field("city", "string")]
    old, new = {"id": 1, "city": "Bern"}, {"id": 1, "city": "Genève"}
    told = [envelope("c", None, old), envelope("r", None, old), envelope("u", old, new), envelope("u", None, new)]
    told.append(envelope("d", old))
    found = decoded([wrapped(columns, one) if with_schema else one for one in told])
    words = ["insert", "insert", "update", "update", "delete"]
    assert changes(found) == list(zip(words, [old, old, new, new, old], strict=True))
    assert found.rejects.num_rows == found.skipped == 0
    assert found.rows["_original"].to_pylist() == [text(wrapped(columns, one) if with_schema else one) for one in told]


def test_tombstones_are_passed_over_and_not_rejected() -> None:
    found = decoded([None, envelope("c", None, {"id": 1}), b"null", {"schema": None, "payload": None}])
    assert changes(found) == [("insert", {"id": 1})]
    assert (found.skipped, found.rejects.num_rows) == (3, 0)
    assert found.rows["row"].to_pylist() == [1]


def test_metadata_tells_operation_and_source() -> None:
    [row] = decoded([envelope("u", None, {"id": 1}, table="a")]).rows.to_pylist()
    told = {name: row[name] for name in (*ABOUT, "operation")}
    assert told == {
        "operation": "update",
        "debezium_op": "u",
        "debezium_source_db": "shop",
        "debezium_source_table": "a",
        "debezium_source_ts_ms": 1767225600000,
    }


BROKEN = {
    b'{"before":': "MALFORMED",
    b"\xff\xfe": "MALFORMED",
    b"[1]": "MALFORMED",
    b"{}": "MALFORMED",
    b'{"op":5,"after":{"id":1}}': "MALFORMED",
    b'{"op":"c","after":null}': "MALFORMED",
    b'{"op":"u","after":[1]}': "MALFORMED",
    b'{"op":"c","after":{"id":NaN}}': "MALFORMED",
    b'{"op":"c","after":{"id":1,}}': "MALFORMED",
    b'{"schema":{"type":"struct"},"payload":{"op":"c","after":{"id":1}': "MALFORMED",
    b'{"op":"t","source":{"table":"a"}}': "UNKNOWN_OPERATION",
    b'{"op":"m","message":{}}': "UNKNOWN_OPERATION",
    b'{"op":"d","before":null}': "NO_KEY",
}


@pytest.mark.parametrize("broken", BROKEN)
def test_a_broken_envelope_is_rejected_and_disturbs_no_other(broken: bytes) -> None:
    good = envelope("c", None, {"id": 7})
    found = decoded([good, broken, wrapped([field("id", "int64")], good)])
    assert changes(found) == [("insert", {"id": 7})] * 2
    assert [(one["row"], one["code"]) for one in found.rejects.to_pylist()] == [(1, BROKEN[broken])]


def test_a_message_of_the_database_is_rejected_as_what_it_is() -> None:
    (reject,) = decoded([b'{"op":"m","message":{"prefix":"a","content":"eA=="}}']).rejects.to_pylist()
    assert reject["reason"] == "it is a message of the database (pg_logical_emit_message), which has no row"


def test_a_delete_without_a_row_takes_the_key_of_its_record() -> None:
    key_schema = {"type": "struct", "fields": [field("id", "int64"), field("day", "int32", "io.debezium.time.Date")]}
    keys = ['{"id":5}', json.dumps({"schema": key_schema, "payload": {"id": 6, "day": 1}}), "5", "{broken"]
    found = decoded([envelope("d")] * 4, keys)
    assert changes(found) == [("delete", {"id": 5}), ("delete", {"id": 6, "day": "1970-01-02"})]
    assert [(one["row"], one["code"]) for one in found.rejects.to_pylist()] == [(2, "NO_KEY"), (3, "NO_KEY")]


def test_a_change_of_the_key_is_a_delete_and_an_update_and_order_stays() -> None:
    moves = [envelope("u", {"id": 1, "n": 0}, {"id": 2, "n": 0}), envelope("u", {"id": 2, "n": 0}, {"id": 2, "n": 5})]
    found = decoded([envelope("c", None, {"id": 1, "n": 0}), *moves, envelope("d", {"id": 2})])
    assert changes(found) == [
        ("insert", {"id": 1, "n": 0}),
        ("delete", {"id": 1, "n": 0}),
        ("update", {"id": 2, "n": 0}),
        ("update", {"id": 2, "n": 5}),
        ("delete", {"id": 2}),
    ]
    assert found.rows["row"].to_pylist() == [0, 1, 1, 2, 3]


def test_numbers_of_nested_rows_keep_every_digit() -> None:
    chance = random.Random(11)
    numbers = ["10000000000000000.5", "12345678901234567e-3", "1234567890123456E-1", "0.3000000000000001", "1e5"]
    for _ in range(5_000):
        digits = str(chance.randint(1, 10 ** chance.randint(1, 22)))
        whole = chance.randint(0, len(digits) - 1)
        power = f"e{chance.randint(-20, 20)}" if chance.random() < 0.2 else ""
        numbers.append(f"{'-' * chance.randint(0, 1)}{digits[:whole] or 0}.{digits[whole:]}{power}")
    envelopes = [f'{{"before":null,"after":{{"id":1,"in":{{"n":{number}}}}},"op":"c"}}' for number in numbers]
    events = pa.table({"event": pa.array([envelope.encode() for envelope in envelopes], pa.binary())})
    rows = EnvelopeDecoder(Envelopes("debezium")).decode(events).rows
    found = [json.loads(row, parse_float=Decimal, parse_int=Decimal)["in"]["n"] for row in rows["json"].to_pylist()]
    assert found == list(map(Decimal, numbers))


def test_an_envelope_nested_too_deeply_is_rejected_alone() -> None:
    deep = b'{"op":"c","after":{"id":NaN,"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}}"
    found = decoded([b'{"op":"c","after":{"id":1}}', deep, b'{"op":"c","after":{"id":2}}'])
    assert changes(found) == [("insert", {"id": 1}), ("insert", {"id": 2})]
    assert found.rejects["code"].to_pylist() == ["MALFORMED"]


def test_one_stream_of_many_tables_with_and_without_schema_keeps_its_order() -> None:
    tables = [
        [field("id", "int64"), field(f"at{number}", "int64", "io.debezium.time.Timestamp")] for number in range(5)
    ]
    values, wanted = [], []
    for number in range(200):
        table = number % 6
        row = {"id": number, f"at{table}": 0}
        one = envelope("c", None, row, table=f"t{table}")
        values.append(one if table == 5 else wrapped(tables[table], one))
        wanted.append(row if table == 5 else {"id": number, f"at{table}": "1970-01-01T00:00:00"})
    reader = EnvelopeDecoder(Envelopes("debezium", WANTED))
    for chunk in (slice(0, 100), slice(100, 200)):
        found = reader.decode(events([text(one) for one in values[chunk]]))
        assert [row for _, row in changes(found)] == wanted[chunk]
        assert found.rows["debezium_source_table"].to_pylist() == [f"t{row['id'] % 6}" for row in wanted[chunk]]


def test_a_column_called_payload_or_schema_is_only_a_column() -> None:
    rows = [{"id": number, "payload": {"x": number}, "schema": "}"} for number in range(3)]
    assert [row for _, row in changes(decoded([envelope("c", None, row) for row in rows]))] == rows


KEYS = [
    ("1", "1", False),
    ("1", "2", True),
    ('"a.e"', '"a.e"', False),
    ('"\\u0061"', '"a"', False),
    ("1", "null", True),
    ("0.10000000000000000001", "0.10000000000000000002", True),
    ("1e2", "2e2", True),
    ("null", "5", False),
]


@pytest.mark.parametrize(("old", "new", "is_another"), KEYS)
def test_a_key_has_changed_where_its_text_has(old: str, new: str, is_another: bool) -> None:
    value = f'{{"before":{{"id":{old}}},"after":{{"id":{new}}},"op":"u"}}'.encode()
    assert [word for word, _ in changes(decoded([value] * 2))] == (
        ["delete", "update"] if is_another else ["update"]
    ) * 2


@pytest.mark.parametrize("number", ["12345678901234.123456789", "0.30000000000000000004", "1.50", "1E5", "-0.0"])
def test_a_number_stays_as_it_was_written(number: str) -> None:
    value = text(envelope("c", None, {"id": 7, "in": {"n": "N"}})).replace(b'"N"', number.encode())
    [row] = decoded([value]).rows.to_pylist()
    assert row["event"] == f'{{"id":7,"in":{{"n":{number}}}}}'.encode()


def test_half_a_surrogate_pair_reaches_conversion_as_it_came() -> None:
    [row] = decoded([b'{"op":"c","after":{"id":1,"a":"\\ud800"}}']).rows.to_pylist()
    assert row["event"] == b'{"id":1,"a":"\\ud800"}'
    assert json.loads(row["json"])["id"] == 1


def test_half_a_surrogate_pair_in_metadata_is_replaced() -> None:
    [row] = decoded([b'{"op":"c","after":{"id":1},"source":{"table":"a\\ud800","db":["\\udc00"]}}']).rows.to_pylist()
    assert (row["debezium_source_table"], row["debezium_source_db"]) == ("a\ufffd", '["\ufffd"]')


def test_half_a_surrogate_pair_in_a_schema_takes_its_field_out_of_it() -> None:
    columns = [field("id", "int64"), field("\ud800", "int32", "io.debezium.time.Date")]
    value = json.dumps(wrapped(columns, envelope("c", None, {"id": 1, "\ud800": 5}))).encode()
    [row] = decoded([value]).rows.to_pylist()
    assert row["event"] == b'{"id":1,"\\ud800":5}'
    assert [each.name for each in field_of(row["_schema"]).fields] == ["id"]


def test_each_row_keeps_its_envelope_where_one_gives_two_rows_and_another_none() -> None:
    move = envelope("u", {"id": 1}, {"id": 2})
    found = decoded([move, {"schema": None, "payload": None}])
    assert changes(found) == [("delete", {"id": 1}), ("update", {"id": 2})]
    assert found.rows["_original"].to_pylist() == [text(move)] * 2
    assert found.rows["row"].to_pylist() == [0, 0]


MAXWELL = [
    ({"database": "shop", "table": "t", "type": "bootstrap-start", "ts": 1, "data": {}}, []),
    ({"database": "shop", "table": "t", "type": "bootstrap-insert", "ts": 1, "data": {"id": 1}}, [("insert", {"id": 1})]),
    ({"database": "shop", "table": "t", "type": "insert", "ts": 1, "xid": 1, "commit": True, "data": {"id": 2}}, [("insert", {"id": 2})]),
    ({"database": "shop", "table": "t", "type": "update", "ts": 1, "data": {"id": 2, "n": 1}, "old": {"n": None}}, [("update", {"id": 2, "n": 1})]),
    ({"database": "shop", "table": "t", "type": "update", "ts": 1, "data": {"id": 3, "n": 1}, "old": {"id": 2}}, [("delete", {"id": 2, "n": 1}), ("update", {"id": 3, "n": 1})]),
    ({"database": "shop", "table": "t", "type": "delete", "ts": 1, "data": {"id": 3}}, [("delete", {"id": 3})]),
    ({"database": "shop", "table": "t", "type": "table-alter", "ts": 1, "sql": "alter table t"}, []),
]  # fmt: skip
DMS = [
    ({"metadata": {"record-type": "control", "operation": "create-table", "schema-name": "s", "table-name": "t"}}, []),
    ({"data": {"id": 1}, "metadata": {"record-type": "data", "operation": "load", "table-name": "t"}}, [("insert", {"id": 1})]),
    ({"data": {"id": 2}, "metadata": {"operation": "insert"}}, [("insert", {"id": 2})]),
    ({"data": {"id": 3}, "before-image": {"id": 2}, "metadata": {"operation": "update"}}, [("delete", {"id": 2}), ("update", {"id": 3})]),
    ({"data": {"id": 3}, "metadata": {"operation": "delete"}}, [("delete", {"id": 3})]),
]  # fmt: skip


@pytest.mark.parametrize(("form", "told"), [("maxwell", MAXWELL), ("dms", DMS)])
def test_maxwell_and_dms_are_understood(form: str, told: list[tuple[Any, list[Any]]]) -> None:
    found = decoded([one for one, _ in told], form=form)
    assert changes(found) == [change for _, meant in told for change in meant]
    assert found.skipped == sum(not meant for _, meant in told)
    assert not found.rejects.num_rows


def test_all_at_once_means_what_one_by_one_means(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen, slow = random.Random(5), []
    columns = [field("id", "int64"), field("s", "string")]
    columns += [field(name, kind, logical) for name, (kind, logical, _, _) in EXACT.items()]
    columns.append(field("m", "bytes", DECIMAL, parameters={"scale": "3"}))
    values = [text(_made_up(chosen, columns)) for _ in range(600)]
    wanted = [
        (change.operation, text_of(change.row))
        for one in values
        for change in decode(SHAPES["debezium"], one, None, WANTED)
    ]
    monkeypatch.setattr(decoder, "decode", lambda *given: slow.append(1) or decode(*given))
    found = EnvelopeDecoder(Envelopes("debezium", WANTED)).decode(events(values))
    assert [(word, json.loads(row)) for word, row in wanted] == changes(found)
    assert missing() or 0 < len(slow) < len(values) // 2  # without the core all are decoded one by one


def _made_up(chosen: random.Random, columns: list[dict[str, Any]]) -> Any:
    def row() -> dict[str, Any]:
        told = {name: chosen.choice([given, None]) for name, (_, _, given, _) in EXACT.items()}
        for name in ("infinity", "negative_time"):
            told[name] = None if chosen.random() < 0.95 else told[name]
        told["micros"] = chosen.randrange(-(10**16), 10**17)
        told["m"] = chosen.choice([None, unscaled(chosen.randrange(-(10**20), 10**20))])
        return {"id": chosen.randrange(3), "s": chosen.choice(["é", '"', "\\", "\n", None, "{"]), **told}

    operation = chosen.choice("cud")
    one = envelope(operation, row() if operation in "ud" else None, row() if operation in "cu" else None)
    return wrapped(columns, one) if chosen.random() < 0.8 else one

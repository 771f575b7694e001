"""Columns of tables that are made from envelopes with a schema are of the types that the connector says."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calve.columns.evolve import plan_evolution
from calve.columns.fields import Fields
from calve.columns.infer import Inferred, UnknownColumns, infer
from calve.convert.converter import Converter, ConvertOptions
from calve.event.columns import SCHEMA
from calve.event.envelope.decoder import EnvelopeDecoder, Envelopes
from calve.table.definition import schema_from_columns
from event.envelope.debezium import envelope, field, text, unscaled, wrapped
from kit.examples import examples
from kit.tables import table_of

DECIMAL = "org.apache.kafka.connect.data.Decimal"
VARIABLE = "io.debezium.data.VariableScaleDecimal"
_VARIABLE_FIELDS = {"fields": [field("scale", "int32"), field("value", "bytes")]}
_POINT = {"fields": [field("x", "double"), field("wkb", "bytes"), field("srid", "int32")]}


def _precise(precision: str, scale: str) -> dict[str, Any]:
    return {"parameters": {"scale": scale, "connect.decimal.precision": precision}}


def _map(keys: str, values: dict[str, Any]) -> dict[str, Any]:
    return {"keys": {"type": keys, "optional": False}, "values": values}


def rows(*values: Any) -> pa.Table:
    """Decode envelopes, given as columns and a row each, or as a row alone."""
    told = [
        wrapped(one[0], envelope("c", None, one[1])) if isinstance(one, tuple) else envelope("c", None, one)
        for one in values
    ]
    events = pa.table({"event": pa.array(map(text, told), pa.binary())})
    return EnvelopeDecoder(Envelopes("debezium")).decode(events).rows


def columns(inferred: Inferred) -> dict[str, str]:
    return {each.name: str(each.field_type) for each in inferred.to_schema().fields}


@pytest.mark.parametrize(
    ("column", "value", "expected"),
    [
        (field("v", "boolean"), True, "boolean"), (field("v", "int8"), 1, "int"), (field("v", "int16"), 1, "int"),
        (field("v", "int32"), 1, "int"), (field("v", "int64"), 1, "long"), (field("v", "float"), 1.5, "float"),
        (field("v", "double"), 1, "double"), (field("v", "string"), "x", "string"), (field("v", "bytes"), "AA==", "binary"),
        (field("v", "int32", "io.debezium.time.Date"), 1, "date"), (field("v", "int32", "io.debezium.time.Year"), 1999, "int"),
        (field("v", "int32", "org.apache.kafka.connect.data.Date"), 1, "date"),
        (field("v", "int64", "io.debezium.time.Timestamp"), 1, "timestamp"),
        (field("v", "int64", "io.debezium.time.MicroTimestamp"), 1, "timestamp"),
        (field("v", "int64", "org.apache.kafka.connect.data.Timestamp"), 1, "timestamp"),
        (field("v", "string", "io.debezium.time.ZonedTimestamp"), "2026-01-01T00:00:00Z", "timestamptz"),
        (field("v", "string", "io.debezium.time.IsoTimestamp"), "2026-01-01T00:00:00Z", "timestamp"),
        (field("v", "string", "io.debezium.time.IsoDate"), "2026-01-01Z", "date"),
        # Spark reads no table with a time, or with nanoseconds.
        (field("v", "int64", "io.debezium.time.NanoTimestamp"), 1, "string"),
        (field("v", "int64", "io.debezium.time.MicroTime"), 1, "string"),
        (field("v", "int32", "org.apache.kafka.connect.data.Time"), 1, "string"),
        (field("v", "int64", "io.debezium.time.MicroDuration"), 1, "long"),
        (field("v", "bytes", DECIMAL, **_precise("12", "2")), unscaled(1), "decimal(12, 2)"),
        (field("v", "bytes", DECIMAL, parameters={"scale": "3"}), unscaled(1), "decimal(38, 3)"),
        (field("v", "bytes", DECIMAL, **_precise("5", "-2")), unscaled(1), "decimal(7, 0)"),
        (field("v", "bytes", DECIMAL, **_precise("65", "30")), unscaled(1), "string"),
        (field("v", "bytes", DECIMAL, parameters={"scale": "40"}), unscaled(1), "string"),
        (field("v", "struct", VARIABLE, **_VARIABLE_FIELDS), {"scale": 1, "value": unscaled(15)}, "string"),
        (field("v", "string", "io.debezium.data.Uuid"), "f" * 32, "uuid"), (field("v", "string", "io.debezium.data.Json"), "{}", "string"),
        (field("v", "string", "io.debezium.data.Enum", parameters={"allowed": "a,b"}), "a", "string"),
        (field("v", "bytes", "io.debezium.data.Bits", parameters={"length": "9"}), "AA==", "binary"),
        (field("v", "struct", "io.debezium.data.geometry.Point", **_POINT), {"x": 1, "wkb": "AA==", "srid": None},
         "struct<2: x: optional double, 3: wkb: optional binary, 4: srid: optional int>"),
        (field("v", "array", items=field("", "int32", "io.debezium.time.Date")), [1], "list<date>"),
        (field("v", "array", items=field("", "int32")), [], "list<int>"),
        (field("v", "map", **_map("string", field("", "int32"))), {"a": 1}, "map<string, int>"),
        (field("v", "map", **_map("int32", field("", "int32"))), [[1, 1]], "map<int, int>"),
    ],
)  # fmt: skip
def test_a_column_is_of_the_type_that_the_schema_says_and_takes_the_decoders_values(column, value, expected):
    # the column's type does not depend on a value being there, and the same schema says it whatever the value is
    events = rows(([column], {"v": value}), ([column], {"v": None}))
    found = infer(events)
    assert columns(found) == columns(infer(events.slice(1))) == {"v": expected}
    table = table_of(found.to_schema())
    converted = Converter(table, ConvertOptions(look_for_unknown=True, on_type_mismatch="dlq")).convert(events)
    assert (len(converted.rows), len(converted.rejects), converted.unknown) == (2, 0, None)
    assert converted.rows["v"].null_count == 1


A, B, C = field("a", "int32"), field("b", "int64", "io.debezium.time.MicroTimestamp"), field("c", "string")
WIDE = [field("a", "int64"), field("b", "int64", "io.debezium.time.Timestamp"), C]
OTHER = [field("a", "bytes", DECIMAL, **_precise("12", "2")), field("b", "int32", "io.debezium.time.Date")]


def test_a_schema_that_changes_within_a_batch_leaves_the_columns_of_both_versions_and_the_wider_types():
    narrow = ([A, B], {"a": 1, "b": 1_000})
    wide = (WIDE, {"a": 2**40, "b": 1, "c": None})
    assert columns(infer(rows(narrow, wide))) == {"a": "long", "b": "timestamp", "c": "string"}
    odd = (OTHER, {"a": unscaled(150), "b": 1})
    assert columns(infer(rows(narrow, odd))) == {"a": "decimal(12, 2)", "b": "string"}
    assert columns(infer(rows(wide, odd))) == {"a": "decimal(21, 2)", "b": "string", "c": "string"}


def test_events_without_a_schema_join_as_what_they_look_like():
    with_schema = ([A, B, C], {"a": 1, "b": 1_000, "c": None})
    assert columns(infer(rows(with_schema, {"a": 7, "d": 1.5}))) == {
        "a": "long", "b": "timestamp", "c": "string", "d": "double",
    }  # fmt: skip
    assert [infer(rows(*each)).is_declared for each in ([with_schema], [with_schema, {"a": 7}], [{"a": 7}])] == [
        True,
        False,
        False,
    ]
    assert columns(infer(rows({"c": None, "b": None, "a": None}, with_schema))) == {
        "a": "int", "b": "timestamp", "c": "string",
    }  # fmt: skip


def test_fields_that_the_schema_does_not_name_are_inferred_at_any_depth():
    point = field("p", "struct", fields=[field("x", "double")])
    [nested] = infer(rows(([point], {"p": {"x": 1, "y": True}}))).to_schema().fields
    assert str(nested.field_type) == "struct<2: x: optional double, 3: y: optional boolean>"
    assert columns(infer(rows(([C], {"c": None, "n": 1})))) == {"c": "string", "n": "long"}
    told = rows(([C], {"c": None, "n": 1}))
    assert columns(infer(told, Fields(exclude=frozenset({"n"})))) == {"c": "string"}


def test_new_columns_of_a_table_are_of_the_types_that_the_schema_says_and_those_it_has_stay():
    table = table_of(schema_from_columns([{"name": "a", "type": "string"}]))
    inside = field("p", "struct", fields=[field("born", "int32", "io.debezium.time.Date")])
    events = rows(([A, B, C, inside], {"a": 1, "b": 1_000, "c": None, "p": {"born": 1}}))
    found = UnknownColumns(table.schema, ConvertOptions()).find(events).fields
    assert found is not None
    added = {each.name: each.kind for each in plan_evolution(table, found.root).add}
    assert {name: kind for name, kind in added.items() if name != "p"} == {"b": "timestamp", "c": "string"}
    assert [(each["name"], each["type"]) for each in added["p"]["fields"]] == [("born", "date")]


def test_a_delete_that_only_the_records_key_tells_of_has_the_keys_schema():
    key = text({"schema": {"type": "struct", "fields": [field("id", "int32")]}, "payload": {"id": 1}}).decode()
    events = pa.table({"event": pa.array([text(envelope("d"))], pa.binary()), "kafka_key": pa.array([key])})
    assert columns(infer(EnvelopeDecoder(Envelopes("debezium")).decode(events).rows)) == {"id": "int"}


_VERSIONS = [[A], [A, B], WIDE, OTHER, [C, A], [field("d", "array", items=field("", "float"))]]
_VALUES = {"a": ["AQ==", 1], "b": [1], "c": ["x"], "d": [[1.5], []]}


@settings(max_examples=examples(40), deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 12))
def test_columns_do_not_depend_on_how_events_are_divided_over_tasks(seed, count):
    chosen = random.Random(seed)
    told: list[Any] = []
    for _ in range(count):
        version = chosen.choice(_VERSIONS)
        row = {each["field"]: chosen.choice([None, chosen.choice(_VALUES[each["field"]])]) for each in version}
        row |= {"e": chosen.choice([1, 1.5, "x"])} if chosen.random() < 0.2 else {}
        told.append(row if chosen.random() < 0.3 else (version, row))
    events = rows(*told)
    cut = chosen.randrange(len(events) + 1)
    whole, first, second = infer(events), infer(events.slice(0, cut)), infer(events.slice(cut))
    assert whole == first.merge(second) == msgspec.json.decode(msgspec.json.encode(whole.encodable()), type=Inferred)


def test_batches_of_one_decoder_join_although_it_has_met_more_schemas_since():
    decoder = EnvelopeDecoder(Envelopes("debezium"))
    batches = [
        decoder.decode(
            pa.table({"event": pa.array([text(wrapped(one, envelope("c", None, {"a": None})))], pa.binary())})
        )
        for one in ([A], WIDE, [A])
    ]
    joined = pa.concat_tables([one.rows for one in batches]).combine_chunks()
    assert joined[SCHEMA].null_count == 0
    assert columns(infer(joined)) == {"a": "long", "b": "timestamp", "c": "string"}


def test_columns_that_may_be_null_are_widened_where_the_schema_says_so_and_no_value_asks_for_it():
    columns = [("id", "int", True), ("a", "int", False), ("f", "float", False), ("d", "decimal(9,2)", False)]
    told = [{"name": name, "type": kind, "required": required} for name, kind, required in columns]
    table = table_of(schema_from_columns([*told, {"name": "s", "type": "string"}]))
    wide = [field("id", "int64"), field("a", "int64"), field("f", "double"), field("s", "int64")]
    wide.append(field("d", "bytes", DECIMAL, **_precise("12", "2")))
    same = [field("id", "int32"), field("a", "int32"), field("d", "bytes", DECIMAL, **_precise("12", "3"))]
    converter = Converter(table, ConvertOptions(look_for_unknown=True))
    values = {"id": 1, "a": 2, "f": 1.5, "s": 1, "d": unscaled(1)}
    assert converter.convert(rows((same, {"id": 1, "a": 2, "d": None}), {"id": 1, "a": 2})).unknown is None
    found = converter.convert(rows((same, {"id": 1, "a": 2}), (wide, values))).unknown
    assert found
    evolution = plan_evolution(table, msgspec.json.decode(msgspec.json.encode(found.encodable()), type=Inferred).root)
    assert evolution.add == []
    assert sorted(evolution.widen) == [("a", "long"), ("d", "decimal(12, 2)"), ("f", "double")]
    excluding = ConvertOptions(look_for_unknown=True, fields=Fields(exclude=frozenset({"a", "f", "d"})))
    assert Converter(table, excluding).convert(rows((wide, values))).unknown is None
    assert Converter(table).convert(rows((wide, values))).unknown is None


def test_a_field_that_cannot_become_a_column_rejects_only_the_events_that_have_a_value_in_it():
    table = table_of(schema_from_columns([{"name": "a", "type": "int"}]))
    told = [A, field("_row_id", "string"), C]
    events = rows((told, {"a": 1, "_row_id": None, "c": None}), (told, {"a": 2, "_row_id": "x", "c": "y"}))
    converted = Converter(table, ConvertOptions(look_for_unknown=True)).convert(events)
    assert [(each["row"], each["code"]) for each in converted.rejects.to_pylist()] == [(1, "AMBIGUOUS_FIELD")]
    assert [each.name for each in plan_evolution(table, converted.unknown.root).add] == ["c"]

"""Rows that rules let through are those for which SQL says the same, by the core, the exact converter and typed rows."""

from __future__ import annotations

import json
import random
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from pyiceberg import types as iceberg
from pyiceberg.schema import Schema

from calve.columns.row_rule import RowRule
from calve.compiled import events as core
from calve.convert.converter import ConvertedEvents, Converter, ConvertOptions
from calve.convert.row_checks import rule_fault
from calve.event.columns import EVENT, TYPED
from calve.event.reject import Code
from calve.expression import compile_condition
from calve.table.schema import VariantType
from kit.tables import plain_rows, table_of

PLACE = iceberg.StructType(iceberg.NestedField(20, "city", iceberg.StringType(), required=False))
KINDS: dict[str, iceberg.IcebergType] = {
    "id": iceberg.LongType(),
    "i": iceberg.IntegerType(),
    "x": iceberg.DoubleType(),
    "f": iceberg.FloatType(),
    "d": iceberg.DecimalType(20, 3),
    "s": iceberg.StringType(),
    "b": iceberg.BooleanType(),
    "day": iceberg.DateType(),
    "clock": iceberg.TimeType(),
    "at": iceberg.TimestamptzType(),
    "u": iceberg.UUIDType(),
    "tags": iceberg.ListType(21, iceberg.StringType(), element_required=False),
    "place": PLACE,
}
SCHEMA = Schema(
    *(iceberg.NestedField(n, name, kind, required=False) for n, (name, kind) in enumerate(KINDS.items(), 1))
)
UUIDS = ["00000000-0000-0000-0000-00000000000a", "10000000-0000-0000-0000-00000000000b"]
VALUES: dict[str, list[Any]] = {
    "i": [0, 1, -5, 2**31 - 1],
    "x": [0.1, -0.0, 1e300, "NaN", "Infinity", "-Infinity", 0.30000000000000004],
    "f": [0.1, 0.5, "NaN"],
    "d": ["0.100", 0.1, -1, "12345678901234567.890"],
    "s": ["", "new", "é𝄞", "a\nb", "NEW", "x" * 20, "日本語"],
    "b": [True, False],
    "day": ["2026-01-01", "1969-12-31", "0001-01-01"],
    "clock": ["00:00:00", "23:59:59.999999"],
    "at": ["2026-01-01T00:00:00Z", "2026-01-01T00:00:00.000001+01:00"],
    "u": UUIDS,
    "tags": [[], ["a"], ["a", None, "b"]],
    "place": [{"city": "Bern"}, {"city": None}, {}],
}
NOT_COMPARED = "unique is for texts, whole numbers, decimals, booleans, UUIDs, dates, times and binary values"
WHEN = '/s == "new" or /i > 0'
RULES: dict[str, tuple[RowRule, str]] = {
    "not null": (RowRule("r", "i", not_null=True), "i is not null"),
    "int range": (RowRule("r", "i", minimum="0", maximum="1"), "i between 0 and 1"),
    "double": (RowRule("r", "x", minimum="0.1"), "not isnan(x) and x >= 0.1::double"),
    "no NaN": (RowRule("r", "x", maximum="Infinity"), "not isnan(x)"),
    "float": (RowRule("r", "f", minimum="0.1", maximum="0.1"), "f = 0.1::float"),
    "decimal": (
        RowRule("r", "d", minimum="0.1", maximum="12345678901234567.89"),
        "d between 0.1 and 12345678901234567.89",
    ),
    "texts": (RowRule("r", "s", among=("new", "é𝄞", "")), "s in ('new', 'é𝄞', '')"),
    "ints": (RowRule("r", "i", among=("1", "-5")), "i in (1, -5)"),
    "decimals": (RowRule("r", "d", among=("0.1",)), "d = 0.1"),
    "booleans": (RowRule("r", "b", among=("true",)), "b"),
    "days": (RowRule("r", "day", among=("2026-01-01",)), "day = date '2026-01-01'"),
    "uuids": (RowRule("r", "u", among=(UUIDS[0].upper(),)), f"u::varchar = '{UUIDS[0]}'"),
    "pattern": (RowRule("r", "s", matches="[a-z]*|.b"), "regexp_full_match(s, '[a-z]*|.b')"),
    "length": (RowRule("r", "s", min_length=1, max_length=3), "length(s) between 1 and 3"),
    "elements": (RowRule("r", "tags", min_length=1), "len(tags) >= 1"),
    "day range": (RowRule("r", "day", minimum="1970-01-01"), "day >= date '1970-01-01'"),
    "clock": (RowRule("r", "clock", maximum="12:00:00"), "clock <= time '12:00:00'"),
    "time": (RowRule("r", "at", minimum="2026-01-01T00:00:00Z"), "plain.at >= timestamptz '2026-01-01 00:00:00+00'"),
    "nested": (
        RowRule("r", "place.city", not_null=True, among=("Bern",)),
        "place.city is not null and place.city = 'Bern'",
    ),
    "when": (
        RowRule("r", "d", not_null=True, when=compile_condition(WHEN)),
        "d is not null or not coalesce(s = 'new' or i > 0, s is not distinct from 'new' or false)",
    ),
    "condition": (
        RowRule("r", condition=(compile_condition("/i < /d"), "/i < /d")),
        "coalesce(i < d, false)",
    ),
}


def events_of(seed: int, count: int = 60) -> list[dict[str, Any]]:
    rnd = random.Random(seed)
    return [
        {"id": n, **{name: rnd.choice([*values, None]) for name, values in VALUES.items() if rnd.random() < 0.9}}
        for n in range(count)
    ]


def json_rows(events: list[dict[str, Any]]) -> pa.Table:
    return pa.table({EVENT: pa.array([json.dumps(event).encode() for event in events], pa.binary())})


def convert(rows: pa.Table, *rules: RowRule, schema: Schema = SCHEMA, **options: Any) -> ConvertedEvents:
    return Converter(table_of(schema), ConvertOptions(rules=rules, **options)).convert(rows)


def followers(rows: pa.Table, sql: str) -> list[int]:
    plain = rows.set_column(rows.column_names.index("u"), "u", rows["u"].cast(pa.binary(16)))
    texts = pa.array([None if u is None else str(u) for u in rows["u"].to_pylist()], pa.string())
    plain = plain.set_column(plain.column_names.index("u"), "u", texts)
    with duckdb.connect() as connection:
        connection.execute("set timezone = 'UTC'")
        connection.register("plain", plain)
        found = connection.execute(f"select id from plain where coalesce({sql}, true) order by id").fetchall()
    return [number for (number,) in found]


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize("path", ["core", "exact", "typed"])
def test_rows_that_a_rule_lets_through_are_those_of_sql(name: str, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rule, sql = RULES[name]
    if path == "exact":
        monkeypatch.setattr(core, "load", lambda: None)
    for seed in range(3):
        rows = json_rows(events_of(seed))
        without = convert(rows)
        if path == "typed":
            columns = [without.rows[column].combine_chunks() for column in without.rows.column_names if column != "u"]
            names = [column for column in without.rows.column_names if column != "u"]
            rows = pa.table({TYPED: pa.StructArray.from_arrays(columns, names)})
            without = convert(rows)
            assert len(without.rows) == 60
        checked = convert(rows, rule)
        kept = followers(without.rows, sql)
        assert checked.rows["id"].to_pylist() == kept
        assert set(checked.rejects["code"].to_pylist()) <= {"EXPECTATION_FAILED"}
        assert sorted([*checked.rejects["row"].to_pylist(), *kept]) == list(range(60))
        assert checked.failed_rules == {"r": 60 - len(kept)}
        if path != "typed" or name != "uuids":
            assert 0 < len(kept) < 60, "the rule decides something"
        expected = [row for row in plain_rows(without.rows) if row["id"] in set(kept)]
        assert repr(plain_rows(checked.rows)) == repr(expected)


COMPARED = ["i", "d", "s", "b", "day", "clock", "at", "u", "place.city"]


@pytest.mark.parametrize("names", [*((name,) for name in COMPARED), ("i", "s"), ("day", "at", "b"), ("u", "d")])
def test_of_rows_with_the_same_values_in_a_batch_the_first_that_is_written_passes(names: tuple[str, ...]) -> None:
    rules = (
        RowRule("u", names[0], unique=names, when=compile_condition("/b == null or /b == true")),
        RowRule("low", "i", minimum="0"),
        RowRule("small", "d", maximum="1", on_failure="null"),
    )
    sql = f"""with written as (select *, {", ".join(f"t.{name} as key{n}" for n, name in enumerate(names))} from (select plain.*
        replace (case when d > 1 then null else d end as d) from plain) as t where coalesce(i >= 0, true)),
        counted as (select *, row_number() over (partition by {", ".join(f"key{n}" for n in range(len(names)))},
          coalesce(b, true) order by id) as number from written)
        select id from counted where number = 1 or not coalesce(b, true) or
          {" or ".join(f"key{n} is null" for n in range(len(names)))} order by id"""
    for seed in range(3):
        rows = json_rows(events_of(seed, 90))
        without = convert(rows).rows
        texts = pa.array([None if u is None else str(u) for u in without["u"].to_pylist()], pa.string())
        plain = without.set_column(without.column_names.index("u"), "u", texts)
        with duckdb.connect() as connection:
            connection.register("plain", plain)
            expected = [number for (number,) in connection.execute(sql).fetchall()]
        converter = Converter(table_of(SCHEMA), ConvertOptions(rules=rules))
        parts = [converter.convert(rows.slice(start, 23)) for start in range(0, 90, 23)]
        assert [number for part in parts for number in part.rows["id"].to_pylist()] == expected
        failed = sum(part.failed_rules["u"] for part in parts)
        low = sum(part.failed_rules["low"] for part in parts)
        assert failed + low == 90 - len(expected)
        assert failed > 0


def test_a_repetition_is_tagged_or_loses_its_value_and_values_of_the_next_batch_are_new() -> None:
    rows = json_rows([{"id": number, "s": text} for number, text in enumerate(["a", "b", "a", None, None, "a"])])
    for on_failure, values in (("null", ["a", "b", None, None, None, None]), ("tag", ["a", "b", "a", None, None, "a"])):
        for _ in range(2):
            kept = convert(rows, RowRule("once", "s", unique=("s",), on_failure=on_failure))  # type: ignore[arg-type]
            assert kept.rows["s"].to_pylist() == values
            assert kept.failed_rules == {"once": 2}
    found = convert(rows, RowRule("once", unique=("s", "gone")))
    assert (len(found.rows), found.failed_rules) == (6, {"once": 0})
    found = convert(rows, RowRule("once", "s", unique=("s",), on_failure="fail"))
    assert found.rejects.to_pylist()[0] == {
        "row": 2,
        "code": "EXPECTATION_STOPS",
        "field": "s",
        "reason": "rule once: s must be unique in the batch",
    }


def test_values_that_cannot_be_compared_do_not_follow_unique() -> None:
    found = convert(json_rows([{"id": 0, "x": 1.5}, {"id": 1}]), RowRule("r", "x", unique=("x",)))
    assert [(one["row"], one["reason"]) for one in found.rejects.to_pylist()] == [
        (0, f"rule r: x must be unique in the batch ({NOT_COMPARED}, and x is a double)")
    ]


def test_a_value_of_each_type_becomes_null() -> None:
    schema = Schema(*SCHEMA.fields, iceberg.NestedField(40, "v", VariantType(), required=False))
    event = {"id": 1, **{name: values[-1] for name, values in VALUES.items()}, "v": {"a": 1}}
    for name in schema.column_names:
        if "." not in name:
            rule = RowRule("r", name, condition=(compile_condition("/i == 1"), ""), on_failure="null")
            kept = convert(json_rows([{**event, "i": 1}, {**event, "i": 2}, {**event, "i": 1}]), rule, schema=schema)
            assert kept.rows[name].is_null().to_pylist() == [False, True, False], name
            assert kept.failed_rules == {"r": 1}


def test_null_comes_before_other_rules_and_a_tag_names_all_rules_of_a_row() -> None:
    rules = (
        RowRule("has_i", "i", not_null=True, on_failure="tag"),
        RowRule("short", "s", max_length=3, on_failure="tag"),
        RowRule("small", "i", maximum="9", on_failure="null"),
        RowRule("real", "x", minimum="0"),
    )
    events = [{"id": 0, "i": 10, "s": "long"}, {"id": 1, "i": 1}, {"id": 2, "s": "long", "x": -1}]
    tagged = Schema(*SCHEMA.fields, iceberg.NestedField(30, "why", iceberg.StringType(), required=False))
    found = convert(json_rows(events), *rules, schema=tagged, metadata=(("why", "failed_rules"),))
    assert found.rows.select(["id", "i", "why"]).to_pylist() == [
        {"id": 0, "i": None, "why": "has_i, short"},
        {"id": 1, "i": 1, "why": None},
    ]
    assert found.failed_rules == {"small": 1, "has_i": 1, "short": 1, "real": 1}
    assert found.rejects.to_pylist() == [
        {"row": 2, "code": "EXPECTATION_FAILED", "field": "x", "reason": "rule real: x must be at least 0"}
    ]


def test_of_several_broken_rules_the_first_is_the_reason() -> None:
    rules = RowRule("one", "i", not_null=True), RowRule("two", "s", not_null=True, on_failure="fail")
    found = convert(json_rows([{"id": 0}, {"id": 1, "i": 1}]), *rules)
    assert found.rejects["code"].to_pylist() == [Code.EXPECTATION_FAILED, Code.EXPECTATION_STOPS]
    assert found.failed_rules == {"one": 1, "two": 1}


def test_a_column_that_a_table_lacks_is_null_but_a_rule_of_many_tables_is_for_those_that_have_it() -> None:
    rows = json_rows([{"id": 0, "gone": 1}])
    assert convert(rows, RowRule("r", "gone", not_null=True)).failed_rules == {"r": 1}
    assert convert(rows, RowRule("r", "gone", maximum="0")).failed_rules == {"r": 0}
    assert convert(rows, RowRule("r", "gone", not_null=True, is_of_many=True)).failed_rules == {}


def test_a_value_of_a_type_that_a_rule_is_not_for_does_not_follow_it() -> None:
    found = convert(json_rows([{"id": 0, "s": "12"}, {"id": 1}]), RowRule("r", "s", minimum="1"))
    assert found.rejects["reason"].to_pylist() == [
        "rule r: s must be at least 1 (min is for numbers, dates and times, and s is a string)"
    ]


def test_a_required_column_never_becomes_null() -> None:
    schema = Schema(iceberg.NestedField(1, "id", iceberg.LongType(), required=True))
    found = convert(json_rows([{"id": 5}]), RowRule("r", "id", maximum="1", on_failure="null"), schema=schema)
    assert found.rejects["code"].to_pylist() == ["EXPECTATION_FAILED"]


@pytest.mark.parametrize(
    ("rule", "fault"),
    [
        (RowRule("r", "i", minimum="0.5"), "0.5 is no int"),
        (RowRule("r", "d", among=("1", "0.0001")), "0.0001 is no decimal(20, 3)"),
        (RowRule("r", "day", maximum="soon"), "soon is no date"),
        (RowRule("r", "x", maximum="NaN"), "max is NaN"),
        (RowRule("r", "i", matches="1"), "matches is for texts, and i is a int"),
        (RowRule("r", "place", among=("1",)), "in is for texts, numbers"),
        (RowRule("r", "b", minimum="false"), "min is for numbers, dates and times"),
        (RowRule("r", "b", max_length=2), "max_length is for texts and lists"),
        (RowRule("r", "s", matches="a", on_failure="null"), "s cannot be NULL"),
        (RowRule("r", when=compile_condition("/v/a > 1")), "an expression cannot read v: a variant"),
        (RowRule("r", "i", minimum="1"), None),
        (RowRule("r", unique=("i", "tags")), f"{NOT_COMPARED}, and tags is a list<string>"),
        (RowRule("r", unique=("id", "gone", "place.city")), None),
        (RowRule("r", "s", unique=("s",), on_failure="null"), "s cannot be NULL"),
    ],
)
def test_a_rule_that_a_table_cannot_have_is_known(rule: RowRule, fault: str | None) -> None:
    schema = Schema(*SCHEMA.fields, iceberg.NestedField(40, "v", VariantType(), required=False))
    found = rule_fault(rule, schema, keys=["s"])
    assert found is None if fault is None else found and found.startswith(fault)


def test_rows_of_a_rule_that_cannot_be_read_are_rejected_with_the_reason() -> None:
    schema = Schema(*SCHEMA.fields, iceberg.NestedField(40, "v", VariantType(), required=False))
    rule = RowRule("r", "s", among=("a",), when=compile_condition("/v/a == 1"))
    found = convert(json_rows([{"id": 0, "s": "b", "v": {"a": 1}}]), rule, schema=schema)
    assert found.rejects["reason"].to_pylist() == [
        "rule r: s must be one of a (an expression cannot read v: a variant)"
    ]

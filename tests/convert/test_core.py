"""The core takes what certainly fits, gives what the exact converter gives, and loses nothing to what is no JSON."""

from __future__ import annotations

import datetime
import random
from collections import Counter
from collections.abc import Callable

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg.schema import Schema
from pyiceberg.types import ListType, LongType, MapType, NestedField, StructType

from calve.arrays import storage_type
from calve.columns.core_spec import table_spec
from calve.columns.fields import Fields
from calve.columns.infer import UnknownColumns, infer
from calve.columns.node import Kind, Node
from calve.columns.unknown_fields import UnknownFields
from calve.compiled import events as core
from calve.convert.converter import ConvertedEvents, Converter, ConvertOptions
from calve.convert.exact import Exact
from calve.event.reject import encodable, rejects_table
from calve.event.validate_json import validated
from calve.table.arrow_schema import arrow_schema
from calve.table.definition import schema_from_columns
from convert.events import Maker
from convert.random_values import mutated, random_value, shown, spoiled, stamp
from kit.compiled_core import needs_core
from kit.examples import examples
from kit.tables import plain_rows, table_of

FLAT = [{"name": "s", "type": "string"}, {"name": "n", "type": "int"}, {"name": "d", "type": "double"}]
NESTED = [*FLAT, {"name": "list", "type": "list<string>"}]
GOOD = '{"s":"x","n":1,"d":0.5}'


KINDS = [
    "boolean", "int", "long", "float", "double", "decimal(9,2)", "decimal(38,10)", "date", "time", "timestamp",
    "timestamptz", "timestamp_ns", "timestamptz_ns", "string", "uuid", "binary", "fixed[3]", "list<int>",
    "map<string, double>", "struct<a: long, b: list<string>>",
]  # fmt: skip


def convert(converter: Converter, *events: str) -> ConvertedEvents:
    return converter.convert(pa.table({"event": pa.array([event.encode() for event in events], pa.binary())}))


NO_JSON = [
    '{"s":"x","n":1,}',
    '{"s":"x","n":1 , \t}',
    '{"s":"x","n":1,\n} ',
    '{"s":nan,"n":1}',
    '{"s":NaN}',
    '{"s":-NAN,"n":1}',
    '{"s":inf}',
    '{"s":-iNf}',
    '{"s":Infinity,"n":1}',
    '{"s":-INFINITY}',
    '{"d":nan}',
    '{"s":"x","other":NaN}',
    '{"s":"x","other":[1,]}',
    '{"s":"x","other":{"a":-Infinity}}',
    '{"n":null,"other":[nan]}',
    '{"s":"x"',
    '{"s":"x"}}',
    '{"s":"x"}]',
    '{"s":',
    "no JSON at all",
    " ",
    "",
    "}",
]


@pytest.mark.parametrize("columns", [FLAT, NESTED], ids=["flat", "nested"])
@pytest.mark.parametrize("event", NO_JSON)
def test_what_is_no_json_is_malformed_and_spoils_no_other_event(columns, event):
    converter = Converter(table_of(schema_from_columns(columns)), ConvertOptions(look_for_unknown=True))
    for _ in range(3):  # what it met before makes the converter look closer
        found = convert(converter, GOOD, event, GOOD)
        assert [(one["row"], one["code"]) for one in found.rejects.to_pylist()] == [(1, "MALFORMED")]
        assert found.row.to_pylist() == [0, 2]
        assert [(row["s"], row["n"]) for row in plain_rows(found.rows)] == [("x", 1)] * 2


@needs_core
def test_events_that_do_not_certainly_fit_are_left():
    good = [
        GOOD,
        '{"s":[1.50, {"a" :1}],"n":"7","d":-0}',
        ' {"s" : null,"other":[{"x":1,"x":2}]}\n',
        '{"in":{"n":1,"new":{"x":1}},"more":1,"s":"\\ud83d\\ude00"}',
    ]
    left = [
        '{"s":"x","n":1,"d":"much"}',
        '{"s":"x","n":true}',
        '{"n":2147483648}',
        '{"s":"x","n":1,"n":2}',
        '{"s":"x","\\u006e":1,"n":2}',
        '{"s":{"a":1,"a":2}}',
        '{"in":{"new":1,"new":2}}',
        '{"s":"x","other":1,"other":2}',
        '{"s":"\\ud800"}',
        '{"in":{"n":true}}',
        '{"in":[]}',
        '{"other":1}',
        '{"s":"x","other":' + "[" * 250 + "]" * 250 + "}",
        *NO_JSON,
    ]
    columns = [*FLAT, {"name": "in", "type": "struct<n: int>"}]
    schema = schema_from_columns(columns)
    converter = core.converter(table_spec(schema, ConvertOptions(on_type_mismatch="dlq")), arrow_schema(schema))
    assert converter is not None
    for _ in range(3):
        found = converter.convert(pa.array([*left, *good, None, *left, b"\xc3"], pa.binary()))
        assert found is not None
        assert found.rows.tolist() == list(range(len(left), len(left) + len(good)))
        assert found.columns.to_pylist() == [
            {"s": "x", "n": 1, "d": 0.5, "in": None},
            {"s": '[1.50,{"a":1}]', "n": 7, "d": -0.0, "in": None},
            {"s": None, "n": None, "d": None, "in": None},
            {"s": "😀", "n": None, "d": None, "in": {"n": 1}},
        ]
        unknown = {
            row: found.fields[number] for row, number in zip(found.unknown_rows.tolist(), found.sets, strict=True)
        }
        assert unknown == {len(left) + 2: ("other",), len(left) + 3: ("in.new", "more")}


@needs_core
def test_a_name_that_looks_like_another_object_is_that_name_alone():
    name = 'a":1,"b'
    schema = Schema(NestedField(1, name, LongType()), NestedField(2, "b", LongType()))
    found = convert(Converter(table_of(schema)), '{"a":1,"b":2}', '{"a\\":1,\\"b":3}')
    assert plain_rows(found.rows) == [{name: None, "b": 2}, {name: 3, "b": None}]


@needs_core
def test_names_of_a_stream_without_end_are_forgotten_and_read_again():
    options = ConvertOptions(count_ignored=True)
    converter = Converter(table_of(schema_from_columns(FLAT)), options)
    for batch in range(5):
        events = [f'{{"s":"x","k{batch}_{number}":1}}' for number in range(1500)]
        found = convert(converter, *events)
        assert len(found.rows) == 1500
        assert sum(found.ignored.values()) == 1500


@needs_core
def test_fields_that_are_left_out_cost_no_event_the_core_however_many_their_names_are():
    schema = schema_from_columns([*FLAT, {"name": "u", "type": "unknown"}])
    options = ConvertOptions(fields=Fields(include=frozenset({"s", "u"})))
    converter = core.converter(table_spec(schema, options), arrow_schema(schema))
    for _ in range(2):
        texts = [f'{{"s":"x","k{number}":1,"n":"much","u":null}}' for number in range(6000)]
        found = converter.convert(pa.array(texts))
        assert (len(found.rows), found.columns["s"].null_count, found.columns["n"].null_count) == (6000, 0, 6000)
        found.columns.validate(full=True)


@needs_core
@pytest.mark.parametrize("digits", [6, 9])
def test_date_times_are_read_as_one_by_one(digits):
    rnd = random.Random(digits)
    texts = [stamp(rnd, digits) for _ in range(examples(8_000))]
    texts = [spoiled(rnd, text) if rnd.random() < 0.3 else text for text in texts]
    kinds = {"t": "timestamp_ns" if digits == 9 else "timestamp", "day": "date"}
    schema = schema_from_columns([{"name": name, "type": kind} for name, kind in kinds.items()])
    assert_same(schema, [f'{{"t":{text}}}' for text in texts], least=0.1)
    days = [f'{text[:11]}{rnd.choice(["", "T00:00Z", " 00:00:00.000"])}"' for text in texts]
    assert_same(schema, [f'{{"day":{text}}}' for text in days], least=0.1)


@needs_core
@pytest.mark.parametrize("kind", KINDS)
def test_values_are_what_the_exact_converter_makes_of_them(kind):
    rnd = random.Random(kind)
    schema = schema_from_columns([{"name": "v", "type": kind}])
    texts = [random_value(rnd) for _ in range(examples(5_000))]
    for unit in ("ms", "auto") if kind.startswith("timestamp") else ("ms",):
        assert_same(schema, [f'{{"v":{text}}}' for text in texts], ConvertOptions(timestamp_unit=unit))


@needs_core
@settings(max_examples=examples(40))
@given(seed=st.integers(0, 2**32), ci=st.booleans())
def test_what_the_core_takes_is_what_the_exact_converter_gives(seed, ci):
    maker = Maker(random.Random(seed))
    schema = maker.schema()
    texts = [maker.event(schema) for _ in range(50)]
    options = ConvertOptions(case_insensitive=ci, count_ignored=True)
    assert_same(schema, [mutated(random.Random(f"{seed}{n}"), text) for n, text in enumerate(texts)], options)


def thinned(rnd, kind):
    """Return a type without some of its structs' fields."""
    match kind:
        case StructType():
            kept = [field for field in kind.fields if rnd.random() < 0.6] or kind.fields[:1]
            fields = [NestedField(one.field_id, one.name, thinned(rnd, one.field_type), one.required) for one in kept]
            return StructType(*fields)
        case ListType():
            return ListType(kind.element_id, thinned(rnd, kind.element_type), kind.element_required)
        case MapType():
            return MapType(
                kind.key_id, kind.key_type, kind.value_id, thinned(rnd, kind.value_type), kind.value_required
            )
    return kind


@needs_core
def test_new_fields_that_conversion_saw_are_those_that_a_second_look_finds():
    counts = Counter()
    for seed in range(examples(150)):
        rnd = random.Random(seed)
        maker = Maker(rnd)
        whole = maker.schema()
        schema = Schema(*thinned(rnd, whole.as_struct()).fields)
        options = ConvertOptions(look_for_unknown=True, case_insensitive=rnd.random() < 0.3)
        converter = Converter(table_of(schema), options)
        for _ in range(3):
            rows = pa.table({"event": pa.array([maker.event(whole) for _ in range(rnd.randint(1, 6))], pa.binary())})
            once = converter.convert(rows)
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(UnknownColumns, "of_fields", lambda *_: counts.update(["seen"]))
                again = Converter(table_of(schema), options).convert(rows)
            assert repr(once.unknown) == repr(again.unknown)
            assert once.rejects == again.rejects
            counts["new"] += once.unknown is not None
    assert counts["seen"] > 0.3 * counts["new"] > 0


def assert_same(schema, texts, options=ConvertOptions(), least=0.0):  # noqa: B008
    """Compare what becomes of events with the core and by the exact converter alone; the core takes at least a share."""
    converter = core.converter(table_spec(schema, options), arrow_schema(schema))
    if converter is None:
        return
    events = pa.array([text if isinstance(text, bytes | None) else text.encode() for text in texts], pa.binary())
    taken = converter.convert(events)
    assert taken is not None
    taken.columns.validate(full=True)
    assert len(taken.rows) >= least * len(texts)
    found = Converter(table_of(schema), options).convert(pa.table({"event": events}))
    exact = Exact(schema, options).convert(enumerate(events.to_pylist()))
    assert found.row.to_pylist() == exact.rows
    for number, column in enumerate(found.rows.combine_chunks().columns):
        values = pa.array(exact.columns[number], storage_type(column.type)).cast(column.type)
        assert shown(column) == shown(values)
    assert found.rejects.to_pylist() == rejects_table(exact.rejects).to_pylist()
    assert found.nulled == Counter(column for _, (column, _) in exact.nulled)
    assert found.reasons == {column: encodable(reason) for _, (column, reason) in reversed(exact.nulled)}
    assert found.ignored == UnknownFields.of(exact.ignored).counts()


@needs_core
def test_a_value_that_does_not_fit_costs_no_event_the_core_where_it_is_null():
    columns = [*FLAT, {"name": "r", "type": "int", "required": True}, {"name": "day", "type": "date"}]
    schema = schema_from_columns(columns)
    options = ConvertOptions(
        on_type_mismatch="dlq", declared=frozenset({"n", "day"}), timestamp_formats=("dd.MM.yyyy",)
    )
    events = [
        '{"s":"x","n":["much"],"d":0.5,"r":1,"day":"24.12.2026"}',
        '{"r":2,"n":"much","day":"2026-12-25"}',
        '{"n":{"a":1,"b":"\\u00e9"},"r":3,"s":"y","day":"24.13.2026"}',
        '{"r":4,"day":"26.12.2026"}',
    ]
    taken = core.converter(table_spec(schema, options), arrow_schema(schema)).convert(pa.array(events))
    assert taken.rows.tolist() == [0, 1, 2, 3]
    assert taken.deferred.texts.to_pylist()[0] == b'["much"]'
    found = convert(Converter(table_of(schema), options), *events)
    day = [datetime.date(2026, 12, 24), datetime.date(2026, 12, 25), None, datetime.date(2026, 12, 26)]
    assert found.rows["day"].to_pylist() == day
    assert (found.nulled, found.rows["r"].to_pylist()) == ({"n": 3, "day": 1}, [1, 2, 3, 4])
    left = ['{"r":"x"}', '{"r":1,"d":"x"}', '{"r":1,"n":{"a":1,"a":2}}', '{"r":1,"n":"\\ud800"}', '{"r":1,"n":[1,}']
    taken = core.converter(table_spec(schema, options), arrow_schema(schema)).convert(pa.array(left))
    assert len(taken.rows) == 0


@pytest.mark.parametrize("mismatch", ["null", "dlq"])
def test_an_event_with_several_values_that_do_not_fit_is_one_reject_or_none(mismatch):
    columns = [*FLAT, {"name": "id", "type": "long", "required": True}]
    options = ConvertOptions(look_for_unknown=True, on_type_mismatch=mismatch)
    events = ['{"s":"x","n":"x","d":"x","id":1}', '{"n":"x","d":0.5,"id":"x","new":1}', '{"s":1.50,"d":"1e1","id":"7"}']
    found = convert(Converter(table_of(schema_from_columns(columns)), options), *events)
    good = [{"s": "x", "n": None, "d": None, "id": 1}] if mismatch == "null" else []
    assert plain_rows(found.rows) == [*good, {"s": "1.50", "n": None, "d": 10.0, "id": 7}]
    rejects = [(one["row"], one["code"], one["field"]) for one in found.rejects.to_pylist()]
    assert rejects == ([(1, "NOT_COERCIBLE", "id")] if good else [(0, "NOT_COERCIBLE", "n"), (1, "NOT_COERCIBLE", "n")])
    assert found.nulled == ({"n": 1, "d": 1} if good else {})
    assert found.unknown is None  # only a rejected event has a new field


@pytest.mark.parametrize("text", ["nan", "NaN", "-inf", "Infinity", "info", "Nina", "-", "12", "1e5", "0", "{", ""])
def test_a_string_stays_what_it_is_whatever_it_looks_like(text):
    converter = Converter(table_of(schema_from_columns(FLAT)))
    for event in (f'{{"s":"{text}"}}', f'{{ "s" : "{text}" }} ', f'{{"other":1,"s":"{text}"}}'):
        assert [row["s"] for row in plain_rows(convert(converter, event, GOOD).rows)] == [text, "x"]


class Broken:
    """A library of which every function fails, as after a panic."""

    def __getitem__(self, name: str):
        return Failing()

    def calve_core_is_checked(self) -> bool:
        return False


class Failing:
    argtypes = None

    def __call__(self, *_) -> int:
        return -1


@needs_core
def test_where_the_core_fails_the_exact_converter_does_its_work_and_the_failure_is_counted(monkeypatch):
    converter = Converter(table_of(schema_from_columns(FLAT)), ConvertOptions(look_for_unknown=True))
    monkeypatch.setattr(core, "_library", Broken)
    core.failures()
    found = convert(converter, GOOD, '{"n":1,"new":2}')
    assert [row["n"] for row in plain_rows(found.rows)] == [1, 1]
    assert list(found.unknown.root.fields) == ["new"]
    assert len(validated(pa.table({"event": pa.array([GOOD.encode()])})).rows) == 1
    assert (core.failures(), core.failures()) == (3, 0)


@needs_core
@settings(max_examples=examples(40))
@given(seed=st.integers(0, 2**32), ci=st.booleans())
def test_the_core_infers_what_python_infers(seed, ci):
    rnd = random.Random(seed)
    maker = Maker(rnd)
    schema = maker.schema()
    made = [maker.event(schema) for _ in range(20)] + [f'{{"v":{random_value(rnd)},"é":1}}' for _ in range(20)]
    rnd.shuffle(made)
    events = [mutated(random.Random(f"{seed}{n}"), text) for n, text in enumerate(made[: rnd.randrange(1, 40)])]
    rows = pa.table({"event": pa.array(events, pa.binary())})
    options = ConvertOptions(case_insensitive=ci, column_limit=rnd.choice([3, 1000]))
    assert found_fields(rows, schema, options) == without_core(lambda: found_fields(rows, schema, options))


def found_fields(rows: pa.Table, schema: Schema, options: ConvertOptions) -> tuple:
    """Return what is inferred, and what a table lacks; fields of one struct in their order."""
    lacks = UnknownColumns(schema, options).find(rows)
    rejects = [(each.row, each.code) for each in lacks.rejects]
    return msgspec.json.encode(infer(rows).root.encodable()), by_struct(lacks.fields.root), sorted(rejects)


def by_struct(node: Node) -> object:
    """Return a node so that the order of columns that exist does not count: only new fields have one."""
    known = {name: by_struct(each) for name, each in node.fields.items() if each.kind is Kind.KNOWN}
    return known, [
        (name, msgspec.json.encode(each.encodable()))
        for name, each in node.fields.items()
        if each.kind is not Kind.KNOWN
    ]


def without_core(work: Callable[[], object]) -> object:
    """Do something as if there were no core."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(core, "load", lambda: None)
        return work()

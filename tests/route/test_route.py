import json
import random

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calve.compiled import events as core
from calve.convert.converter import Converter
from calve.event.validate_json import validated
from calve.expression import compile_condition, compile_format
from calve.route import route
from calve.route.by_table import ByTable
from calve.route.route import Router
from calve.route.sink_route import RouteGate, SinkRoute
from calve.route.source_tables import certain_targets
from calve.sources.source import SourceTable
from calve.table.definition import schema_from_columns
from calve.table.loaded import Table
from kit.compiled_core import needs_core
from kit.examples import examples


def batch(*events):
    return pa.table({"event": [json.dumps(e).encode() for e in events], "json": [json.dumps(e) for e in events]})


def router(*tables, routes=None):
    conditions = {name: compile_condition(text) for name, text in (routes or {}).items()}
    gates = [(RouteGate("p", conditions, names),) if names else () for _, names in tables]
    return Router([SinkRoute(compile_format(table), gate) for (table, _), gate in zip(tables, gates, strict=True)])


def parts(routed):
    return {(sink, name): None if rows is None else rows.to_pylist() for sink, name, rows in routed.parts}


def test_one_static_table_needs_no_look_at_the_events():
    found = router(("a.b", ()))
    assert found.is_static
    assert parts(found.route(batch({}, {}))) == {(0, "a.b"): None}


def test_each_event_goes_to_the_table_that_it_names_in_its_order():
    routed = router(("db.${/t}", ())).route(batch({"t": "x"}, {"t": "y"}, {"t": "x"}, {"t": 3}))
    assert parts(routed) == {(0, "db.x"): [0, 2], (0, "db.y"): [1], (0, "db.3"): [3]}
    assert routed.unrouted == 0


@pytest.mark.parametrize("with_core", [True, False])
@given(pairs=st.lists(st.tuples(st.sampled_from(["k", "o"]), st.sampled_from(["x", "y", "z"])), min_size=1, max_size=5))
@settings(max_examples=examples(25), deadline=None)
def test_of_a_repeated_key_the_table_and_the_column_are_made_of_the_same_value_which_is_the_last(with_core, pairs):
    text = "{" + ",".join(f'"{key}":"{value}"' for key, value in [("k", "a"), *pairs]) + "}"
    events = pa.table({"event": pa.array([text.encode()], pa.binary())})
    schema = schema_from_columns([{"name": "k", "type": "string"}])
    table = Table("t", "u", "/t", schema.model_dump_json(), '{"spec-id":0,"fields":[]}')
    with pytest.MonkeyPatch.context() as patch:
        if not with_core:
            patch.setattr(core, "load", lambda: None)
        [(_, name, _)] = router(("db.${/k}", ())).route(validated(events).rows).parts
        [row] = Converter(table).convert(events).rows.to_pylist()
    last = ([("k", "a")] + [pair for pair in pairs if pair[0] == "k"])[-1][1]
    assert (name, row["k"]) == (f"db.{last}", last)


def test_an_empty_or_malformed_name_is_a_reject_with_its_reason():
    routed = router(("db.${/t}", ())).route(batch({}, {"t": "a/b"}, {"t": "ok"}, {"t": None}))
    rejects = routed.rejects[0].to_pylist()
    lacking = "the name needs a value of t, which is missing, null or empty"
    assert {(each["row"], each["code"]) for each in rejects} == {
        (0, "NO_FIELD"),
        (1, "BAD_TABLE_NAME"),
        (3, "NO_FIELD"),
    }
    assert {each["reason"] for each in rejects if each["code"] == "NO_FIELD"} == {lacking}
    assert parts(routed) == {(0, "db.ok"): [2]}


@pytest.mark.parametrize(
    ("text", "event", "code"),
    [
        ("shop.${/kind}", {"kind": "../orders"}, "BAD_TABLE_NAME"),
        ("shop.${/kind}", {"kind": " "}, "BAD_TABLE_NAME"),
        ("shop.${/kind}", {"kind": ""}, "NO_FIELD"),
        ("${/ns}.${/t}", {"ns": "a"}, "NO_FIELD"),
        ("shop.t_${/kind}", {}, "NO_FIELD"),
        ("shop.t_${/kind}", {"kind": None}, "NO_FIELD"),
        ("shop.${/kind}_t", {"kind": ""}, "NO_FIELD"),
        ("shop.t_${kind}_${/n}", {"kind": "a"}, "NO_FIELD"),
        ("shop.t_${/a/b}", {"a": {}}, "NO_FIELD"),
        ("shop.t_${a b}", {"a": 1}, "NO_FIELD"),
        ("shop.t_${length(/a)}", {}, "EXPRESSION_ERROR"),
        ('shop.t_${getMetadata("topic")}', {}, "NO_FIELD"),
        ("${/ns}.${/t}", {"ns": "a", "t": "b/c"}, "BAD_TABLE_NAME"),
        ("${/t}", {"t": "no_namespace"}, "BAD_TABLE_NAME"),
    ],
)
def test_a_name_needs_every_value_and_a_bad_one_is_not_called_missing(text, event, code):
    [rejects] = router((text, ())).route(batch(event)).rejects.values()
    assert [each["code"] for each in rejects.to_pylist()] == [code]


def test_a_bare_name_that_an_event_lacks_is_no_field():
    routed = router(("db.${t}", ())).route(batch({"t": "x"}, {"u": 1}))
    assert [(each["row"], each["code"]) for each in routed.rejects[0].to_pylist()] == [(1, "NO_FIELD")]


def test_routes_share_events_out_and_default_takes_what_is_left():
    found = router(
        ("a.errors", ("errors",)), ("a.rest", ("_default",)), ("a.all", ()), routes={"errors": "/status >= 500"}
    )
    routed = found.route(batch({"status": 500}, {"status": 200}, {"status": "x"}))
    assert parts(routed) == {(0, "a.errors"): [0], (1, "a.rest"): [1, 2], (2, "a.all"): None}
    assert routed.unrouted == 0


def test_events_that_no_sink_takes_are_counted():
    routed = router(("a.errors", ("errors",)), routes={"errors": "/status >= 500"}).route(batch({"status": 1}, {}))
    assert (parts(routed), routed.unrouted) == ({}, 2)


def test_a_dynamic_name_behind_a_route_keeps_the_positions_of_the_batch():
    found = router(("a.${/t}", ("big",)), routes={"big": "/n > 1"})
    routed = found.route(batch({"n": 1, "t": "x"}, {"n": 2, "t": "y"}, {"n": 3, "t": ""}, {"n": 4, "t": "y"}))
    assert parts(routed) == {(0, "a.y"): [1, 3]}
    assert routed.rejects[0].column("row").to_pylist() == [2]
    assert routed.unrouted == 1


def test_an_event_for_one_sink_only_goes_to_no_other_and_counts_as_unrouted_when_that_one_does_not_take_it():
    rows = batch({"t": 1}, {"t": 1}, {"t": 2}).append_column("for_sink", pa.array([0, None, 1], pa.int32()))
    routed = router(("a.b", ()), ("c.${/t}", ())).route(rows)
    assert parts(routed) == {(0, "a.b"): [0, 1], (1, "c.1"): [1], (1, "c.2"): [2]}
    routed = router(("a.b", ("one",)), ("c.d", ("one",)), routes={"one": "/t == 1"}).route(rows)
    assert parts(routed) == {(0, "a.b"): [0, 1], (1, "c.d"): [1]}
    assert routed.unrouted == 1


NAMES = st.lists(st.sampled_from(["one", "two", "_default"]), min_size=1, max_size=3, unique=True).map(tuple)


@given(st.lists(st.tuples(st.sampled_from("ab"), NAMES), max_size=3))
def test_an_event_passes_when_it_passes_every_gate_and_default_is_what_is_left_at_its_own(gates):
    conditions = {
        field: {name: compile_condition(f"/{field} == {number}") for number, name in enumerate(("one", "two"), 1)}
        for field in "ab"
    }
    events = [{"a": a, "b": b} for a in (1, 2, 3) for b in (1, 2, None)]
    route = SinkRoute(compile_format("x.y"), tuple(RouteGate("p", conditions[field], names) for field, names in gates))
    routed = Router([route]).route(batch(*events))
    words = {1: "one", 2: "two"}
    passed = [n for n, one in enumerate(events) if all(words.get(one[f], "_default") in names for f, names in gates)]
    found = parts(routed).get((0, "x.y"), [])
    assert (list(range(len(events))) if found is None else found) == passed
    assert routed.unrouted == len(events) - len(passed)


TEXTS = ["${/a}", "t_${/a/b}_${c}", "${toJsonString()}", "${length(/a)}", "${/x~1y}"]
CONDITIONS = ["/a == 1", "/a/b != null and /c == null", "/c > 1.5 or not (/a == /c)", '/b == "1"']
VALUES = [
    "1",
    "1.0",
    "null",
    '"x"',
    '"\\u0031"',
    "[1]",
    '{"b":2}',
    '{"b": [ 1 , {"a":1}]}',
    "1e400",
    '"\\u0000"',
    '"\\ud800"',
]


@needs_core
@settings(max_examples=examples(25))
@given(seed=st.integers(0, 2**32))
def test_events_are_routed_by_the_few_fields_as_by_the_whole_event(seed):
    rnd = random.Random(seed)
    names = ['"a"', '"c"', '"\\u0061"', '"x/y"', '"é"', '"other"']
    fields = [[f"{name} : {rnd.choice(VALUES)}" for name in names if rnd.random() < 0.5] for _ in range(50)]
    texts = [rnd.choice(["{", ""]) + "{" + ",".join(each) + "}" for each in fields]
    events = pa.table({"event": pa.array([text.encode() for text in texts])})
    conditions = {name: compile_condition(name) for name in rnd.sample(CONDITIONS, 2)}
    gate = RouteGate("p", conditions, (rnd.choice([*conditions, "_default"]),))
    sinks = [SinkRoute(compile_format(rnd.choice(TEXTS)), (gate,)), SinkRoute(compile_format(rnd.choice(TEXTS)))]
    router = Router(sinks)
    routed = [parts_of(router.route(validated(events, asked or ()).rows)) for asked in (router.fields, None)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(core, "load", lambda: None)
        routed.append(parts_of(router.route(validated(events).rows)))
    assert routed[0] == routed[1] == routed[2]


def parts_of(routed):
    return parts(routed), {number: each.to_pylist() for number, each in routed.rejects.items()}, routed.unrouted


PARTS = ['${getMetadata("topic")}', '${getMetadata("n")}', "t", '${getMetadata("none")}']
OPERATIONS = ["insert", "delete", "U", "odd", "update_before", None]
METADATA_CONDITIONS = ['getMetadata("topic") == "x"', 'getMetadata("n") > 1 or getMetadata("topic") == null']


@settings(max_examples=examples(25))
@given(seed=st.integers(0, 2**32))
def test_events_with_few_values_of_metadata_are_routed_as_each_alone(seed):
    rnd = random.Random(seed)
    count, topics = rnd.randint(1, 60), rnd.sample(["x", "y", "", "a/b", None], rnd.randint(1, 3))
    rows = pa.table(
        {
            "topic": pa.array(rnd.choices(topics, k=count), pa.string()),
            "n": pa.array(rnd.choices(rnd.sample([1, 2, None], rnd.randint(1, 3)), k=count), pa.int64()),
            "operation": pa.array(rnd.choices(rnd.sample(OPERATIONS, rnd.randint(1, 3)), k=count), pa.string()),
            "for_sink": pa.array([rnd.choice([None, 0]) for _ in range(count)], pa.int32()),
        }
    ).select(rnd.choice([["topic", "n", "operation"], ["topic", "n", "operation", "for_sink"]]))
    known = ("topic", "n", "operation")
    conditions = {name: compile_condition(name, known) for name in METADATA_CONDITIONS}
    gates = [(), (RouteGate("p", conditions, (rnd.choice([*conditions, "_default"]),)),)]
    operation = rnd.choice([None, compile_format('${getMetadata("operation")}', known)])
    texts = [f"db.{''.join(rnd.sample(PARTS, 2))}" for _ in range(2)]
    router = Router([SinkRoute(compile_format(text, known), rnd.choice(gates), ByTable(operation)) for text in texts])
    whole, alone = outcomes(router, rows), [outcomes(router, rows.slice(at, 1)) for at in range(count)]
    assert whole == [one for each in alone for one in each]


@settings(max_examples=examples(25), deadline=None)
@given(seed=st.integers(0, 2**32))
def test_what_only_joins_texts_and_metadata_is_the_same_without_sql(seed):
    rnd = random.Random(seed)
    count, words = rnd.randint(1, 40), [*OPERATIONS, "", " delete", "DELETE", "Update_After", "ünknown"]
    rows = pa.table(
        {
            "topic": pa.array(rnd.choices(["x", "y", "", "a/b", "é", None], k=count), pa.string()),
            "operation": pa.array(rnd.choices(words, k=count), pa.string()),
        }
    )
    operation = rnd.choice([None, compile_format('${getMetadata("operation")}', rows.column_names)])
    text = "".join(
        rnd.sample(
            ["db.", '${getMetadata("topic")}', "-$", '${ getMetadata("operation") }', '${getMetadata("none")}'], 3
        )
    )
    one = Router([SinkRoute(compile_format(text, rows.column_names), operation=ByTable(operation))])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(route.duckdb_session, "run", None)
        plain = outcomes(one, rows)
        patch.undo()
        patch.setattr(route, "joined", lambda *_, **__: None)
        assert outcomes(one, rows) == plain


def outcomes(router, rows):
    """Return what becomes of each row: its tables, its rejects, its operations."""
    routed = router.route(rows)
    found = [[] for _ in range(len(rows))]
    for sink, name, at in routed.parts:
        part = routed.rows(rows, sink, at)
        operations = part["_operation"].to_pylist() if "_operation" in part.column_names else [None] * len(part)
        for row, operation in zip(range(len(rows)) if at is None else at.to_pylist(), operations, strict=True):
            found[row].append((sink, name, operation))
    for sink, rejects in routed.rejects.items():
        for each in rejects.to_pylist():
            found[each["row"]].append((sink, each["code"], each["reason"]))
    return [sorted(each, key=str) for each in found]


OF_TABLE = ("table_name", "operation")
BY_NAME = {"audit": 'getMetadata("table_name") =~ "^audit.*"', "paid": "/paid == true"}


@pytest.mark.parametrize(
    ("text", "routes", "targets"),
    [
        ('db.${getMetadata("table_name")}', (), ["db.orders", "db.audit_1"]),
        ("db.all", (), ["db.all"]),
        ('db.${getMetadata("table_name")}', ("audit",), ["db.audit_1"]),
        ('db.${getMetadata("operation")}', (), []),
        ("db.${/id}", (), []),
        ("db.all", ("paid",), []),
        ("db.all", ("_default",), []),
    ],
)
def test_a_target_is_certain_if_the_table_of_a_row_decides_alone_that_it_goes_there(text, routes, targets):
    tables = [SourceTable(name, "u", "{}", {"table_name": name}) for name in ("orders", "audit_1")]
    conditions = {name: compile_condition(condition, OF_TABLE) for name, condition in BY_NAME.items()}
    conditions = conditions if "paid" in routes or "_default" in routes else {"audit": conditions["audit"]}
    gates = (RouteGate("p", conditions, routes),) if routes else ()
    assert certain_targets(SinkRoute(compile_format(text, OF_TABLE), gates), tables) == targets
    assert certain_targets(SinkRoute(compile_format(text, OF_TABLE), gates), []) == []


def test_a_bad_name_is_no_target_that_must_be_there_as_its_rows_are_rejected():
    tables = [SourceTable(name, "u", "{}", {"table_name": name}) for name in ("a/b", 'q"', " ", "fine")]
    text = compile_format('db.${getMetadata("table_name")}', OF_TABLE)
    assert certain_targets(SinkRoute(text), tables) == ["db.fine"]

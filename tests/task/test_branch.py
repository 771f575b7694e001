"""Connected pipelines with processors do what they would do one after the other; each sink can replay its dead letters."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from calve.dead_letters.letter_files import DeadLetter
from calve.dead_letters.replay.selection import ReplaySelection
from calve.event.columns import EVENT, MASKED, ORDER, PART, SINK, TYPED
from calve.event.dead_letter import letters
from calve.event.typed import with_text
from calve.pipeline.pipeline_parts import PipelineParts, sink_labels
from calve.pipeline.plugins import PLUGINS
from calve.record.target import TableRef
from calve.settings import parse_text
from calve.state.local_folder import LocalFolder
from calve.task.path import EventPath
from calve.task.step_clock import StepClock
from kit.examples import examples

YAML = """\
web:
  source: {http: {}}
  processor:
    - add_entries: {entries: [{key: by, value: web}]}
  route: [errors: /status >= 500]
  sink:
    - iceberg: {table_identifier: all.events, auto_create: true}
    - pipeline: {name: alarms, routes: [errors], exclude_keys: [password]}
alarms:
  source: {pipeline: {name: web}}
  processor:
    - convert_type: {key: status, type: string}
    - add_entries: {entries: [{key: by, value: alarms, overwrite_if_key_exists: true}, {key: level, value: high}]}
    - rename_keys: {entries: [{from_key: password, to_key: secret}]}
    - drop_events: {drop_when: '/host == "test"'}
  route: [fatal: '/status == "599"']
  sink:
    - iceberg: {table_identifier: alarms.fatal, auto_create: true, routes: [fatal]}
    - pipeline: {name: words}
words:
  source: {pipeline: {name: alarms}}
  processor:
    - split_event: {field: text, delimiter: " "}
    - convert_type: {key: number}
  sink:
    - iceberg: {table_identifier: "words.${/level}", auto_create: true}
"""


class Flow:
    """One run of the path of a pipeline, without catalogs: the events of each table, and the dead letters."""

    def __init__(self, text: str) -> None:
        [self.settings] = parse_text(text, PLUGINS).pipelines
        catalog = SimpleNamespace(properties={}, name="lakehouse")
        parts = PipelineParts(self.settings, LocalFolder(Path("state")), lambda properties: ("c", catalog))  # type: ignore[arg-type,return-value]
        self.job = parts.job("12345678", 1, 0, 0, None)
        self.letters: list[dict[str, Any]] = []
        self.path = EventPath(self.job, 0, self._reject, StepClock())

    def run(self, rows: pa.Table) -> dict[str, list[Any]]:
        tables: dict[str, list[Any]] = {}
        for routed in self.path.route(self.path.process(self.path.decode(rows))):
            for target, at in routed.shares:
                chosen = with_text(routed.rows if at is None else routed.rows.take(at))
                tables.setdefault(target.table, []).extend(map(json.loads, chosen[EVENT].to_pylist()))
        return tables

    def _reject(self, target: TableRef, events: pa.Table, rejects: pa.Table) -> None:
        labels = {"pipeline": "web", "sink": sink_labels(self.settings)[target.sink], "table": target.table}
        self.letters += letters(events, rejects, labels)

    def replayed(self) -> dict[str, list[Any]]:
        """Send all dead letters again; the events of each table."""
        numbers = {label: number for number, label in enumerate(sink_labels(self.settings))}
        fed = frozenset(number for number, sink in enumerate(self.settings.sinks) if sink.branch)
        selection = ReplaySelection("web", numbers, fed=fed)
        sent, self.letters = self.letters, []
        keys = ("code", "sink", "table", "field")
        sinks = [selection.sink(DeadLetter(**{key: letter[key] for key in keys}), "") for letter in sent]
        rows = events_of(*(json.loads(letter["event"]) for letter in sent))
        parts = [letter["metadata"].get(PART) for letter in sent]
        rows = rows.append_column(SINK, pa.array(sinks, pa.int32())).append_column(PART, pa.array(parts, pa.string()))
        if names := [letter["metadata"][MASKED] for letter in sent if MASKED in letter["metadata"]]:
            rows = rows.append_column(MASKED, pa.array(names).dictionary_encode())
        return self.run(rows)


def events_of(*events: Any) -> pa.Table:
    return pa.table({EVENT: pa.array([json.dumps(event).encode() for event in events], pa.binary())})


def test_each_pipeline_changes_only_what_comes_to_it() -> None:
    flow = Flow(YAML)
    events = [
        {"status": 200, "host": "a", "password": "p"},
        {"status": 599, "host": "a", "password": "p", "text": "x y", "number": "7"},
        {"status": 503, "host": "test"},
        {"status": 503, "host": "b"},
    ]
    tables = flow.run(events_of(*events))
    assert tables["all.events"] == [{**event, "by": "web"} for event in events]
    fatal = {"status": "599", "host": "a", "text": "x y", "number": "7", "by": "alarms", "level": "high"}
    assert tables["alarms.fatal"] == [fatal]
    rest = {"status": "503", "host": "b", "by": "alarms", "level": "high"}
    assert tables["words.high"] == [{**fatal, "text": "x", "number": 7}, {**fatal, "text": "y", "number": 7}, rest]
    assert (flow.path.counts.dropped, flow.path.counts.added, flow.path.counts.unrouted) == (1, 1, 0)
    assert not flow.letters


def test_a_dead_letter_of_a_fed_pipeline_has_the_original_event_and_is_replayed_for_its_sink_alone() -> None:
    flow = Flow(YAML)
    event = {"status": 599, "host": "a", "text": "x y", "number": "no"}
    assert {*flow.run(events_of(event))} == {"all.events", "alarms.fatal"}
    assert [json.loads(letter["event"]) for letter in flow.letters] == [event] * 2
    assert [(letter["sink"], letter["metadata"][PART]) for letter in flow.letters] == [
        ("words.iceberg", "//0"),
        ("words.iceberg", "//1"),
    ]
    assert flow.letters[0]["reason"].startswith("words: processor[1] convert_type: ")
    assert flow.replayed() == {}, "the number is still none"
    mended = Flow(YAML.replace("convert_type: {key: number}", "delete_entries: {with_keys: [number]}"))
    mended.letters = flow.letters
    assert [(word["text"], word["level"]) for word in mended.replayed()["words.high"]] == [("x", "high"), ("y", "high")]


def test_an_event_that_the_first_pipeline_cannot_process_is_replayed_for_all_sinks() -> None:
    text = YAML.replace("add_entries: {entries: [{key: by, value: web}]}", "convert_type: {key: status}")
    flow, mended = Flow(text), Flow(YAML.replace("/status >= 500", "true"))
    assert flow.run(events_of({"status": "none"})) == {}
    assert [letter["sink"] for letter in flow.letters] == ["iceberg"]
    mended.letters = flow.letters
    assert {*mended.replayed()} == {"all.events", "words.high"}
    without_own = text.replace("    - iceberg: {table_identifier: all.events, auto_create: true}\n", "")
    flow = Flow(without_own)
    flow.run(events_of({"status": "none"}))
    assert [letter["sink"] for letter in flow.letters] == ["alarms.iceberg", "words.iceberg"]
    mended.letters = flow.letters
    assert {*mended.replayed()} == {"words.high"}


def test_a_dead_letter_of_a_fed_pipeline_is_masked_and_a_replay_does_not_mask_it_again() -> None:
    mask = "processor:\n    - mask: {key: 0123456789abcdef, columns: [{names: [text, password], action: hash}]}"
    flow = Flow(YAML.replace("processor:", mask, 1))
    tables = flow.run(
        events_of({"status": 500, "host": "a", "password": "canary", "text": "canary", "number": "canary no"})
    )
    [secret] = {event["text"] for event in tables["all.events"]}
    assert "canary" not in secret
    [letter] = flow.letters
    assert letter["sink"] == "words.iceberg"
    assert json.loads(letter["event"]) == {
        "status": 500,
        "host": "a",
        "password": secret,
        "text": secret,
        "number": "canary no",
    }
    mended = Flow(
        YAML.replace("processor:", mask, 1).replace(
            "convert_type: {key: number}", "delete_entries: {with_keys: [number]}"
        )
    )
    mended.letters = flow.letters
    [word] = mended.replayed()["words.high"]
    assert word["text"] == secret


def test_tags_and_metadata_of_an_earlier_pipeline_are_known_to_later_ones() -> None:
    text = """\
web:
  source: {http: {}}
  processor:
    - add_entries: {entries: [{metadata_key: team, value: a, add_when: "/n == 1"}]}
    - convert_type: {key: n, type: integer, tags_on_failure: [odd]}
  sink: [pipeline: {name: next}]
next:
  source: {pipeline: {name: web}}
  processor:
    - add_entries: {entries: [{key: odd, value: true, add_when: 'hasTags("odd")'}]}
    - add_entries: {entries: [{metadata_key: team, value: b, overwrite_if_key_exists: false}]}
    - convert_type: {key: m, type: integer, tags_on_failure: [more]}
  route: [odd: 'hasTags("odd")', more: 'hasTags("more")']
  sink:
    - iceberg: {table_identifier: 't.${getMetadata("team")}', auto_create: true}
    - iceberg: {table_identifier: t.odd, auto_create: true, routes: [odd]}
    - iceberg: {table_identifier: t.more, auto_create: true, routes: [more]}
"""
    events = {"n": 1}, {"n": "x", "m": "y"}, {"n": 2, "m": "y"}
    odd = {"n": "x", "m": "y", "odd": True}
    tables = {"t.a": [{"n": 1}], "t.b": [odd, events[2]], "t.odd": [odd], "t.more": [odd, events[2]]}
    assert Flow(text).run(events_of(*events)) == tables


def test_parts_of_two_pipelines_that_split_are_replayed_one_by_one() -> None:
    text = """\
web:
  source: {http: {}}
  processor: [split_event: {field: a, delimiter: " "}]
  sink: [pipeline: {name: next}]
next:
  source: {pipeline: {name: web}}
  processor:
    - split_event: {field: b, delimiter: " "}
    - convert_type: {key: b}
  sink: [iceberg: {table_identifier: t.t, auto_create: true}]
"""
    flow = Flow(text)
    assert flow.run(events_of({"a": "p q", "b": "1 x"})) == {"t.t": [{"a": "p", "b": 1}, {"a": "q", "b": 1}]}
    assert [letter["metadata"][PART] for letter in flow.letters] == ["0/1", "1/1"]
    mended = Flow(text.replace("    - convert_type: {key: b}\n", ""))
    mended.letters = flow.letters
    assert mended.replayed() == {"t.t": [{"a": "p", "b": "x"}, {"a": "q", "b": "x"}]}


def test_typed_rows_stay_typed_through_all_pipelines() -> None:
    text = """\
web:
  source: {file: {path: "*.parquet"}}
  sink: [pipeline: {name: next, include_keys: [n]}]
next:
  source: {pipeline: {name: web}}
  processor: [rename_keys: {entries: [{from_key: n, to_key: m}]}]
  sink: [iceberg: {table_identifier: t.t, auto_create: true}]
"""
    flow = Flow(text)
    rows = pa.array([{"n": 1, "o": "x"}], pa.struct({"n": pa.int64(), "o": pa.string()}))
    [routed] = flow.path.route(flow.path.process(flow.path.decode(pa.table({TYPED: rows}))))
    assert routed.rows[TYPED].to_pylist() == [{"m": 1}]


def test_a_typed_row_that_a_fed_pipeline_cannot_read_as_text_is_a_dead_letter_of_its_sink() -> None:
    text = """\
web:
  source: {file: {path: "*.parquet"}}
  sink:
    - iceberg: {table_identifier: t.all, auto_create: true}
    - pipeline: {name: next}
next:
  source: {pipeline: {name: web}}
  processor: [lowercase_string: {with_keys: [n]}]
  sink: [iceberg: {table_identifier: t.t, auto_create: true}]
"""
    flow = Flow(text)
    values = pa.array([b"Good", b"\xff"], pa.binary()).view(pa.string())
    rows = pa.table({TYPED: pa.StructArray.from_arrays([values], ["n"])})
    parts = list(flow.path.route(flow.path.process(flow.path.decode(rows))))
    assert [
        sum(len(routed.rows) for routed in parts if routed.shares[0][0].table == table) for table in ("t.all", "t.t")
    ] == [2, 1]
    assert [(letter["sink"], letter["code"]) for letter in flow.letters] == [("next.iceberg", "MALFORMED")]


def test_changes_keep_their_order_behind_a_processor_that_splits() -> None:
    changes = "identifier_columns: [text], operation: UPSERT, auto_create: true"
    flow = Flow(YAML.replace("auto_create: true", changes).replace("operation: UPSERT", "upsert: true"))
    events = [{"status": 500, "text": "a b"}, {"status": 500, "text": "b c"}]
    orders = list[int]()
    for _ in range(2):
        for routed in flow.path.route(flow.path.process(flow.path.decode(events_of(*events)))):
            if routed.shares[0][0].table.startswith("words"):
                orders += routed.rows[ORDER].to_pylist()
    assert len(orders) == 8
    assert orders == sorted(set(orders))


_KEYS = st.sampled_from(["a", "b", "c"])
_PROCESSORS = st.lists(
    st.one_of(
        st.builds(lambda key: {"delete_entries": {"with_keys": [key]}}, _KEYS),
        st.builds(lambda key, to: {"copy_values": {"entries": [{"from_key": key, "to_key": to}]}}, _KEYS, _KEYS),
        st.builds(lambda key: {"drop_events": {"drop_when": f"/{key} == 1"}}, _KEYS),
        st.builds(lambda key: {"split_event": {"field": key, "delimiter": " "}}, _KEYS),
        st.builds(lambda key: {"convert_type": {"key": key}}, _KEYS),
    ),
    max_size=3,
)
_CONNECTOR = st.fixed_dictionaries(
    {},
    optional={
        "routes": st.lists(st.sampled_from(["one", "_default"]), min_size=1),
        "exclude_keys": st.lists(_KEYS, min_size=1),
    },
)
_EVENT = st.dictionaries(_KEYS, st.sampled_from([1, 2, "1", "x y", None]), max_size=3)


@settings(max_examples=examples(40), deadline=None)
@given(
    st.lists(_EVENT, max_size=5),
    st.tuples(_PROCESSORS, _PROCESSORS, _PROCESSORS),
    st.tuples(_CONNECTOR, _CONNECTOR),
    _KEYS,
    st.booleans(),
)
def test_connected_pipelines_are_the_same_pipelines_one_after_the_other(
    events: list[Any], processors: Any, connectors: Any, key: str, is_row: bool
) -> None:
    """The oracle: each pipeline alone, with a table in place of each connector, whose events the next one reads."""

    def pipeline(number: int, source: dict[str, Any], sinks: list[Any]) -> dict[str, Any]:
        return {"source": source, "processor": processors[number], "route": [{"one": f"/{key} == 2"}], "sink": sinks}

    def table(name: str, **keys: Any) -> dict[str, Any]:
        return {"iceberg": {"table_identifier": f"t.{name}", "auto_create": True, **keys}}

    before = [0, 0 if is_row else 1]
    after = {0: [1, 2], 1: []} if is_row else {0: [1], 1: [2]}
    connected = {
        f"p{number}": pipeline(
            number,
            {"pipeline": {"name": f"p{before[number - 1]}"}} if number else {"http": {}},
            [
                table(f"p{number}"),
                *({"pipeline": {"name": f"p{to}", **connectors[to - 1]}} for to in after.get(number, [])),
            ],
        )
        for number in range(3)
    }
    inputs, hidden, expected = {0: events}, {0: list[str]()}, dict[str, list[Any]]()
    for number in range(3):
        routes = [table(f"to{to}", routes=connectors[to - 1].get("routes", [])) for to in after.get(number, [])]
        alone = {"p": pipeline(number, {"http": {}}, [table(f"p{number}"), *routes])}
        tables = Flow(json.dumps(alone)).run(events_of(*inputs[number]))
        for to in after.get(number, []):
            sent = tables.pop(f"t.to{to}", [])
            hidden[to] = hidden[number] + connectors[to - 1].get("exclude_keys", [])
            if processors[to]:  # else they are only not written
                sent = [{name: value for name, value in event.items() if name not in hidden[to]} for event in sent]
                hidden[to] = []
            inputs[to] = sent
        expected |= tables
    actual = Flow(json.dumps(connected)).run(events_of(*events))
    assert _some(actual) == _some(expected)


def _some(tables: dict[str, list[Any]]) -> dict[str, list[Any]]:
    return {name: rows for name, rows in tables.items() if rows}

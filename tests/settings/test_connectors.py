"""Connectors: both ends must agree, and what is behind one becomes a part of the pipeline before it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calve.settings import FromPipeline, Parsed, Plugins, SettingsErrors, ToPipeline, parse, parse_text
from kit.examples import examples

from .conftest import EVERY

PLUGINS = Plugins(
    sources={**EVERY.sources, "pipeline": FromPipeline},
    sinks={**EVERY.sinks, "pipeline": ToPipeline},
    processors=EVERY.processors,
)
CHAIN = """\
c:
  source: {pipeline: {name: b}}
  sink: [strict: {name: c1}]
a:
  source: every
  route: [x: /x, y: /y]
  sink:
    - strict: {name: a1, routes: [y]}
    - pipeline: {name: b, routes: [x, _default], exclude_keys: [p, q]}
    - strict: {name: a2}
b:
  source: {pipeline: {name: a}}
  route: [x: /z]
  sink:
    - strict: {name: b1, routes: [_default]}
    - pipeline: {name: c, routes: [x]}
    - strict: {name: b2, include_keys: [q, r]}
other:
  source: every
  sink: [strict: {name: o}]
""".replace("source: every", "source: {every: {}}")


def read(text: str) -> Parsed:
    return parse_text(text, PLUGINS, name="f", environment={})


def refused(text: str) -> list[str]:
    with pytest.raises(SettingsErrors) as caught:
        read(text)
    return [line.removeprefix("f:") for line in str(caught.value).split("\n")]


def pipeline(name: str, source: str, *sinks: str) -> str:
    """Write a pipeline; a source that is no name of a plugin, and such sinks, are pipelines."""
    end = "every: {}" if source == "every" else f"pipeline: {{name: {source}}}"
    starts = [f"    - pipeline: {{name: {sink}}}" if sink else "    - strict: {name: here}" for sink in sinks]
    return "\n".join([f"{name}:", f"  source: {{{end}}}", "  sink:", *starts, ""])


def test_sinks_behind_connectors_are_sinks_of_the_first_pipeline_each_behind_all_gates() -> None:
    whole, other = read(CHAIN).pipelines
    assert (whole.name, whole.feeds, whole.title) == ("a", ("b", "c"), "a (feeds b, c)")
    assert (other.name, other.feeds, other.title) == ("other", (), "other")
    gates = {
        sink.value.name: [(gate.pipeline, dict(gate.conditions), gate.routes) for gate in sink.gates]
        for sink in whole.sinks
    }
    to_b = ("a", {"x": "/x", "y": "/y"}, ("x", "_default"))
    assert gates == {
        "a1": [("a", {"x": "/x", "y": "/y"}, ("y",))],
        "b1": [to_b, ("b", {"x": "/z"}, ("_default",))],
        "c1": [to_b, ("b", {"x": "/z"}, ("x",))],
        "b2": [to_b],
        "a2": [],
    }
    assert [(sink.pipeline, sink.path) for sink in whole.sinks] == [
        ("a", "sink[0].strict"),
        ("b", "sink[0].strict"),
        ("c", "sink[0].strict"),
        ("b", "sink[2].strict"),
        ("a", "sink[2].strict"),
    ]


def test_the_keys_of_all_sinks_on_the_way_hold() -> None:
    whole = read(CHAIN).pipelines[0]
    keys = {sink.value.name: (sink.include_keys, sink.exclude_keys) for sink in whole.sinks}
    assert keys["c1"] == ((), ("p", "q"))
    assert keys["b2"] == (("q", "r"), ("p", "q"))
    two = "a:\n  source: {every: {}}\n  sink: [pipeline: {name: b, include_keys: [x, y]}]\n"
    two += "b:\n  source: {pipeline: {name: a}}\n  sink: [strict: {name: s, %s}]\n"
    [joined] = read(two % "include_keys: [z, y]").pipelines
    assert joined.sinks[0].include_keys == ("y",)
    for nothing in ("include_keys: [z]", "exclude_keys: [y, x]"):
        [told] = refused(two % nothing)
        assert told == (
            "6:10: b.sink[0].strict: writes no field: include_keys and exclude_keys of this and earlier pipelines leave none"
        )


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            pipeline("orders", "every", "eror", "") + pipeline("errors", "orders", ""),
            [
                "4:24: orders.sink[0].pipeline.name: unknown pipeline 'eror'; did you mean errors? (known: errors)",
                "7:29: errors.source.pipeline.name: orders has no sink for this pipeline; "
                "add `- pipeline: {name: errors}` to its sinks",
            ],
        ),
        (
            pipeline("a", "every", "b") + pipeline("b", "every", ""),
            [
                "4:24: a.sink[0].pipeline.name: b reads its events from its own source, every; "
                "its source must be `pipeline: {name: a}`"
            ],
        ),
        (
            pipeline("a", "every", "b") + pipeline("b", "c", "") + pipeline("c", "every", "b"),
            ["4:24: a.sink[0].pipeline.name: b reads its events from c; its source must be `pipeline: {name: a}`"],
        ),
        (
            pipeline("a", "bb", "") + pipeline("b", "every", ""),
            ["2:29: a.source.pipeline.name: unknown pipeline 'bb'; did you mean b? (known: b)"],
        ),
        (
            pipeline("a", "every", "b", "b") + pipeline("b", "a", ""),
            ["5:24: a.sink[1].pipeline.name: b already receives these events; list all its routes in one sink"],
        ),
        (
            pipeline("a", "c", "b") + pipeline("b", "a", "c", "d") + pipeline("c", "b", "a") + pipeline("d", "b", ""),
            ["2:29: a.source.pipeline.name: the pipelines form a loop: a → b → c → a"],
        ),
        (pipeline("a", "a", "a"), ["2:29: a.source.pipeline.name: the pipelines form a loop: a → a"]),
    ],
)
def test_ends_that_do_not_meet_are_told_with_their_place(text: str, told: list[str]) -> None:
    assert refused(text) == told


PIPELINES = st.lists(
    st.tuples(
        st.sampled_from(["every", "p0", "p1", "p2", "p3"]),
        st.lists(st.sampled_from(["", "p0", "p1", "p2", "p3"]), max_size=3),
    ),
    min_size=1,
    max_size=4,
)


@settings(max_examples=examples(60), deadline=None)
@given(PIPELINES)
def test_pipelines_are_joined_without_loss_if_all_ends_meet_and_are_refused_if_not(ends: list[Any]) -> None:
    sources = {f"p{number}": source for number, (source, _) in enumerate(ends)}
    sent = [(f"p{number}", sink) for number, (_, sinks) in enumerate(ends) for sink in sinks if sink]
    taken = [(source, name) for name, source in sources.items() if source != "every"]
    text = "".join(pipeline(f"p{number}", source, *sinks, "") for number, (source, sinks) in enumerate(ends))
    if sorted(sent) != sorted(taken) or any(goes_round(name, sources) for name in sources):
        assert refused(text)
        return
    found = read(text).pipelines
    assert [one.name for one in found] == [name for name, source in sources.items() if source == "every"]
    assert sorted([*(one.name for one in found), *(name for one in found for name in one.feeds)]) == sorted(sources)
    sinks = [(sink.pipeline, sink.path) for one in found for sink in one.sinks]
    assert sorted(sinks) == sorted(
        (f"p{number}", f"sink[{place}].strict")
        for number, (_, sinks) in enumerate(ends)
        for place, sink in enumerate([*sinks, ""])
        if not sink
    )


def goes_round(name: str, sources: dict[str, str]) -> bool:
    met = set()
    while name in sources and name not in met:
        met.add(name)
        name = sources[name]
    return name in met


def test_connectors_are_told_together_with_all_else_that_is_wrong() -> None:
    text = pipeline("a", "every", "nowhere", "b") + pipeline("b", "a", "") + "    - strict: {nam: x}\n"
    told = refused(text)
    assert [line.split(": ")[1] for line in told] == [
        "a.sink[0].pipeline.name",
        "b.sink[1].strict.name",
        "b.sink[1].strict.nam",
    ]


def test_a_connector_that_cannot_be_read_is_told_alone() -> None:
    [told] = refused(pipeline("a", "every", "b").replace("{name: b}", "{}") + pipeline("b", "a", ""))
    assert told == "4:7: a.sink[0].pipeline.name: is required but missing"


def test_a_fed_pipeline_with_processors_is_a_branch_from_which_gates_and_keys_begin_anew() -> None:
    processor = "  processor: [strict: {name: %s}]\n"
    chain = CHAIN.replace("b:\n", f"b:\n{processor % 'of_b'}").replace("c:\n", f"c:\n{processor % 'of_c'}")
    [whole, _] = read(chain).pipelines
    assert [(branch.name, branch.upstream) for branch in whole.branches] == [("b", ""), ("c", "b")]
    b, c = whole.branches
    assert [plugin.value.name for plugin in (*b.processors, *c.processors)] == ["of_b", "of_c"]
    assert (b.exclude_keys, c.exclude_keys) == (("p", "q"), ())
    assert [[gate.routes for gate in branch.gates] for branch in (b, c)] == [[("x", "_default")], [("x",)]]
    sinks = {sink.value.name: sink for sink in whole.sinks}
    assert {name: sink.branch for name, sink in sinks.items()} == {"a1": "", "b1": "b", "c1": "c", "b2": "b", "a2": ""}
    assert {name: [gate.routes for gate in sink.gates] for name, sink in sinks.items() if sink.branch} == {
        "b1": [("_default",)],
        "c1": [],
        "b2": [],
    }
    assert (sinks["b2"].include_keys, sinks["b2"].exclude_keys) == (("q", "r"), ())
    routes = [("x", "_default"), ("x",)]
    assert [gate.routes for gate in whole.gates(sinks["c1"])] == routes


def test_a_chain_may_be_long_and_lie_in_several_files(tmp_path: Path) -> None:
    count = 1500
    links = [pipeline(f"p{n}", f"p{n - 1}" if n else "every", f"p{n + 1}", "") for n in range(count)]
    (tmp_path / "even.yaml").write_text("".join(links[::2]))
    (tmp_path / "odd.yaml").write_text("".join(links[1::2]) + pipeline(f"p{count}", f"p{count - 1}", ""))
    [whole] = parse(tmp_path, PLUGINS, environment={}).pipelines
    assert (len(whole.feeds), len(whole.sinks), whole.sinks[0].pipeline) == (count, count + 1, f"p{count}")

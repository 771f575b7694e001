"""Which source tables would be written to one target."""

from __future__ import annotations

import pytest

from calve.expression import compile_condition, compile_format
from calve.route.shared_targets import shared_targets
from calve.route.sink_route import RouteGate, SinkRoute
from calve.sources.source import SourceTable

NAMES = ("table_name", "schema_name", "gtid")
TABLES = [
    SourceTable(f"{schema}.{name}", "", "", {"schema_name": schema, "table_name": name})
    for schema, name in (("a", "t"), ("b", "t"), ("b", "u"))
]
ONLY_A, BY_FIELD = 'getMetadata("schema_name") == "a"', '/kind == "x"'


def gate(*conditions: str) -> tuple[RouteGate, ...]:
    """One gate for each condition that is not empty: those of connected pipelines."""
    return tuple(RouteGate("p", {"r": compile_condition(text, NAMES)}, ("r",)) for text in conditions if text)


@pytest.mark.parametrize(
    ("text", "condition", "expected"),
    [
        ('${getMetadata("table_name")}', "", [("t", ["a.t", "b.t"])]),
        ('${getMetadata("schema_name")}', "", [("b", ["b.t", "b.u"])]),
        ('${getMetadata("schema_name")}.${getMetadata("table_name")}', "", []),
        ("all", "", [("all", ["a.t", "b.t", "b.u"])]),
        ("all", ONLY_A, []),
        ("all", f"{BY_FIELD}; {ONLY_A}", []),
        ("all", f'{ONLY_A}; getMetadata("made_by_a_processor") == "x"', []),
        ("all", BY_FIELD, [("all", ["a.t", "b.t", "b.u"])]),
        ("${/field}", "", []),
        ('${getMetadata("gtid")}', "", []),
    ],
)
def test_targets_of_several_tables_are_found_as_far_as_the_tables_alone_decide_them(
    text: str, condition: str, expected: list[tuple[str, list[str]]]
) -> None:
    route = SinkRoute(compile_format(text, NAMES), gate(*condition.split("; ")))
    assert shared_targets([route], TABLES) == expected
    assert shared_targets([], TABLES) == []


def test_sinks_do_not_count_together() -> None:
    first, second = (SinkRoute(compile_format("all", NAMES), gate(f'getMetadata("table_name") == "{t}"')) for t in "tu")
    assert shared_targets([first, second], TABLES) == [("all", ["a.t", "b.t"])]

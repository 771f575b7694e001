"""An index has the name that Data Prepper would give it."""

from __future__ import annotations

import pyarrow as pa
import pytest

from calve.errors import SettingsError
from calve.event import duckdb_session
from calve.observe.log import Log
from calve.pipeline.plugins import PLUGINS, open_sink
from calve.route.route import Router
from calve.settings import parse_text
from calve.sinks.opensearch.index_name import check_index, dated, fault, normal, normal_sql, pattern
from calve.sinks.sink import Opening

MOMENT = 17_637_624_005  # 2025-11-21T22:00:00.5Z


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("logs", "logs"),
        ("logs-%{yyyy.MM.dd}", "logs-2025.11.21"),
        ("logs-%{yyyy-MM-dd'T'HH}", "logs-2025-11-21T22"),
        ("%{yy}-${/kind}", "25-${/kind}"),
        ("a-%{M.d.H}", "a-11.21.22"),
    ],
)
def test_the_date_is_the_batch_s_in_utc(text: str, shown: str) -> None:
    assert dated(text, MOMENT) == shown


@pytest.mark.parametrize(
    "text", ["", "Logs", "_logs", "-a", "a b", "a,b", "a/b", "x" * 256, "a-%{mm}", "a-%{}", "%{yy}%{dd}"]
)
def test_an_index_that_cannot_be_is_refused_at_validation(text: str) -> None:
    with pytest.raises(SettingsError):
        check_index(text)


def test_the_pattern_of_an_index_matches_all_its_names() -> None:
    assert pattern("logs-${/kind}-%{yyyy.MM.dd}") == "logs-*-*"
    assert pattern("${/kind}%{yyyy}") == "*"


@pytest.mark.parametrize("name", ["_Ab:c", "-x*Y", "plain", 'a/b\\c|d?e#f>g<h+i"j'])
def test_a_normal_name_is_validated_and_the_same_in_sql(name: str) -> None:
    found = normal(name)
    assert fault(found) is None
    assert (
        duckdb_session.run(f"SELECT {normal_sql('name')} AS name FROM names", names=pa.table({"name": [name]}))["name"][
            0
        ].as_py()
        == found
    )


@pytest.mark.parametrize("events", [1, 9])
def test_an_index_that_an_event_names_is_normalized_too(events: int) -> None:
    text = (
        "p:\n  source: {http: {port: 0}}\n"
        "  sink: [{opensearch: {hosts: ['http://h'], index: 'Logs-${/kind}', normalize_index: true}}]"
    )
    [entry] = parse_text(text, PLUGINS).pipelines[0].sinks
    sink = open_sink(Opening(entry, "s", {}, "/nowhere", None, Log("p")))  # type: ignore[arg-type]
    routed = Router([sink.job(1, 0, "", False).route]).route(pa.table({"json": ['{"kind":"Web*1"}'] * events}))
    assert [name for _, name, _ in routed.parts] == ["logs-web1"]


def test_a_name_of_which_nothing_is_left_is_not_called_a_missing_one() -> None:
    text = "p:\n  source: {http: {port: 0}}\n  sink: [{opensearch: {hosts: ['http://h'], index: '${/kind}', normalize_index: true}}]"
    [entry] = parse_text(text, PLUGINS).pipelines[0].sinks
    sink = open_sink(Opening(entry, "s", {}, "/nowhere", None, Log("p")))  # type: ignore[arg-type]
    route = sink.job(1, 0, "", False).route
    [rejects] = Router([route]).route(pa.table({"json": ['{"kind":"_**"}', "{}"]})).rejects.values()
    assert [(letter["row"], letter["code"]) for letter in rejects.to_pylist()] == [
        (1, "NO_FIELD"),
        (0, "BAD_TABLE_NAME"),
    ]

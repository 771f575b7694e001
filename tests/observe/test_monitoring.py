"""The alerting rules and the dashboard ask for metrics and labels that Calve has."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner
from prometheus_client import CollectorRegistry, generate_latest

from calve.cli.main import calve
from calve.observe import monitoring
from calve.observe.metric_families import COUNTERS, GAUGES, HISTOGRAMS
from calve.observe.metrics import StatusCollector
from calve.observe.report import PipelineReport

LABELS = {f"{name}_total": {"pipeline", *labels} for name, _, labels, _ in COUNTERS}
LABELS |= {name: {"pipeline", *labels} for name, _, labels, _ in GAUGES}
LABELS |= {f"{name}_bucket": {"pipeline", "le"} for name, *_ in HISTOGRAMS}
RULES = yaml.safe_load(monitoring.alerts())["groups"][0]["rules"]
PANELS = monitoring.dashboard()["panels"]
QUERIES = [rule["expr"] for rule in RULES] + [each["expr"] for panel in PANELS for each in panel["targets"]]


def labels_of(query: str) -> set[str]:
    return set.intersection(*(LABELS[name] for name in re.findall(r"calve_\w+", query))) | {"instance"}


@pytest.mark.parametrize("query", QUERIES)
def test_a_query_asks_for_metrics_and_labels_that_are_there(query: str) -> None:
    named = [
        *re.findall(r"\{(\w+)=", query),
        *re.findall(r"\w+", " ".join(re.findall(r"(?:by|on) \(([^)]*)\)", query))),
    ]
    asked = re.findall(r"calve_\w+", query)
    assert asked
    for name in asked:
        assert name in LABELS
    assert {name for name in named if name != "instance"} <= set.union(*(LABELS[name] for name in asked))
    assert query.count("(") == query.count(")")


def test_a_text_names_labels_that_its_query_has() -> None:
    for rule in RULES:
        text = " ".join(rule["annotations"].values())
        assert set(re.findall(r"\$labels\.(\w+)", text)) <= labels_of(rule["expr"]), rule["alert"]
    for panel in PANELS:
        for each in panel["targets"]:
            assert set(re.findall(r"\{\{(\w+)\}\}", each["legendFormat"])) <= labels_of(each["expr"]), panel["title"]


def test_the_page_has_every_metric_that_is_served() -> None:
    registry = CollectorRegistry()
    registry.register(StatusCollector(lambda: [PipelineReport("p")]))
    served = set(re.findall(r"^# TYPE (\w+)", generate_latest(registry).decode(), re.MULTILINE))
    assert {name.removesuffix("_total") for name in re.findall(r"^\| `(\w+)`", monitoring.page(), re.MULTILINE)} == {
        name.removesuffix("_total") for name in served
    }
    assert (Path(__file__).parents[2] / "docs" / "metrics.md").read_text() == monitoring.page(), "run `make docs`"


def test_panels_fill_rows_and_do_not_overlap() -> None:
    corners = {(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in PANELS}
    assert len(corners) == len({panel["id"] for panel in PANELS}) == len(PANELS)
    assert all(panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24 for panel in PANELS)


def test_the_command_prints_each_of_them() -> None:
    printed = {what: CliRunner().invoke(calve, ["ops", what]).output for what in ("alerts", "grafana", "metrics")}
    assert yaml.safe_load(printed["alerts"])["groups"]
    assert json.loads(printed["grafana"])["title"] == "Calve"
    assert printed["metrics"].startswith("# Metrics")

"""Pipelines that feed pipelines: what `try` says of them is what a run does, and a kill between their tables costs nothing."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from calve.pipeline.pipeline_parts import PipelineParts, sink_labels
from calve.pipeline.plugins import PLUGINS
from calve.settings import parse_text
from calve.state.local_folder import LocalFolder
from kit.running import Calve

[YAML] = re.findall(
    r"```yaml\n(.*?)```",
    (Path(__file__).parents[2] / "docs" / "connected-pipelines.md").read_text(),
    re.DOTALL,
)
EVENTS = [
    {"id": 1, "status": 200, "host": "x", "password": "p"},
    {"id": 2, "status": 500, "host": "x", "password": "p"},
    {"id": 3, "status": 599, "host": "y", "password": "p"},
    {"id": 4, "status": 503, "host": "y", "password": "p"},
    {"id": 5, "status": 503, "host": "a/b", "password": "p"},
]
TABLES = {"archive.requests": [1, 2, 3, 4, 5], "alarms.fatal": [3], "alarms.x": [2], "alarms.y": [4]}


def made(rejects: Any = None) -> PipelineParts:
    [settings] = parse_text(YAML.replace("{table_identifier", "{event_time: at, table_identifier"), PLUGINS).pipelines
    catalog = SimpleNamespace(properties={}, name="lakehouse")
    return PipelineParts(settings, LocalFolder(Path("state")), lambda properties: ("lakehouse", catalog), rejects)


def test_dead_letters_name_the_pipeline_that_a_sink_stands_in() -> None:
    [settings] = parse_text(YAML, PLUGINS).pipelines
    assert sink_labels(settings) == ["alarms.sink[0].iceberg", "alarms.sink[1].iceberg", "archive.iceberg"]


def test_what_is_replayed_tells_no_event_time() -> None:
    assert [sink.event_time for sink in made().job("12345678", 1, 0, 0, None).sinks] == ["at"] * 3
    again = made(SimpleNamespace(reader=None)).job("12345678", 1, 0, 0, None)
    assert [sink.event_time for sink in again.sinks] == [None] * 3


@pytest.mark.spark
def test_connected_pipelines_do_what_try_says_and_a_kill_between_their_commits_doubles_nothing(calve: Any) -> None:
    job: Calve = calve(YAML)
    (job.folder / "in").mkdir()
    sample = job.folder / "in" / "a.ndjson"
    sample.write_text("".join(json.dumps(one) + "\n" for one in EVENTS))
    tried = job.call("try", "pipelines.yaml", str(sample), "--json")
    said = [json.loads(line) for line in tried.stdout.splitlines()]
    meant = {(one["line"], place["table"]) for one in said if one["type"] == "event" for place in one["tables"]}
    assert meant == {(number, table) for table, numbers in TABLES.items() for number in numbers}
    job.killed_at("commit.after-table")
    assert job.once() == 0, job.said()
    assert {table: sorted(job.rows(table)["id"].to_pylist()) for table in TABLES} == TABLES
    assert job.rows("alarms.x")["severity"].to_pylist() == ["high"]
    assert "severity" not in job.rows("archive.requests").column_names
    assert "password" in job.rows("alarms.x").column_names
    assert "password" not in job.rows("archive.requests").column_names
    [entry] = job.dead_letters("web")
    assert (entry["pipeline"], entry["sink"], entry["code"]) == ("web", "alarms.sink[1].iceberg", "BAD_TABLE_NAME")
    assert json.loads(entry["event"]) == EVENTS[4]
    status = job.call("status", "--pipeline", "archive")
    assert status.stdout.startswith("web (feeds alarms, archive): stopped")
    assert [path.name for path in (job.folder / "calve-state").iterdir()] == ["web"]

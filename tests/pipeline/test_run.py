"""What the thread of a pipeline raises makes the pipeline fail."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import pytest

from calve.engine.workers.environment import PRELOADED
from calve.observe.watch import Watch
from calve.pipeline import run
from calve.pipeline.plugins import PLUGINS
from calve.pipeline.task_modules import task_modules
from calve.settings import parse_text


def test_a_pipeline_whose_code_cannot_be_loaded_has_failed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "calve.pipeline.driver", None)
    failed: list[Exception] = []
    with Watch() as watch:
        run._run_one(Mock(), SimpleNamespace(name="p"), run.RunOptions(state=str(tmp_path)), watch, Mock(), failed)
    assert [type(error) for error in failed] == [ModuleNotFoundError]


@pytest.mark.parametrize(
    ("is_stopped", "told"),
    [(True, "Spark has stopped while the pipeline ran"), (False, "The pipeline failed: RuntimeError: no words")],
)
def test_an_application_that_the_cluster_has_ended_is_no_bug(is_stopped: bool, told: str) -> None:
    found = run._unforeseen(Mock(has_stopped=is_stopped), "p", RuntimeError("no words"))
    assert found.message == told
    assert ("bug" in found.hint) is not is_stopped


@pytest.mark.parametrize(("routes", "more"), [([], []), ([{"a": "/id == 1"}], ["duckdb"])])
def test_workers_come_from_a_process_that_has_imported_what_their_tasks_do(
    routes: list[dict[str, str]], more: list[str]
) -> None:
    sinks = [
        {"iceberg": {"table_identifier": "db.t", "auto_create": True}},
        {"opensearch": {"hosts": ["http://127.0.0.1:1"], "index": "t"}},
    ]
    pipeline = {"source": {"file": {"path": "*.ndjson"}}, "route": routes, "sink": sinks[: 1 + bool(routes)]}
    modules = task_modules(parse_text(json.dumps({"p": pipeline}), PLUGINS).pipelines)
    jobs = ["calve.sinks.iceberg.job", *(["calve.sinks.opensearch.job"] if routes else [])]
    assert modules[len(PRELOADED) :] == ["calve.task.task", *jobs, "calve.sources.file.reader", *more]


@pytest.mark.parametrize(
    ("table", "more", "evaluates"),
    [
        ('db.${getMetadata("kafka_topic")}_$x', {}, False),
        ('${getMetadata("a")}.${ getMetadata( "b" ) }', {}, False),
        ("db.${/t}", {}, True),
        ("db.${t}", {}, True),
        ('db.${getMetadata("a/b")}', {}, True),
        ('db.${length("a")}', {}, True),
        ("db.t", {"upsert": True, "identifier_columns": ["id"]}, True),
    ],
)
def test_sql_is_imported_early_where_a_name_takes_more_than_metadata(table, more, evaluates) -> None:
    sink = {"iceberg": {"table_identifier": table, "auto_create": True, **more}}
    pipeline = {"source": {"file": {"path": "*.ndjson"}}, "sink": [sink]}
    modules = task_modules(parse_text(json.dumps({"p": pipeline}), PLUGINS).pipelines)
    assert ("duckdb" in modules) is evaluates

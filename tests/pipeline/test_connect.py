"""`calve validate --connect`: a sentence for each thing that does not answer or is not there, and nothing written."""

from __future__ import annotations

import json
import socket
from typing import Any

import pytest
from click.testing import Result

from running import Calve
from services.process import free_ports

pytestmark = pytest.mark.spark


def pipeline(source: dict[str, Any], **sink: Any) -> dict[str, Any]:
    return {"source": source, "sink": [{"iceberg": {"table_identifier": "a.b", **sink}}]}


def connect(job: Calve) -> Result:
    return job.call("validate", "pipelines.yaml", "--connect")


def test_what_is_missing_or_does_not_answer_is_told_in_one_sentence_each(calve) -> None:
    [nobody] = free_ports(1)
    kafka = {"bootstrap_servers": [f"127.0.0.1:{nobody}"], "topics": [{"name": "t", "group_id": "g"}]}
    rest = {"type": "rest", "uri": f"http://127.0.0.1:{nobody}", "warehouse": "w"}
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        pipelines = {
            "one": pipeline({"kafka": kafka}),
            "two": pipeline({"http": {"port": port}}, catalog=rest),
            "three": pipeline({"file": {"path": "nothing.ndjson"}}, auto_create=True),
        }
        job = calve(json.dumps(pipelines))
        done = connect(job)
    assert done.exit_code == 1
    starts = [
        f"Error: one: the source kafka: Kafka at 127.0.0.1:{nobody} does not answer",
        f"Error: two: the source http: port {port} is taken on 127.0.0.1. ",
        "Error: three: the source file: The file ",
        "Error: one: the sink iceberg: The table a.b does not exist in the catalog lakehouse. Create it",
        f"Error: two: the sink iceberg: iceberg: Connect to http://127.0.0.1:{nobody} failed",
    ]
    lines = done.stderr.splitlines()
    assert [line[: len(start)] for line, start in zip(lines, starts, strict=True)] == starts
    assert [path.name for path in job.folder.iterdir()] == ["pipelines.yaml"]


def test_what_is_there_is_ok_and_stays_as_it_was(calve, tmp_path) -> None:
    hadoop = {"type": "hadoop", "warehouse": str(tmp_path / "warehouse")}
    job = calve(json.dumps({"one": pipeline({"file": {"path": "*.ndjson"}}, catalog=hadoop, auto_create=True)}))
    done = connect(job)
    assert (done.exit_code, done.stdout) == (0, "OK: 1 pipeline: one\n")
    assert not (tmp_path / "warehouse").exists()

"""Wherever the process dies, each event is once in the files that manifests name, and in the requests by their keys."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from crash.conftest import Doomed
from services.scripted import Scripted

YAML = """
lines:
  source: {{file: {{path: in/*.ndjson}}}}
  sink:
    - file: {{path: "out/${{/half}}"}}
    - http: {{url: "{address}/events", max_events: 7}}
"""


@pytest.mark.crash
@pytest.mark.spark
def test_wherever_the_process_dies_each_event_is_there_once(doomed: Callable[[str], Doomed]) -> None:
    with Scripted(lambda method, path, body: (200, b"")) as server:
        calve = doomed(YAML.format(address=server.address))
        for number, point in enumerate(("task.after-file", "task.after-send")):
            events = ({"id": number * 20 + each, "half": each % 2} for each in range(20))
            calve.feed(number, events)
            calve.dies_at(point)
        assert calve.once() == 0, calve.said()[-1500:]
        posted = {headers["idempotency-key"]: body for method, _, body, headers in server.asked if method == "POST"}
    requests = [json.loads(line)["id"] for body in posted.values() for line in body.splitlines()]
    out = calve.folder / "out"
    manifests = [json.loads(path.read_bytes()) for path in (out / "_manifests").iterdir()]
    named = {out / file["path"]: file["rows"] for manifest in manifests for file in manifest["files"]}
    lines = {path: path.read_bytes().splitlines() for path in out.glob("[!_]*/*.ndjson")}
    assert {path: len(rows) for path, rows in lines.items()} == named
    assert (
        sorted(requests) == sorted(json.loads(line)["id"] for rows in lines.values() for line in rows) == [*range(40)]
    )

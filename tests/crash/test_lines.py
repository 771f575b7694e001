"""Wherever the process dies, each event is once in the files that manifests name, and in the requests by their keys."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from crash.conftest import Doomed
from services.scripted import Scripted

YAML = """
lines:
  source: {{file: {{path: in/*.ndjson}}}}
  sink:
    - file: {{path: "out/${{/half}}"}}
    - file: {{path: "columns/${{/half}}", codec: {{parquet: {{}}}}}}
    - http: {{url: "{address}/events", max_events: 7}}
"""


@pytest.mark.crash
@pytest.mark.spark
def test_wherever_the_process_dies_each_event_is_there_once(doomed: Callable[[str], Doomed]) -> None:
    with Scripted(lambda method, path, body: (200, b"")) as server:
        calve = doomed(YAML.format(address=server.address))
        for number, point in enumerate(("task.after-file:3", "task.after-send")):
            events = ({"id": number * 20 + each, "half": each % 2} for each in range(20))
            calve.feed(number, events)
            calve.dies_at(point)
        assert calve.once() == 0, calve.said()[-1500:]
        posted = {headers["idempotency-key"]: body for method, _, body, headers in server.asked if method == "POST"}
    requests = [json.loads(line)["id"] for body in posted.values() for line in body.splitlines()]
    lines, columns = (named(calve.folder / folder) for folder in ("out", "columns"))
    ids_of_lines = [json.loads(line)["id"] for path in lines for line in path.read_bytes().splitlines()]
    tables = {path: pq.read_table(path, partitioning=None) for path in columns}
    assert {path: len(table) for path, table in tables.items()} == columns
    ids_of_rows = [number for table in tables.values() for number in table["id"].to_pylist()]
    assert sorted(requests) == sorted(ids_of_lines) == sorted(ids_of_rows) == [*range(40)]


def named(folder: Path) -> dict[Path, int]:
    """Return the files that manifests name, with their rows; no others are visible."""
    manifests = [json.loads(path.read_bytes()) for path in (folder / "_manifests").iterdir()]
    files = {folder / file["path"]: file["rows"] for manifest in manifests for file in manifest["files"]}
    assert {*files} == {*folder.glob("[!_]*/[!.]*")}
    return files

"""Processors in a run: what is in the table, in the dead letters and in the status adds up, also after a replay."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from kit.running import Calve

pytestmark = pytest.mark.spark

YAML = """
logs:
  source:
    file: {path: "in/*.ndjson"}
  processor:
    - drop_events: {drop_when: '/level == "DEBUG"'}
    - split_event: {field: codes, delimiter: " "}
    - convert_type: {key: codes, null_values: %s}
    - rename_keys: {entries: [{from_key: codes, to_key: code}]}
    - add_entries: {entries: [{key: kind, value: late, add_when: "/code > 2"}]}
  route:
    - early: '/kind == null'
    - late: '/kind == "late"'
  sink:
    - iceberg: {routes: [early], table_identifier: shop.early, auto_create: true, dlq: rejected}
    - iceberg: {routes: [late], table_identifier: "shop.${/kind}", auto_create: true, dlq: rejected}
"""
EVENTS = [
    {"n": 1, "level": "INFO", "codes": "1 2 3"},
    {"n": 2, "level": "DEBUG"},
    {"n": 3, "level": "INFO", "codes": "4 x y"},
    "no JSON",
    {"n": 5, "level": "INFO"},
]


def written(job: Calve) -> list[tuple[int, object]]:
    rows = [row for table in ("shop.early", "shop.late") for row in job.rows(table).to_pylist()]
    return sorted(((row["n"], row["code"]) for row in rows), key=str)


def test_events_are_processed_before_they_are_routed_and_a_replay_processes_each_part_once(calve) -> None:
    job = calve(YAML % "[]")
    (job.folder / "in").mkdir()
    lines = [event if isinstance(event, str) else json.dumps(event) for event in EVENTS]
    (job.folder / "in" / "1.ndjson").write_text("\n".join(lines) + "\n")
    assert job.once() == 0, job.said()
    assert written(job) == [(1, 1), (1, 2), (1, 3), (3, 4), (5, None)]
    status = job.status("logs")
    assert (status["events"], status["dropped"], status["added"], status["rejects"]) == (
        (5, 1, 4, {"MALFORMED": 1, "PROCESSOR_FAILED": 2})
    )
    letters = [
        json.loads(line) for file in (job.folder / "rejected").iterdir() for line in file.read_text().splitlines()
    ]
    assert sorted((one["event"], one["metadata"].get("event_part")) for one in letters) == sorted(
        [(json.dumps(EVENTS[2]), "1"), (json.dumps(EVENTS[2]), "2"), ("no JSON", None)], key=str
    )
    assert "1 event dropped by processors" in job.call("status").stdout
    job.configure(YAML % "[x, y]")
    done = job.call("dlq", "replay", "pipelines.yaml", "--code", "PROCESSOR_FAILED", "--give-up-after", "3s")
    assert "2 events sent, 2 now in tables, 0 rejected again" in done.stdout, done.stderr
    assert len(written(job)) == 7
    assert (
        job.call("dlq", "replay", "pipelines.yaml", "--code", "PROCESSOR_FAILED").stdout == "logs: nothing to replay\n"
    )


ACCESS = """\
10.0.0.1 - - [10/Oct/2025:13:55:36 +0200] "GET /a?b=1 HTTP/1.1" 200 2326 "-" "curl/8.5.0"
2001:db8::1 - ada [11/Oct/2025:00:00:01 +0000] "POST /login HTTP/2.0" 302 0 "https://example.com/x" "Mozilla/5.0 (X11)"
no access log
"""


JAVA = """\
\tat the end of an older file
2025-10-10 13:55:36,120 INFO  com.example.Shop - Started
2025-10-10 13:55:37,004 ERROR com.example.Orders - Order 7 failed
java.lang.IllegalStateException: no stock
\tat com.example.Stock.take(Stock.java:41)
Caused by: java.io.IOException: closed
\t... 12 more
"""


def test_the_logs_of_the_documentation_become_partitioned_tables(calve) -> None:
    page = (Path(__file__).parents[2] / "docs" / "logs.md").read_text()
    yamls = re.findall(r"^```yaml\n((?:nginx|java):.*?)^```", page, re.DOTALL | re.MULTILINE)
    assert [len(yaml.splitlines()) for yaml in yamls] == [10, 10]
    job = calve(re.sub("/var/log/(nginx|shop)/", "logs/", "".join(yamls)))
    (job.folder / "logs").mkdir()
    (job.folder / "logs" / "access.log.1").write_text(ACCESS)
    (job.folder / "logs" / "app.log").write_text(JAVA)
    assert job.once() == 0, job.said()
    older, failed, started = sorted(job.rows("shop.log").to_pylist(), key=lambda row: row["level"] or "")
    assert (older["message"], older["text"]) == (JAVA.splitlines()[0], None)
    assert (started["message"], started["text"], started["trace"]) == (None, "Started", None)
    assert (failed["class"], failed["text"]) == ("com.example.Orders", "Order 7 failed")
    assert failed["time"].isoformat() == "2025-10-10T13:55:37.004000+00:00"
    assert failed["trace"].splitlines() == JAVA.splitlines()[3:]
    rows = job.rows("web.access").to_pylist()
    first, second, odd = sorted(rows, key=lambda row: str(row["clientip"]))
    assert (first["clientip"], first["verb"], first["request"], first["response"]) == ("10.0.0.1", "GET", "/a?b=1", 200)
    assert (first["bytes"], first["time"].isoformat()) == (2326, "2025-10-10T11:55:36+00:00")
    assert (second["clientip"], second["auth"], second["bytes"], second["referrer"]) == (
        ("2001:db8::1", "ada", 0, "https://example.com/x")
    )
    assert (first["message"], odd["message"], odd["time"]) == (None, "no access log", None)
    [field] = job.catalog().load_table("web.access").spec().fields
    assert (field.name, str(field.transform)) == ("time_day", "day")

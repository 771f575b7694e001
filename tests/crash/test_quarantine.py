"""Events that break a step in a way that nobody foresaw: they become dead letters once, wherever the process dies."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from calve.stop_point import FAIL_VARIABLE, VARIABLE

YAML = """
points:
  source:
    file: {path: "in/*.ndjson"}
  sink:
    - iceberg:
        table_identifier: "points.t${/t}"
        auto_create: true
        schema_evolution: true
        commit_interval: 100ms
    - iceberg:
        table_identifier: shop.points
        operation: "${/op}"
        identifier_columns: [id, kind]
        write_mode: merge-on-read
        auto_create: true
        partition_by: [kind]
        commit_interval: 100ms
        dlq: {table: ops.dead}
"""
EVENTS = 40


def _events(number):
    return [{"id": number * EVENTS + n, "t": n % 2, "kind": "good", "op": "c"} for n in range(EVENTS)]


def _runs(calve, fails, dies=""):
    environment = {FAIL_VARIABLE: fails} | ({VARIABLE: dies} if dies else {})
    code = calve.start("--once", environment=environment).wait(240)
    assert (code == 0) is not bool(dies), calve.said()[-1500:]


@pytest.mark.crash
@pytest.mark.spark
def test_an_event_that_breaks_a_step_is_a_dead_letter_once_and_all_others_are_rows_wherever_the_process_died(doomed):
    calve = doomed(YAML)
    bad = {17: {"note": "venom"}, EVENTS + 5: {"kind": "poison"}, EVENTS + 30: {"kind": "poison"}}
    fails = "task.convert:venom;commit.stage:kind=poison"
    for number in range(2):
        calve.feed(number, [event | bad.get(event["id"], {}) for event in _events(number)])
        _runs(calve, fails, ("quarantine.after-write", "ledger.after-stage-again")[number])
    _runs(calve, fails)

    rows = Counter(id for table in ("points.t0", "points.t1") for id in calve.rows(table)["id"].to_pylist())
    assert rows == Counter(range(2 * EVENTS)) - Counter([17])
    assert Counter(calve.rows("shop.points")["id"].to_pylist()) == Counter(range(2 * EVENTS)) - Counter(list(bad))
    letters = [*calve.dead_letters("points"), *calve.rows("ops.dead").to_pylist()]
    found = [(letter["table"], json.loads(letter["event"])["id"], letter["code"]) for letter in letters]
    assert sorted(found) == sorted(
        [("points.t1", 17, "UNPROCESSABLE"), *(("shop.points", id, "UNPROCESSABLE") for id in bad)]
    )
    assert calve.status("points")["tables"]["shop.points"]["rejects"] == {"UNPROCESSABLE": len(bad)}
    assert len(list((calve.folder / "calve-state" / "points").glob("bug-*.txt"))) == 2
    assert "Traceback" not in calve.said()


@pytest.mark.crash
@pytest.mark.spark
def test_an_event_that_ends_sparks_workers_does_not_end_the_pipeline(doomed):
    calve = doomed(YAML.partition("    - iceberg:\n        table_identifier: shop")[0])
    calve.feed(0, [event | ({"note": "poison"} if event["id"] == 3 else {}) for event in _events(0)[:8]])
    _runs(calve, "task.convert!poison")
    rows = [id for table in ("points.t0", "points.t1") for id in calve.rows(table)["id"].to_pylist()]
    assert sorted(rows) == [0, 1, 2, 4, 5, 6, 7]
    assert [letter["code"] for letter in calve.dead_letters("points")] == ["UNPROCESSABLE"]

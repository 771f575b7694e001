"""Dead letters that wait: counted where they are, whoever replayed them or moved them away."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from calve.dead_letters.pending import PendingInState, PendingLetters
from calve.dead_letters.replay.replayed import Span, records_in
from calve.observe.problems import problems
from calve.observe.report import PipelineReport, TableReport
from calve.observe.status import BatchCounts, PipelineStatus
from calve.observe.status_file import StatusFile, read_report


def entry(**changed: object) -> str:
    return json.dumps({"pipeline": "orders", "table": "a.b", "code": "NO_KEY", "event": "{}", **changed}) + "\n"


def write(folder: Path, name: str, *lines: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text("".join(lines))


def test_letters_that_were_replayed_or_moved_away_do_not_wait(tmp_path: Path) -> None:
    letters, report = tmp_path / "orders" / "dlq", PipelineReport("orders")
    pending = PendingLetters(str(tmp_path / "orders"), "orders", check_seconds=0)
    assert pending.count(report) == {}
    first = entry(count=3)
    write(letters, "1.ndjson", first, entry(code="MALFORMED", table=None), "no entry\n", entry(pipeline="clicks"))
    assert pending.count(report) == {"a.b": {"NO_KEY": 3}, "": {"MALFORMED": 1}}
    records_in(str(tmp_path), "orders").add([Span("1.ndjson", 0, len(first), 3)])
    assert pending.count(report) == {"": {"MALFORMED": 1}}
    write(letters, "2.ndjson", entry(), entry())
    assert pending.count(report) == {"": {"MALFORMED": 1}, "a.b": {"NO_KEY": 2}}
    (letters / "1.ndjson").unlink()
    assert pending.count(report) == {"a.b": {"NO_KEY": 2}}


def test_on_an_object_store_they_are_those_rejected_less_those_replayed(tmp_path: Path) -> None:
    report = PipelineReport("orders", dlq=["s3://bucket/dlq"], rejects={"NO_KEY": 5, "MALFORMED": 1})
    report.tables["a.b"] = TableReport(rejects={"NO_KEY": 5})
    pending = PendingLetters(str(tmp_path / "orders"), "orders", check_seconds=0)
    assert pending.count(report) == {"a.b": {"NO_KEY": 5}, "": {"MALFORMED": 1}}
    records_in(str(tmp_path), "orders").add([Span("1.ndjson", 0, 100, 4)])
    assert pending.count(report) == {"": {"": 2}}
    records_in(str(tmp_path), "orders").add([Span("2.ndjson", 0, 100, 2)])
    assert pending.count(report) == {}


def test_after_a_restart_the_letters_of_the_run_before_are_wrong_in_health_and_status(tmp_path: Path) -> None:
    write(tmp_path / "orders" / "dlq", "1.ndjson", entry())
    status = PipelineStatus("orders")
    status.set_state("running")
    StatusFile(
        status, str(tmp_path / "orders"), 3_600, pending=PendingLetters(str(tmp_path / "orders"), "orders").count
    ).close()
    assert status.health().wrong == ["1 dead letter waits: NO_KEY 1"]
    report = read_report(str(tmp_path), "orders")
    assert report is not None
    assert [problem.alert for problem in problems(report)] == ["CalveRejects"]
    (tmp_path / "orders" / "dlq" / "1.ndjson").unlink()
    assert problems(PendingInState(str(tmp_path)).complete(report)) == []


def test_what_cannot_be_read_stands_as_it_was(tmp_path: Path) -> None:
    status = PipelineStatus("orders")
    status.batch_written(BatchCounts(1, 2, 10, rejects={"a.b": {"NO_KEY": 2}}), 0.1)
    report = status.report()
    (tmp_path / "orders" / "dlq").parent.mkdir()
    (tmp_path / "orders" / "dlq").write_text("no folder")
    assert PendingInState(str(tmp_path)).complete(report).pending == {"a.b": {"NO_KEY": 2}}


def test_counting_files_needs_no_library_of_tables() -> None:
    """`calve status` counts them each time."""
    code = "import sys, calve.dead_letters.pending; print([name for name in ('pyiceberg', 'duckdb') if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"

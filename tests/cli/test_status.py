from __future__ import annotations

import json
import re
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from calve.errors import CommitError, SourceUnavailableError
from calve.observe.liveness import process_started
from calve.observe.notices import IGNORED_HINT, NULLED_HINT
from calve.observe.report import KeyIndexStats, PipelineReport, now
from calve.observe.status import BatchCounts, PipelineStatus

from .conftest import Shell


def report() -> PipelineReport:
    status = PipelineStatus("orders")
    status.set_state("running")
    rejects = {"shop.orders": {"NOT_COERCIBLE": 2}, "": {"MALFORMED": 1}}
    status.batch_written(BatchCounts(1, 12_000, 22_000, 3, rejects, {"shop.orders": {"amount": 4}}), 0.5)
    status.table_committed("shop.orders", 11_994, 123)
    status.staged(2)
    status.lag(50, 1100)
    status.trouble(SourceUnavailableError("Kafka does not answer", step="read", hint="Start it"))
    status.trouble(CommitError("it was dropped", step="commit", hint="Create it"), table="shop.gone")
    return status.report()


def save(shell: Shell, report: PipelineReport) -> None:
    folder = shell.folder / "calve-state" / report.pipeline
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "status.json").write_text(json.dumps(report.to_dict()))


def test_a_running_pipeline_shows_figures_tables_and_errors_with_hints(shell: Shell) -> None:
    save(shell, report())
    result = shell("status")
    assert result.exit_code == 0
    for text in (
        "orders: running (up ",
        "12,000 events read",
        "lag 50 rows",
        "2 batches staged",
        "3 events without a route",
        "11,994",
        "NOT_COERCIBLE 2",
        "amount 4",
        "rejects without a table: MALFORMED 1",
        "Kafka does not answer. Start it",
        "error in shop.gone",
        "it was dropped. Create it",
    ):
        assert text in result.stdout


def test_the_key_index_of_a_table_is_shown_with_what_was_compared(shell: Shell) -> None:
    status = PipelineStatus("p")
    status.table_committed("db.large", 1, 1)
    status.table_committed("db.small", 1, 1)
    status.after_commit("db.large", KeyIndexStats(rows=2_000_000, size_bytes=49_000_000, audited_rows=5000))
    save(shell, status.report())
    said = shell("status").output
    assert "2,000,000 rows, 46.7 MiB, 5,000 audited\n" in said
    earlier = datetime.now(UTC) - timedelta(hours=3)
    status.after_commit("db.large", KeyIndexStats(rows=1, size_bytes=24, audited_rows=7, last_audit=earlier))
    save(shell, status.report())
    assert "1 row, 24 B, 7 audited (3 h ago)\n" in shell("status").output
    status.after_commit("db.large", KeyIndexStats(rows=1, size_bytes=24, stale=3, rebuilt=1))
    save(shell, status.report())
    assert "1 row, 24 B, 0 audited, 3 stale, began anew 1 time\n" in shell("status").output


def test_the_address_of_sparks_pages_is_shown_where_they_are_on(shell: Shell) -> None:
    on = report()
    save(shell, on)
    assert "Spark's pages" not in shell("status").stdout
    on.spark_pages = "http://127.0.0.1:4040"
    save(shell, on)
    assert "  Spark's pages: http://127.0.0.1:4040\n" in shell("status").stdout


def test_names_that_control_a_terminal_are_escaped_in_every_place(shell: Shell) -> None:
    hostile = "shop.a\x1b[2J\x9b1A\u202e"
    status = PipelineStatus("orders")
    status.batch_written(BatchCounts(1, 1, 1, 1, {hostile: {"NOT_COERCIBLE": 2}}, {hostile: {hostile: 4}}), 0.5)
    status.table_committed(hostile, 1, 123)
    status.trouble(CommitError(f"{hostile} was dropped", step="commit", hint=hostile), table=hostile)
    save(shell, status.report())
    for command in (("status",), ("status", "--verbose"), ("status", "--json")):
        assert all(map(str.isprintable, shell(*command).stdout.splitlines()))


def test_a_killed_pipeline_is_not_called_running(shell: Shell) -> None:
    killed = report()
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    killed.pid, killed.process_started = child.pid, process_started(child.pid)
    child.kill()
    child.communicate()
    save(shell, killed)
    assert "orders: not running (killed?): was running" in shell("status").stdout
    assert json.loads(shell("status", "--json").stdout)["pipelines"][0]["process"] == "gone"


def test_an_error_that_has_not_occurred_for_long_is_not_shown_as_present(shell: Shell) -> None:
    old = report()
    save(shell, old)
    assert re.search(r"error \(for \d+ s\): Kafka does not answer", shell("status").stdout)
    old.errors[0].last = old.errors[0].since = now() - timedelta(hours=3)
    save(shell, old)
    assert "error (3 h ago): Kafka does not answer" in shell("status").stdout


@pytest.mark.parametrize("command", [("status",), ("dlq", "list"), ("doctor",)])
def test_a_store_that_cannot_keep_a_state_is_refused_at_once(shell: Shell, command: tuple[str, ...]) -> None:
    result = shell(*command, "--state", "hdfs://host/state")
    assert result.exit_code == 2
    assert "The state cannot be kept at hdfs://host/state. HDFS has no conditional writes" in result.stderr


def test_a_stopped_pipeline_says_when(shell: Shell) -> None:
    stopped = report()
    stopped.state = "stopped"
    save(shell, stopped)
    assert "orders: stopped " in shell("status").stdout


def test_json_carries_the_whole_report(shell: Shell) -> None:
    save(shell, report())
    (one,) = json.loads(shell("status", "--json").stdout)["pipelines"]
    assert one["process"] == "alive"
    assert one["tables"]["shop.orders"]["rows"] == 11_994
    assert PipelineReport.from_dict(one).lag_rows == 50


def test_what_was_sent_again_is_shown_beside_the_counts_of_the_run(shell: Shell) -> None:
    save(shell, report())
    assert "sent again" not in shell("status").stdout
    replay = PipelineStatus("orders.replay")
    replay.batch_written(BatchCounts(1, 2, 100, 0, {"shop.orders": {"NOT_COERCIBLE": 1}}), 0.5)
    replay.table_committed("shop.orders", 1, 7)
    folder = shell.folder / "calve-state" / "orders" / "replay"
    folder.mkdir()
    (folder / "status.json").write_text(json.dumps(replay.report().to_dict()))
    said = shell("status").stdout
    assert "  dead letters sent again: 2 events, 1 row (shop.orders 1), 1 rejected again, " in said
    (one,) = json.loads(shell("status", "--json").stdout)["pipelines"]
    assert one["replay"]["events"] == 2


def test_one_pipeline_can_be_chosen(shell: Shell) -> None:
    for name in ("orders", "clicks"):
        other = report()
        other.pipeline = name
        save(shell, other)
    assert "orders: " not in shell("status", "--pipeline", "clicks").stdout
    assert "clicks: " in shell("status").stdout


@pytest.mark.parametrize(
    ("made", "arguments", "said"),
    [
        (False, (), "there is no state folder"),
        (True, (), "no pipeline has run with the state folder"),
        (True, ("--pipeline", "x"), "has no pipeline x. It has: none"),
    ],
)
def test_nothing_to_show_is_said_with_a_way_out(
    shell: Shell, made: bool, arguments: tuple[str, ...], said: str
) -> None:
    if made:
        Path("calve-state").mkdir()
    result = shell("status", *arguments)
    assert result.exit_code == 1
    assert said in result.stderr
    assert result.stderr.count("\n") == 1


def test_what_is_not_written_is_explained_with_the_way_out(shell: Shell) -> None:
    status = PipelineStatus("orders")
    fields = {f"f{number}": number for number in range(1, 9)} | {"in.\x1bx": 40}
    reasons = {"shop.orders": {"amount": "'\x1b[2J' is not a valid double"}}
    counts = BatchCounts(1, 99, nulled={"shop.orders": {"amount": 4}}, ignored={"shop.orders": fields}, reasons=reasons)
    status.batch_written(counts, 0.5)
    save(shell, status.report())
    said = shell("status").stdout
    for text in (
        "set to NULL",
        "amount 4",
        r"set to NULL in shop.orders, column amount, for example: '\x1b[2J' is not a valid double",
        NULLED_HINT,
        r"in.\x1bx 40, f8 8, f7 7, f6 6, f5 5 and 4 more",
        IGNORED_HINT,
    ):
        assert text in said
    assert re.search(r"warning \(the last \d+ s ago\): Values of this run that did not fit and became NULL", said)
    assert said.count("on_type_mismatch: dlq") == 1
    (one,) = json.loads(shell("status", "--json").stdout)["pipelines"]
    assert (one["tables"]["shop.orders"]["ignored"], one["tables"]["shop.orders"]["reasons"]) == (
        fields,
        {"amount": "'\x1b[2J' is not a valid double"},
    )


def test_how_files_were_written_is_shown_only_if_asked_for(shell: Shell) -> None:
    status = PipelineStatus("orders")
    status.files_are("written by each task")
    save(shell, status.report())
    assert "written by each task" not in shell("status").stdout
    assert "files of the last batch: written by each task" in shell("status", "--verbose").stdout

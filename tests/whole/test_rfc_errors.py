"""The tables of the RFC's section 8, a row each, where it is decided.

The outages themselves are in `crash/`, memory with many partitions in `write/test_writer.py`.
"""

from __future__ import annotations

import errno
import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from calve.catalog import retry
from calve.dead_letters.rejects import DeadLetterLocation
from calve.errors import (
    CommitConflictError,
    CommitError,
    NoTargetError,
    SetupError,
    SinkUnavailableError,
    Verdict,
    WriteError,
)
from calve.expression import compile_format
from calve.network.backoff import Backoff
from calve.observe.log import Log
from calve.record.written import Nulled
from calve.route.sink_route import SinkRoute
from calve.sinks.iceberg.job import TableJob
from calve.sinks.iceberg.settings import IcebergSettings
from calve.sinks.iceberg.targets import SinkTargets
from calve.sources.source import Split
from calve.table.definition import schema_from_columns
from calve.task.job import Job
from calve.task.task import run_task
from calve.write import parquet
from kit.tables import table_of

GOOD = b'{"id": 1, "n": 1}'
COLUMNS = [{"name": "id", "type": "long", "required": True}, {"name": "n", "type": "int"}]


class Events:
    """A reader of events that are there."""

    def __init__(self, *events: bytes) -> None:
        self.events = events

    def read(self, split: Split) -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"event": pa.array(self.events, pa.binary())})


def task(folder: Path, *events: bytes) -> Any:
    """Run one task over events, into a table in a folder; give its receipt."""
    table = replace(table_of(schema_from_columns(COLUMNS)), location=str(folder / "table"))
    sink = TableJob(
        label="iceberg",
        catalog="c",
        route=SinkRoute(compile_format("ns.t")),
        tables={"ns.t": table},
        dead_letters=DeadLetterLocation(str(folder / "dlq")),
    )
    return run_task(Job("p", "run", Events(*events), (sink,), max_open_writers=2), [Split({})], 0)


def dead_letters(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for path in (folder / "dlq").glob("*") for line in path.read_text().splitlines()]


REJECTED = {
    "a required column gets what is not coercible": (b'{"id":"one" }', "NOT_COERCIBLE"),
    "a required field is missing": (b'{"n" : 2}', "REQUIRED_MISSING"),
    "no field is a column": (b'{"x":1}', "NO_MATCHING_FIELDS"),
}


@pytest.mark.parametrize("row", REJECTED)
def test_an_event_is_a_dead_letter_and_the_others_are_written(tmp_path: Path, row: str) -> None:
    event, code = REJECTED[row]
    receipt = task(tmp_path, GOOD, event, GOOD)
    assert [one.rows for one in receipt.tables] == [2]
    (letter,) = dead_letters(tmp_path)
    assert (letter["event"].encode(), letter["code"], letter["table"]) == (event, code, "ns.t")
    assert letter["reason"]


def test_an_optional_column_is_null_where_a_value_is_not_coercible(tmp_path: Path) -> None:
    receipt = task(tmp_path, GOOD, b'{"id":2,"n":"two"}')
    assert ([one.rows for one in receipt.tables], receipt.nulled) == (
        [2],
        [Nulled("ns.t", {"n": 1}, {"n": "'two' is not a valid int"})],
    )
    assert dead_letters(tmp_path) == []


def test_a_storage_that_fails_for_a_while_costs_another_try(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(parquet, "_created", full)
        receipt = task(tmp_path, GOOD)
    assert (receipt.error, WriteError.verdict) == ("WriteError", Verdict.AGAIN)
    assert [one.rows for one in task(tmp_path, GOOD).tables] == [1]


def test_a_storage_that_somebody_must_change_first_ends_the_pipeline(tmp_path: Path) -> None:
    (tmp_path / "table").write_text("in the way")
    receipt = task(tmp_path, GOOD)
    assert (receipt.error, SetupError.verdict) == ("SetupError", Verdict.ASK)
    assert receipt.message.endswith("table/data: Not a directory")


def test_a_storage_that_fails_for_good_ends_the_tries_of_a_bounded_run() -> None:
    assert not Backoff(threading.Event(), limit_seconds=0, bounded=True).wait()


def test_a_commit_that_another_writer_overtook_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retry, "_FIRST_WAIT_SECONDS", 0)
    tries = iter([CommitConflictError("faster"), None])

    def commit() -> str:
        if (error := next(tries)) is not None:
            raise error
        return "committed"

    assert retry.retried(commit) == "committed"


def test_a_commit_whose_tries_are_used_up_comes_again_in_the_next_cycle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retry, "_FIRST_WAIT_SECONDS", 0)

    def commit() -> None:
        raise CommitConflictError("faster")

    with pytest.raises(CommitConflictError) as caught:
        retry.retried(commit)
    assert caught.value.verdict is Verdict.AGAIN


def test_a_commit_that_fails_for_good_holds_its_table_for_the_operator() -> None:
    assert CommitError.verdict is Verdict.ASK


class NoTables:
    """A catalog without tables, or one that is away."""

    name = "lakehouse"

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error

    def load(self, identifier: str) -> None:
        if self.error:
            raise self.error


def opening(catalog: NoTables) -> None:
    SinkTargets(catalog, IcebergSettings(table_identifier="ns.t"), "ns.t", Log("p")).open()  # type: ignore[arg-type]


def test_a_start_without_the_table_and_without_auto_create_fails() -> None:
    with pytest.raises(NoTargetError, match=r"ns\.t does not exist") as caught:
        opening(NoTables())
    assert "auto_create" in caught.value.hint


def test_a_start_without_a_catalog_fails_or_waits_for_it() -> None:
    with pytest.raises(SinkUnavailableError) as caught:
        opening(NoTables(SinkUnavailableError("The catalog does not answer")))
    assert caught.value.verdict is Verdict.AGAIN

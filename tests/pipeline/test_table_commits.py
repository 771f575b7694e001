"""The commit of one table and the acknowledgement of batches, with a ledger on disk and a fence that the test plays."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from calve.commit.mark import CommitTarget
from calve.commit.outcome import Outcome
from calve.commit.publish import PublishOutcome
from calve.errors import (
    CalveError,
    CommitError,
    OvertakenError,
    SinkUnavailableError,
    UnprocessableError,
    WriteError,
)
from calve.ledger.ledger import Ledger
from calve.notify.lineage import Lineage
from calve.observe.log import ROOT
from calve.observe.status import PipelineStatus
from calve.pipeline import table_commits
from calve.pipeline.announcer import Announcer
from calve.pipeline.rewrite import Rewritten
from calve.pipeline.table_commits import TableCommits
from calve.record.staged import StagedBatch
from calve.record.written import Rejects, StagedFiles
from calve.sinks.sink import CommitSettings
from calve.sources.source import Planned, Split
from calve.state.local_folder import LocalFolder
from calve.table.completeness import Completeness
from calve.table.gate import RuleVerdict

AWAY, HELD = SinkUnavailableError("no answer", step="commit"), CommitError("dropped", step="commit")


class World:
    """A pipeline with two tables, `a` and `b`.

    Attributes:
        errors: What commits fail with, by table.
        commits: What succeeded: the table, its batches and the snapshot summary.
        publication: What commits publish.
        rewrites: What rewriting gives.
    """

    def __init__(self, folder: Path) -> None:
        self.ledger = Ledger.open(folder, "p")
        self.status = PipelineStatus("p")
        self.seconds = 1.0
        self.errors: dict[str, CalveError] = {}
        self.commits: list[tuple[str, list[int], Mapping[str, str]]] = []
        self.publication: PublishOutcome | None = None
        self.rewrites: dict[int, Rewritten] = {}
        self.acknowledged: list[int] = []
        self.looked_at: list[str] = []
        tables: Any = SimpleNamespace(
            commits=CommitSettings(0, 1),
            catalogs={"c": SimpleNamespace(prepare=lambda: None)},
            completeness=lambda _: Completeness(),
            advance=lambda _, __: False,
            may_index_keys=lambda _, __: False,
            gate=lambda _: None,
            keeps_row_ids=lambda _, __: False,
        )
        parts: Any = SimpleNamespace(
            source=SimpleNamespace(acknowledge=lambda planned: None),
            tables=tables,
            letters=SimpleNamespace(io_properties=dict),
            announcer=Announcer(Lineage("p"), [], LocalFolder(folder), tables),
            source_keeps=False,
        )
        rewriter: Any = SimpleNamespace(rewrite=lambda *_: self.rewrites)
        upkeep: Any = SimpleNamespace(
            committed=lambda _, target, __: self.looked_at.append(target.identifier),
            acknowledged=self.acknowledged.append,
        )
        self.commit_tables = TableCommits(self.ledger, parts, self.status, rewriter, upkeep, lambda: self.seconds)
        self.queue = self.commit_tables.queue

    def append(
        self, _: Any, target: CommitTarget, __: Any, files: Any, summary: Mapping[str, str], ___: Any
    ) -> Outcome:
        if error := self.errors.get(target.identifier):
            raise error
        self.commits.append((target.identifier, list(files), summary))
        return Outcome(tuple(files), 7, publication=self.publication)

    def stage(self, *tables: str, catalog: str = "c", rejects: list[Rejects] | None = None) -> StagedBatch:
        """Stage the next batch, with a file of one row for each table."""
        batch = self.ledger.last_batch + 1
        entries = [entry(name, catalog) for name in tables]
        record = StagedBatch(batch, {}, entries, events=1, bytes=1, unrouted=0, rejects=rejects or [])
        self.ledger.begin(batch, Planned([Split({}, 1)], {}, ()))
        self.ledger.stage(batch, record)
        self.commit_tables.add(record)
        return record

    def cycle(self) -> None:
        self.seconds += 60
        for table in self.queue.pop_due(self.seconds) or ():
            self.commit_tables.commit(table)
        self.commit_tables.acknowledge()


def entry(name: str, catalog: str = "c") -> StagedFiles:
    return StagedFiles(catalog, name, "", [{"file-path": name}], rows=1, bytes=1)


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    one = World(tmp_path / "p" / "ledger")
    monkeypatch.setattr(table_commits, "append", one.append)
    yield one
    one.ledger.close()


@pytest.fixture
def said(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> pytest.LogCaptureFixture:
    monkeypatch.setattr(logging.getLogger(ROOT), "propagate", True)
    caplog.set_level(logging.INFO, ROOT)
    return caplog


def test_all_batches_of_a_table_are_one_commit_in_their_order(world: World) -> None:
    for _ in range(3):
        world.stage("a", "b")
    assert world.status.report().staged_batches == 3
    world.cycle()
    assert world.status.report().staged_batches == 0
    assert [(table, batches) for table, batches, _ in world.commits] == [("a", [1, 2, 3]), ("b", [1, 2, 3])]
    assert world.acknowledged == [1, 2, 3]
    assert world.ledger.committed.batch == 3
    assert world.looked_at == ["a", "b"]
    assert world.status.report().tables["a"].rows == 3


def test_receivers_of_notify_know_what_main_has_and_once_that_a_gate_holds_commits(world: World) -> None:
    events: list[Any] = []
    announcer: Any = world.commit_tables._announcer
    announcer._outbox = SimpleNamespace(add=events.append, keep=lambda _: None, forget=lambda _: None)
    announcer._tables.catalogs["c"].load = lambda _: None
    announcer._tables.catalogs["c"].name = "lake"
    announcer._tables.sinks_of = lambda _: []
    announcer._tables.sinks_named = lambda _: []
    fails = RuleVerdict("max_null_share.email", False, "email is NULL in 1 of 2 rows")
    for world.publication in (PublishOutcome(7), *[PublishOutcome(None, n, 2 * n, (fails,)) for n in (1, 2)], None):
        world.stage("a")
        world.cycle()
    committed = [event.data.get("published") for event in events if event.type == "table.committed"]
    reason = "max_null_share.email: email is NULL in 1 of 2 rows"
    assert committed == [
        {"snapshot_id": "7", "waiting_commits": 0, "waiting_rows": 0, "reason": ""},
        {"snapshot_id": None, "waiting_commits": 1, "waiting_rows": 2, "reason": reason},
        {"snapshot_id": None, "waiting_commits": 2, "waiting_rows": 4, "reason": reason},
        None,
    ]
    [held] = [event.data for event in events if event.type == "table.held"]
    assert (held["table"], held["batch"]) == ("a", 2)
    assert held["reason"] == f"2 rows are not published, nor is what comes: {reason}"
    assert "calve publish a --force, or --discard" in held["hint"]


def test_a_batch_is_acknowledged_when_the_last_of_its_tables_has_it(world: World) -> None:
    world.errors["b"] = HELD
    world.stage("a")
    world.stage("a", "b")
    world.stage("a")
    world.cycle()
    assert world.acknowledged == [1]
    assert world.commit_tables.troubles() == [HELD]
    world.errors.clear()
    world.cycle()
    assert world.acknowledged == [1, 2, 3]
    assert [batches for table, batches, _ in world.commits if table == "b"] == [[2]]
    assert world.commit_tables.troubles() == []


def test_a_snapshot_counts_the_rejects_of_its_batches_although_another_table_lacks_them(world: World) -> None:
    world.errors["b"] = HELD
    for rejected in (3, 4, 0):
        world.stage("a", "b", rejects=[Rejects({"a": {"NO_KEY": rejected}, "b": {"NO_KEY": 1}})])
        world.cycle()
    world.errors.clear()
    world.cycle()
    assert [(table, summary["calve.rejected"]) for table, _, summary in world.commits] == [
        ("a", "3"),
        ("a", "4"),
        ("a", "0"),
        ("b", "3"),
    ]


def test_a_snapshot_counts_the_rejects_of_a_batch_again_whose_commit_failed(world: World) -> None:
    world.errors["a"] = AWAY
    world.stage("a", rejects=[Rejects({"a": {"NO_KEY": 3}})])
    world.cycle()
    world.errors.clear()
    world.cycle()
    assert world.commits[0][2]["calve.rejected"] == "3"


def test_a_server_that_is_away_is_logged_once_until_it_is_back(world: World, said: pytest.LogCaptureFixture) -> None:
    world.errors = {"a": AWAY, "b": AWAY}
    world.stage("a", "b")
    world.cycle()
    world.cycle()
    world.errors.clear()
    world.cycle()
    assert [record.getMessage() for record in said.records] == ["no answer", "commit: recovered"]
    assert world.ledger.committed.batch == 1


def test_an_error_that_ends_the_pipeline_is_raised(world: World) -> None:
    world.errors["a"] = OvertakenError("another driver", step="commit")
    world.stage("a")
    with pytest.raises(OvertakenError):
        world.cycle()
    assert world.acknowledged == []


def test_files_that_cannot_be_committed_are_replaced_and_what_is_rejected_counts(world: World) -> None:
    world.stage("a")
    world.stage("a")
    world.rewrites = {1: Rewritten([], {"UNPROCESSABLE": 2}), 2: Rewritten([entry("a")], {"UNPROCESSABLE": 1})}
    world.errors["a"] = UnprocessableError("no snapshot", step="commit")
    world.cycle()
    world.errors.clear()
    world.cycle()
    [(table, batches, summary)] = world.commits
    assert (table, batches, summary["calve.rejected"]) == ("a", [2], "1")
    assert world.status.report().tables["a"].rejects == {"UNPROCESSABLE": 3}
    assert world.ledger.committed.totals.rejects == {"UNPROCESSABLE": 3}


def test_a_ledger_that_refuses_is_tried_again_later_and_nothing_is_committed_twice(
    world: World, monkeypatch: pytest.MonkeyPatch, said: pytest.LogCaptureFixture
) -> None:
    world.stage("a")
    full = WriteError("the disk is full", step="ledger")

    def refuse(*_: Any) -> None:
        raise full

    with monkeypatch.context() as patch:
        patch.setattr(world.ledger, "set_committed", refuse)
        world.cycle()
        world.cycle()
        assert world.commit_tables.troubles() == [full]
    world.commit_tables.acknowledge()
    assert world.acknowledged == [1, 1], "it waits first"
    world.cycle()
    assert world.acknowledged == [1, 1, 1]
    assert world.ledger.committed.totals.tables["a"].rows == 1
    assert len(world.commits) == 1
    assert world.commit_tables.troubles() == []
    assert [record.getMessage() for record in said.records] == ["the disk is full", "ledger: recovered"]


def test_files_for_a_catalog_that_is_gone_are_not_taken(world: World) -> None:
    with pytest.raises(CommitError, match="a catalog that the configuration no longer has"):
        world.stage("a", catalog="former")
    assert world.queue.is_empty()


def test_a_server_that_is_away_after_a_commit_holds_nothing(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: Any) -> None:
        raise AWAY

    monkeypatch.setattr(world, "looked_at", SimpleNamespace(append=refuse))
    world.stage("a")
    world.cycle()
    assert world.ledger.committed.batch == 1

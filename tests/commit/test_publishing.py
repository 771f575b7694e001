"""Where `main` was is noted with a commit only if `main` can be moved forward from there."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest
from pyiceberg.schema import Schema

from calve.catalog.attempt import WaitingSnapshots
from calve.commit.publish import Publishing, publish
from calve.table.gate import CommitGate


class Begun:
    """An attempt on a table with such snapshots."""

    def __init__(
        self,
        main: int,
        base: int | None,
        line: list[tuple[int, str | None, dict[str, str]]],
        has_branch: bool = True,
    ) -> None:
        self.snapshots = WaitingSnapshots(main, base, has_branch, base is None and has_branch, False, line)
        self.pointed: list[tuple[str, int]] = []

    def waiting(self, _: str) -> WaitingSnapshots:
        return self.snapshots

    def load(self) -> Any:
        return SimpleNamespace(schema=Schema())

    def point(self, branch: str, snapshot: int) -> None:
        self.pointed.append((branch, snapshot))


@pytest.mark.parametrize(("main", "is_ahead"), [(1, True), (7, False)])
def test_main_that_somebody_changed_is_not_moved_even_by_force_after_snapshots_have_expired(
    main: int, is_ahead: bool
) -> None:
    gate = CommitGate(min_rows=10)
    begun: Any = Begun(main, 1, [(2, "append", {"added-records": "3"})])  # main is 1, or 7 of another writer after 1
    summary = Publishing(begun, "audit", gate).summary([])
    assert ("main" in json.loads(summary["calve.gate"])) is is_ahead
    cut: Any = Begun(main, None, [(3, "append", summary)])  # then 2 expires
    assert publish(cut, "audit", gate, force=True).published == (3 if is_ahead else None)
    assert cut.pointed == ([("main", 3)] if is_ahead else [])


def test_a_branch_that_is_cleared_does_not_empty_main_before_new_rows_hold() -> None:
    before: Any = Begun(1, 1, [])
    few = Publishing(before, "audit", CommitGate(min_rows=10)).summary([])
    begun: Any = Begun(1, 1, [(2, "delete", {"deleted-records": "9"}), (3, "replace", {}), (4, "append", few)])
    assert publish(begun, "audit", CommitGate(min_rows=10)).commits == 3
    assert begun.pointed == []
    publish(begun, "audit", CommitGate(max_null_share={"note": 0.5}))
    assert begun.pointed == [("main", 4)]


def test_the_first_commit_of_a_branch_notes_the_main_that_it_begins_from() -> None:
    begun: Any = Begun(1, None, [], has_branch=False)
    assert json.loads(Publishing(begun, "audit", CommitGate(min_rows=1)).summary([])["calve.gate"])["main"] == 1


def test_a_branch_whose_last_published_snapshot_is_no_ancestor_of_main_any_more_is_named_as_that() -> None:
    begun: Any = Begun(7, None, [(2, "append", {"added-records": "3"})])
    assert publish(begun, "audit", CommitGate(min_rows=1)).diverged == (
        "main and audit have no snapshot in common: it has expired, or there never was one"
    )

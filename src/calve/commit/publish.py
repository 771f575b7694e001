"""Publishes the commits of a branch to `main` when the rules of its gate hold, in the very commit that adds them.

What it relies on:
- The branch and `main` move by one compare-and-swap (`fence`), so no kill comes between a commit and its publication.
- Each snapshot of the branch has its figures in its summary, so that every later commit, in any process, comes to the
  same verdict about what waits. `main` only ever moves forward to a snapshot that has it as an ancestor.
- A branch on which nothing waits follows `main`, so that other writers of `main` do no harm. If something waits, and
  `main` has moved, nothing is published until somebody decides; commits go on.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import msgspec

from calve import structs
from calve.catalog.attempt import Attempt, WaitingSnapshots
from calve.record.content_file import ContentFile
from calve.record.figures import figures_of
from calve.table.gate import CommitGate, Figures, Judge, RuleVerdict

__all__ = ["FIGURES", "MAIN", "VERDICT", "PublishOutcome", "Publishing", "follow_main", "publish", "rows_of"]

MAIN = "main"
FIGURES = "calve.gate"
"""The property of snapshots with `Figures`."""
VERDICT = "calve.verdict"
"""The property of snapshots with what each rule says, for people."""


@dataclass(frozen=True)
class PublishOutcome:
    """What became of a branch.

    Attributes:
        published: The snapshot to which `main` was moved; None: it was not.
        commits: How many commits wait.
        rows: Their rows.
        verdicts: What each rule says.
        diverged: Why nothing can be published, whatever the rules say; empty: it can.
    """

    published: int | None = None
    commits: int = 0
    rows: int = 0
    verdicts: tuple[RuleVerdict, ...] = ()
    diverged: str = ""

    @property
    def is_blocked(self) -> bool:
        """Whether it needs somebody: later commits publish nothing by themselves."""
        return bool(self.diverged) or any(verdict.blocks for verdict in self.verdicts)

    @property
    def reason(self) -> str:
        """Why commits wait; empty: none does, or none with rows."""
        rules = [f"{verdict.rule}: {verdict.text}" for verdict in self.verdicts if not verdict.holds]
        return self.diverged or ("; ".join(rules) if self.commits else "")


class Publishing:
    """The publication of one attempt.

    Args:
        begun: The attempt, which has inspected the table.
        branch: The branch that gets its snapshots; `follow_main` was called for it.
        gate: The rules.
    """

    def __init__(self, begun: Attempt, branch: str, gate: CommitGate) -> None:
        self._begun, self._branch, self._gate = begun, branch, gate
        waiting = begun.waiting(branch)
        self._main = waiting.main if _is_ahead(waiting) or not waiting.has_branch else None
        self._judge = Judge(gate, _figures(waiting))
        self._schema = begun.load().schema

    def summary(self, files: Iterable[ContentFile]) -> dict[str, str]:
        """Return what the summary of the next snapshot gets, which adds these files; called for each, in order."""
        figures = figures_of(self._gate, self._schema, files, int(time.time() * 1000), self._main)
        verdicts = {verdict.rule: f"{verdict.word}: {verdict.text}" for verdict in self._judge.add(figures)}
        return {FIGURES: msgspec.json.encode(figures).decode(), VERDICT: msgspec.json.encode(verdicts).decode()}

    def publish(self) -> PublishOutcome:
        """Move `main` in the attempt, as far as the rules hold."""
        return publish(self._begun, self._branch, self._gate)


def publish(begun: Attempt, branch: str, gate: CommitGate, force: bool = False) -> PublishOutcome:
    """Move `main` forward in an attempt to the last snapshot of a branch up to which the rules hold.

    Args:
        begun: The attempt, which has inspected the table.
        branch: The branch.
        gate: The rules.
        force: To the last one of all, whatever the rules say.
    """
    waiting = begun.waiting(branch)
    judge, fault = Judge(gate, _figures(waiting)), _fault(waiting, branch)
    verdicts = tuple(judge.verdicts.values())
    if force and waiting.line and _is_ahead(waiting):
        head = waiting.line[-1][0]
        begun.point(MAIN, head)
        return PublishOutcome(head, verdicts=verdicts)
    if fault:
        return PublishOutcome(None, len(waiting.line), rows_of(waiting), verdicts, fault)
    if judge.publishable is not None:
        begun.point(MAIN, judge.publishable)
    return PublishOutcome(judge.publishable, judge.commits, judge.rows, verdicts)


def follow_main(begun: Attempt, branch: str) -> None:
    """Let a branch on which no rows wait begin where `main` is, before it gets a snapshot."""
    waiting = begun.waiting(branch)
    if waiting.main is None or waiting.base == waiting.main or not waiting.has_branch:
        return
    if not any(_changes(operation, summary) for _, operation, summary in waiting.line):
        begun.point(branch, waiting.main)


def _is_ahead(waiting: WaitingSnapshots) -> bool:
    """Return whether `main` can be moved forward to what waits: its snapshot is an ancestor."""
    if not waiting.is_cut:
        return waiting.base == waiting.main
    oldest = _figures_in(waiting.line[0][2])
    return oldest is not None and oldest.main == waiting.main


def _fault(waiting: WaitingSnapshots, branch: str) -> str:
    """Return why nothing that waits can be published by itself, whatever the rules say; empty: it can."""
    if not _is_ahead(waiting):
        if waiting.base is None and waiting.main is not None:
            return f"main and {branch} have no snapshot in common: it has expired, or there never was one"
        return (
            f"main was changed by somebody else while commits waited on {branch}, and cannot be moved forward to them"
        )
    if waiting.is_set_back:
        return f"main was set back to an earlier snapshot, and {branch} was not"
    return f"snapshots that waited on {branch} have expired, and with them what was found of them" * waiting.is_cut


def _figures(waiting: WaitingSnapshots) -> Iterator[tuple[int, Figures | int | None]]:
    """Yield the snapshots that wait as `Judge` takes them."""
    for snapshot, operation, summary in waiting.line:
        rows = _rows(operation, summary)
        unjudged = rows if rows or not _changes(operation, summary) else None
        yield snapshot, _figures_in(summary) or unjudged


def _figures_in(summary: Mapping[str, str]) -> Figures | None:
    try:
        return structs.decode(summary.get(FIGURES, ""), Figures)
    except ValueError:  # none, or somebody else's property
        return None


def rows_of(waiting: WaitingSnapshots) -> int:
    """Return the rows that snapshots add."""
    return sum(_rows(operation, summary) for _, operation, summary in waiting.line)


def _rows(operation: str | None, summary: Mapping[str, str]) -> int:
    """Return the rows that a snapshot adds; files that replace others with the same rows add none."""
    text = summary.get("added-records", "")
    return int(text) if operation != "replace" and text.isdecimal() else 0


def _changes(operation: str | None, summary: Mapping[str, str]) -> bool:
    """Return whether a snapshot changes the rows of its branch."""
    return operation not in ("replace", "append") or _rows(operation, summary) > 0

"""Says what became of branches that are published: in the log when it changes, and always in the status."""

from __future__ import annotations

import threading

from calve.commit.publish import PublishOutcome
from calve.observe.gate_report import GateReport, RuleReport
from calve.observe.humanize import many
from calve.observe.log import Log
from calve.observe.report import now
from calve.observe.status import PipelineStatus
from calve.record.target import BranchRef

__all__ = ["Publications"]


class Publications:
    """The gates of one pipeline, after each commit; for any thread.

    Args:
        status: Gets what waits.
        log: Gets changes.
    """

    def __init__(self, status: PipelineStatus, log: Log) -> None:
        self._status, self._log = status, log
        self._lock = threading.Lock()
        self._gates: dict[BranchRef, GateReport] = {}

    def committed(self, target: BranchRef, publication: PublishOutcome | None) -> tuple[str, str] | None:
        """Record what a commit has published, and what waits; None: it has no gate, or committed nothing.

        Returns:
            If it is the first one that is held: the reason, and what helps.
        """
        if publication is None:
            return None
        rules = {
            verdict.rule: RuleReport(verdict.holds, verdict.figure, verdict.text) for verdict in publication.verdicts
        }
        with self._lock:
            before = self._gates.get(target)
            since = before.since if before and before.commits and publication.published is None else now()
            self._gates[target] = gate = GateReport(
                target.branch,
                publication.commits,
                publication.rows,
                publication.reason,
                publication.is_blocked,
                since if publication.commits else None,
                rules,
            )
        self._status.after_commit(target.table, gate=gate)
        if gate.blocked and not (before and before.blocked):
            reason = f"{many(gate.rows, 'row')} are not published, nor is what comes: {gate.reason}"
            hint = (
                f"They are on the branch {target.branch}, and commits go on there. Look at them; then "
                f"calve publish {target.table} --force, or --discard"
            )
            self._log.warning(f"{target.table}: {reason}", table=target.table, hint=hint)
            return reason, hint
        if before and before.blocked and not gate.blocked:
            self._log.info(f"{target.table}: commits are published again", table=target.table)
        return None

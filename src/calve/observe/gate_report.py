"""What the status says of rows that wait on a branch until they are published."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

__all__ = ["GateReport", "RuleReport"]


@dataclass
class RuleReport:
    """What a rule says; `holds` is None if there are not enough rows to judge."""

    holds: bool | None
    figure: float
    text: str


@dataclass
class GateReport:
    """What waits on a branch after the last commit.

    Attributes:
        branch: The branch.
        commits: The commits that `main` lacks.
        rows: Their rows.
        reason: Why they wait.
        blocked: Whether they wait until somebody decides; else for more rows, or newer ones.
        since: When they began to wait, as far as this process knows.
        rules: What each rule says, by its name.
    """

    branch: str = ""
    commits: int = 0
    rows: int = 0
    reason: str = ""
    blocked: bool = False
    since: datetime | None = None
    rules: dict[str, RuleReport] = field(default_factory=dict)

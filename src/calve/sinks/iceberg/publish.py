"""The option `publish` of the Iceberg sink: commit to a branch, and move `main` forward only when rules hold."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta

from calve.errors import SettingsError
from calve.settings import option
from calve.table.gate import CommitGate

__all__ = ["Freshness", "Publish", "PublishRules", "check_branch"]

_LONGEST_BRANCH = 200
_BRANCH = re.compile(rf"[^\W_][\w./-]{{0,{_LONGEST_BRANCH - 1}}}")


def check_branch(text: str) -> None:
    """Check the name of a branch.

    Raises:
        SettingsError: It is not valid.
    """
    if not _BRANCH.fullmatch(text) or text.isdecimal():
        raise SettingsError(
            f"{text[:100]!r} is not a branch name: at most {_LONGEST_BRANCH} letters, digits, `_`, `-`, `.` and `/`, "
            "the first a letter or digit; and not digits alone, which readers take for a snapshot's number"
        )


def _check_shares(shares: dict[str, float]) -> None:
    for name, share in shares.items():
        if not 0 <= share <= 1:
            raise SettingsError(
                f"the share of {name} must be between 0 and 1, e.g. 0.01 for one percent, found {share}"
            )


def _check_audit_branch(text: str) -> None:
    check_branch(text)
    if text == "main":
        raise SettingsError("is the branch that readers see; name another one, e.g. audit")


@dataclass(frozen=True)
class Freshness:
    """How old the newest row of what is published may be."""

    column: str = option(doc="The column with the time of an event, a date or a timestamp.", minimum=1)
    max_age: timedelta = option(
        doc="The greatest age of the latest time when it is committed.", minimum=timedelta(milliseconds=1)
    )


@dataclass(frozen=True)
class PublishRules:
    """The rules that commits must follow before `main` is moved forward to them."""

    min_rows: int | None = option(
        None,
        "Commits are judged, and published, together as soon as they have this many rows; fewer wait for more.",
        minimum=1,
    )
    max_null_share: dict[str, float] = option(
        {},
        "By column the greatest share of NULLs, from 0 to 1. A commit with more stays on the branch, and so do later "
        "ones, until `calve publish`.",
        check=_check_shares,
    )
    freshness: Freshness | None = option(
        None, "How old the latest time of a column may be when it is committed; older rows wait for newer ones."
    )


@dataclass(frozen=True)
class Publish:
    """Commit to a branch, and move `main` forward to its commits only when rules hold."""

    branch: str = option("audit", "The branch that gets every commit.", check=_check_audit_branch)
    when: PublishRules = option(doc="The rules.")

    def check(self) -> Iterator[tuple[str, str]]:
        """Refuse a gate without rules."""
        if self.when == PublishRules():
            yield "when", "has no rule: set min_rows, max_null_share or freshness"

    @property
    def gate(self) -> CommitGate:
        """The rules, for commits."""
        rules, age = self.when, self.when.freshness
        return CommitGate(
            rules.min_rows or 0,
            rules.max_null_share,
            age.column if age else "",
            age.max_age if age else timedelta(0),
        )

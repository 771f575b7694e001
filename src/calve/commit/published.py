"""Publishes what waits on a branch, or throws it away, because somebody has decided: `calve publish`."""

from __future__ import annotations

from calve.catalog.attempt import Attempt
from calve.catalog.catalog import Catalog
from calve.catalog.retry import retried
from calve.commit.publish import MAIN, PublishOutcome, publish, rows_of
from calve.commit.swap import swap
from calve.engine.java.errors import java_errors
from calve.errors import NoTargetError
from calve.table.gate import CommitGate

__all__ = ["discard_waiting", "publish_waiting"]

_STEP = "publish"


def publish_waiting(
    catalog: Catalog, table: str, branch: str, gate: CommitGate, force: bool = False, dry_run: bool = False
) -> PublishOutcome:
    """Move `main` forward to the commits of a branch, as far as the rules hold; may be repeated safely.

    Args:
        catalog: Where the table is.
        table: Its identifier.
        branch: The branch.
        gate: The rules.
        force: Whatever they say.
        dry_run: Only return what would be done.

    Raises:
        NoTargetError: There is no such table or branch.
        CalveError: The catalog does not answer, or other writers were faster every time.
    """

    def attempt() -> PublishOutcome:
        begun = catalog.begin(table)
        with catalog.steady.commits(lambda: begun.table), java_errors(_STEP, table):
            _inspect(begun, table, branch)
            publication = publish(begun, branch, gate, force)
            if publication.published is not None and not dry_run:
                swap(begun, MAIN)
        return publication

    return retried(attempt)


def discard_waiting(catalog: Catalog, table: str, branch: str, dry_run: bool = False) -> PublishOutcome:
    """Set a branch back to `main`; return what waited. It is gone, and its batches count as committed.

    Raises:
        CalveError: As `publish_waiting`.
    """

    def attempt() -> PublishOutcome:
        begun = catalog.begin(table)
        with catalog.steady.commits(lambda: begun.table), java_errors(_STEP, table):
            _inspect(begun, table, branch)
            waiting = begun.waiting(branch)
            if waiting.line and not dry_run:
                if waiting.main is None:
                    begun.remove_branch(branch)
                else:
                    begun.point(branch, waiting.main)
                swap(begun, branch)
        return PublishOutcome(None, len(waiting.line), rows_of(waiting))

    return retried(attempt)


def _inspect(begun: Attempt, table: str, branch: str) -> None:
    state = begun.inspect(branch)
    if not state.has_branch or state.is_tag:
        raise NoTargetError(
            f"The table {table} has no branch {branch}",
            step=_STEP,
            target=table,
            hint="Name it with --branch, or take it from the configuration with --pipelines; a pipeline with "
            "`publish` creates it with its first commit",
        )

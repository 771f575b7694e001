"""One try to replace a table's metadata by the result of an attempt, only if it is still the inspected metadata."""

from __future__ import annotations

from calve.catalog.attempt import Attempt, Swapped
from calve.stop_point import stop_at

__all__ = ["swap"]


def swap(attempt: Attempt, branch: str, mark: tuple[str, str] | None = None) -> Swapped:
    """Replace the inspected metadata by the transaction's; a refused attempt leaves nothing behind.

    Args:
        attempt: The attempt, whose updates are committed into its transaction.
        branch: The branch that got a snapshot.
        mark: A property that the table gets in the same commit: key and value.

    Returns:
        The new snapshot of the branch, and the table.

    Raises:
        Py4JJavaError: The table has changed since it was inspected, or the catalog's answer is lost.
    """
    stop_at("commit.before-swap")
    swapped = attempt.swap(branch, mark)
    stop_at("commit.after-swap")
    return swapped

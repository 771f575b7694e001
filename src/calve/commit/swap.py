"""The one try to replace a table's metadata by what an attempt made of the very metadata that was inspected."""

from __future__ import annotations

from calve.catalog.attempt import Attempt, Swapped
from calve.stop_point import reach

__all__ = ["swap"]


def swap(attempt: Attempt, branch: str, mark: tuple[str, str] | None = None) -> Swapped:
    """Replace what was looked at by the transaction's metadata; a refused attempt leaves nothing behind.

    Args:
        attempt: The attempt, whose updates are committed into its transaction.
        branch: The branch that got a snapshot.
        mark: A property that the table gets in the same commit: key and value.

    Returns:
        The snapshot that the branch then has, and the table.

    Raises:
        Py4JJavaError: The table is no longer what was looked at, or the catalog's answer is not known.
    """
    reach("commit.before-swap")
    swapped = attempt.swap(branch, mark)
    reach("commit.after-swap")
    return swapped

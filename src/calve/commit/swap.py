"""The one attempt to replace a table's metadata by what a transaction made of the very metadata that was inspected."""

from __future__ import annotations

import contextlib
from typing import Any

from py4j.protocol import Py4JJavaError

from calve.engine.jvm import is_instance
from calve.stop_point import reach

__all__ = ["swap"]

_REFUSED = "org.apache.iceberg.exceptions.CleanableFailure"


def swap(table: Any, transaction: Any, start: Any, branch: str) -> Any:
    """Replace `start` by the transaction's metadata; a refused attempt leaves nothing behind.

    Args:
        table: The Java table.
        transaction: Its transaction, whose updates are committed into it.
        start: What `transaction.startMetadata()` gave.
        branch: The branch that got a snapshot.

    Returns:
        The Java snapshot that the branch then has.

    Raises:
        Py4JJavaError: The table is no longer `start`, or the catalog's answer is not known.
    """
    current = transaction.currentMetadata()
    reach("commit.before-swap")
    try:
        table.operations().commit(start, current)
    except Py4JJavaError as error:
        if is_instance(error.java_exception, _REFUSED):
            for made in [one for one in current.snapshots() if start.snapshot(one.snapshotId()) is None]:
                _remove_made(table.io(), made)
        raise
    reach("commit.after-swap")
    return current.snapshot(current.ref(branch).snapshotId())


def _remove_made(io: Any, snapshot: Any) -> None:
    """Delete what a refused attempt wrote: only after a definite no, and only what its own snapshot brought.

    Staged files stay, for the next attempt; what cannot be deleted is left for the removal of orphans.
    """
    with contextlib.suppress(Py4JJavaError):
        if snapshot.summary().get("spark.app.id"):  # a MERGE of ours, which wrote its files for this attempt
            for file in [*snapshot.addedDataFiles(io), *snapshot.addedDeleteFiles(io)]:
                io.deleteFile(file.location())
        for manifest in snapshot.allManifests(io):
            if manifest.snapshotId() == snapshot.snapshotId():
                io.deleteFile(manifest.path())
        io.deleteFile(snapshot.manifestListLocation())

"""Reads the manifests of a snapshot in the JVM: through py4j each file would cost several calls."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from calve.engine.java.compiled import java_class

__all__ = ["DeleteCounts", "Manifests"]


@dataclass(frozen=True)
class DeleteCounts:
    """The files and rows of a branch of a table.

    Attributes:
        data_files: Files with rows.
        rows: Rows in them, including deleted ones.
        position_delete_files: Files with positions of deleted rows, and deletion vectors.
        equality_delete_files: Files with keys of deleted rows.
        equality_deletes: Keys in them.
        size_bytes: The size of all these files.
        snapshots: The snapshots of the table, on any branch.
    """

    data_files: int = 0
    rows: int = 0
    position_delete_files: int = 0
    equality_delete_files: int = 0
    equality_deletes: int = 0
    size_bytes: int = 0
    snapshots: int = 0

    def to_dict(self) -> dict[str, int]:
        """Return the counts as JSON values."""
        return asdict(self)


class Manifests:
    """The compiled loops of one JVM (`Manifests.java`).

    Attributes:
        java: A `Consumer` of paths that does nothing, so that a deleting action only reports.
    """

    def __init__(self, jvm: Any) -> None:
        self.java: Any = java_class(jvm, __name__, "Manifests").newInstance()

    def count(self, table: Any, branch: str) -> DeleteCounts:
        """Count the files and rows of a branch of a Java table."""
        snapshot, snapshots = table.snapshot(branch), sum(1 for _ in table.snapshots())
        if snapshot is None:
            return DeleteCounts(snapshots=snapshots)
        data, positions, equality, keys, rows, size = self.java.count(table, snapshot)
        return DeleteCounts(data, rows, positions, equality, keys, size, snapshots)

    def unneeded(self, table: Any, snapshot: Any) -> Any:
        """Return the Java list of equality deletes that a scan of the snapshot applies to no data file.

        Iceberg's own planning decides. Such a delete is older than all data files in its reach, or its keys are outside
        their bounds; it never applies to rows that are written later (specification, "Scan Planning").
        """
        return self.java.unneeded(table, snapshot)

    def remove(self, update: Any, deletes: Any) -> None:
        """Let a Java `RewriteFiles` remove delete files."""
        self.java.remove(update, deletes)

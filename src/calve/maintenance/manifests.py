"""What the manifests of a snapshot list, read in the JVM: through py4j each file would cost several calls."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from calve.engine.compiled import java_class

__all__ = ["DeleteCounts", "Manifests"]


@dataclass(frozen=True)
class DeleteCounts:
    """What a branch of a table consists of.

    Attributes:
        data_files: Files with rows.
        rows: Rows in them, deleted ones too.
        position_delete_files: Files with positions of deleted rows, and deletion vectors.
        equality_delete_files: Files with keys of deleted rows.
        equality_deletes: Keys in them.
        size_bytes: Of all these files.
        snapshots: Of the table, on any branch.
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
        java: It takes paths as a `Consumer` and does nothing with them, so that an action that deletes only tells.
    """

    def __init__(self, jvm: Any) -> None:
        self.java: Any = java_class(jvm, __name__, "Manifests").newInstance()

    def count(self, table: Any, branch: str) -> DeleteCounts:
        """Count what a branch of a Java table consists of."""
        snapshot, snapshots = table.snapshot(branch), sum(1 for _ in table.snapshots())
        if snapshot is None:
            return DeleteCounts(snapshots=snapshots)
        data, positions, equality, keys, rows, size = self.java.count(table, snapshot)
        return DeleteCounts(data, rows, positions, equality, keys, size, snapshots)

    def unneeded(self, table: Any, snapshot: Any) -> Any:
        """Return the Java list of equality deletes that a scan of the snapshot applies to no data file.

        Iceberg's own planning decides; what it leaves out is older than every data file it could reach, or names keys
        outside their bounds, and rows that are written later it does not reach (specification, "Scan Planning").
        """
        return self.java.unneeded(table, snapshot)

    def remove(self, update: Any, deletes: Any) -> None:
        """Let a Java `RewriteFiles` remove delete files."""
        self.java.remove(update, deletes)

"""Inspects one branch of a table: the state of its files and snapshots, from metadata alone; runs on the driver."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from calve.engine.java.compiled import java_class
from calve.maintenance.context import MaintenanceContext
from calve.maintenance.old_snapshots import FOLLOWER, PastSnapshot, SnapshotHistory
from calve.maintenance.small_files import PartitionFiles, tiers
from calve.table.limits import MaintenanceLimits
from calve.table.loaded import MARK

__all__ = ["TARGET_BYTES", "BranchInspector", "BranchState"]

TARGET_BYTES = "write.target-file-size-bytes"
_DEFAULT_TARGET_BYTES = 512 << 20


@dataclass(frozen=True)
class BranchState:
    """A branch at one time.

    Attributes:
        table: The Java table.
        target_bytes: Its target size of a data file.
        manifests: Its data manifests.
        partitions: Its partitions.
        history: Its snapshots.
        delete_rows: The rows of its delete files.
        deleted_share: The share of its rows that position deletes delete.
    """

    table: Any
    target_bytes: int
    history: SnapshotHistory
    manifests: int = 0
    partitions: Sequence[PartitionFiles] = field(default_factory=tuple)
    delete_rows: int = 0
    deleted_share: float = 0.0


class BranchInspector:
    """Inspects one branch; each time it reads only the manifests that are new since the last time (`Files.java`).

    Args:
        context: The table and its branch.
    """

    def __init__(self, context: MaintenanceContext) -> None:
        self._context = context
        self.java: Any = java_class(context.jvm, __name__, "Files").newInstance()

    def inspect(self, limits: MaintenanceLimits) -> BranchState:
        """Return the current state of the branch. Raises what py4j raises, and NoTargetError."""
        table = self._context.load()
        branch = self._context.target.branch
        history = _history(json.loads(self.java.history(table, branch)), branch)
        target = int(history.properties.get(TARGET_BYTES, _DEFAULT_TARGET_BYTES))
        snapshot = table.snapshot(branch)
        if snapshot is None:
            return BranchState(table, target, history)
        described = json.loads(self.java.look(table, snapshot, list(tiers(target, limits))))
        partitions = tuple(PartitionFiles(*fields) for fields in described["partitions"])
        totals = snapshot.summary()
        positions, keys, rows = (
            int(totals.get(f"total-{kind}") or 0) for kind in ("position-deletes", "equality-deletes", "records")
        )
        share = positions / max(rows, 1)
        return BranchState(table, target, history, described["manifests"], partitions, positions + keys, share)

    def where(self, table: Any, partitions: Sequence[PartitionFiles]) -> Any:
        """Return the condition for the files of partitions, as a Java `Expression`."""
        return self.java.where(table, [partition.key for partition in partitions])


def _history(described: dict[str, Any], branch: str) -> SnapshotHistory:
    line, others = ([PastSnapshot(id, at / 1000, who) for id, at, who in described[key]] for key in ("line", "others"))
    heads: dict[str, tuple[int, bool]] = {name: (id, is_tag) for name, (id, is_tag) in described["heads"].items()}
    properties = described["properties"]
    marks = [key.removeprefix(MARK).partition("@")[0] for key in properties if key.startswith(MARK)]
    return SnapshotHistory(
        line=line,
        others=others,
        heads=frozenset(id for id, _ in heads.values()),
        followed={name: id for name, (id, is_tag) in heads.items() if is_tag and name.startswith(FOLLOWER)},
        pipelines=frozenset(marks),
        main=heads.get("main", (None, False))[0],
        properties=properties,
    )

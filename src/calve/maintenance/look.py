"""Looks at one branch of a table: what its files and snapshots are, from metadata alone; runs on the driver."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from calve.engine.java.compiled import java_class
from calve.maintenance.context import Workbench
from calve.maintenance.old_snapshots import FOLLOWER, History, PastSnapshot
from calve.maintenance.small_files import Partition, tiers
from calve.table.limits import Limits
from calve.table.loaded import MARK

__all__ = ["TARGET_BYTES", "Look", "Looks"]

TARGET_BYTES = "write.target-file-size-bytes"
_DEFAULT_TARGET_BYTES = 512 << 20


@dataclass(frozen=True)
class Look:
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
    history: History
    manifests: int = 0
    partitions: Sequence[Partition] = field(default_factory=tuple)
    delete_rows: int = 0
    deleted_share: float = 0.0


class Looks:
    """The looks at one branch, each of which reads only the manifests that the one before has not read (`Files.java`).

    Args:
        bench: The table and its branch.
    """

    def __init__(self, bench: Workbench) -> None:
        self._bench = bench
        self.java: Any = java_class(bench.jvm, __name__, "Files").newInstance()

    def take(self, limits: Limits) -> Look:
        """Return what the branch is now. Raises what py4j raises, and NoTargetError."""
        table = self._bench.load()
        branch = self._bench.target.branch
        history = _history(json.loads(self.java.history(table, branch)), branch)
        target = int(history.properties.get(TARGET_BYTES, _DEFAULT_TARGET_BYTES))
        snapshot = table.snapshot(branch)
        if snapshot is None:
            return Look(table, target, history)
        found = json.loads(self.java.look(table, snapshot, list(tiers(target, limits))))
        partitions = tuple(Partition(*one) for one in found["partitions"])
        totals = snapshot.summary()
        positions, keys, rows = (
            int(totals.get(f"total-{kind}") or 0) for kind in ("position-deletes", "equality-deletes", "records")
        )
        share = positions / max(rows, 1)
        return Look(table, target, history, found["manifests"], partitions, positions + keys, share)

    def where(self, table: Any, partitions: Sequence[Partition]) -> Any:
        """Return the condition for the files of partitions, as a Java `Expression`."""
        return self.java.where(table, [one.key for one in partitions])


def _history(found: dict[str, Any], branch: str) -> History:
    line, others = ([PastSnapshot(id, at / 1000, who) for id, at, who in found[key]] for key in ("line", "others"))
    heads: dict[str, tuple[int, bool]] = {name: (id, is_tag) for name, (id, is_tag) in found["heads"].items()}
    properties = found["properties"]
    marks = [key.removeprefix(MARK).partition("@")[0] for key in properties if key.startswith(MARK)]
    return History(
        line=line,
        others=others,
        heads=frozenset(id for id, _ in heads.values()),
        followed={name: id for name, (id, is_tag) in heads.items() if is_tag and name.startswith(FOLLOWER)},
        pipelines=frozenset(marks),
        properties=properties,
    )

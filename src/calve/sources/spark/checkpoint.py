"""What Spark's checkpoint of a stream says, and whether it belongs to the state. Runs on the driver.

Spark writes `offsets/<n>` before batch n and `commits/<n>` after it; `metadata` has the stream's id.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from calve.engine.engine import Engine
from calve.sources.source import Position
from calve.state import durable
from calve.state.values import decoded

__all__ = ["Checkpoint", "CheckpointState", "mismatch"]

_NONE = -1


@dataclass(frozen=True)
class CheckpointState:
    """How far a checkpoint is.

    Attributes:
        query: The id of its stream; None: there is no checkpoint.
        planned: The last batch that has its offsets; -1: none.
        committed: The last batch that is done; -1: none.
    """

    query: str | None = None
    planned: int = _NONE
    committed: int = _NONE


class Checkpoint:
    """The checkpoint at a location, through Hadoop, which Spark writes it with.

    Args:
        engine: Spark.
        location: A folder, with its scheme.
    """

    def __init__(self, engine: Engine, location: str) -> None:
        self.location = location
        self._jvm, self._hadoop = engine.jvm, engine.hadoop
        self._synced_ns = 0

    def read(self) -> CheckpointState:
        """Return how far it is.

        Raises:
            Py4JError: The file system refuses; the caller has the words for it.
        """
        path = self._jvm.org.apache.hadoop.fs.Path
        system = path(self.location).getFileSystem(self._hadoop)
        metadata = path(self.location, "metadata")
        if not system.exists(metadata):
            return CheckpointState()
        stream = system.open(metadata)
        try:
            content = self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8")
        finally:
            stream.close()
        query: str = decoded(str(metadata), content.encode())["id"]
        planned, committed = (self._last(system, path(self.location, name)) for name in ("offsets", "commits"))
        return CheckpointState(query, planned, committed)

    def sync(self) -> None:
        """Make durable what Spark has written since the last call, if it is on a local disk: Spark does not."""
        if not self.location.startswith("file:"):
            return
        newest_ns = self._synced_ns
        root = Path(self.location.removeprefix("file:"))
        for path in (root, *root.rglob("*")):
            with contextlib.suppress(FileNotFoundError):  # Spark removes old files meanwhile
                newest_ns = max(newest_ns, self._sync_changed(path))
        self._synced_ns = newest_ns

    def _sync_changed(self, path: Path) -> int:
        """Force a file or a folder to disk if it has changed since the last call; return when it has."""
        changed_ns = path.stat().st_mtime_ns
        if changed_ns >= self._synced_ns:
            durable.sync(path)
        return changed_ns

    def _last(self, system: Any, folder: Any) -> int:
        if not system.exists(folder):
            return _NONE
        names = [file.getPath().getName() for file in system.listStatus(folder)]
        return max((int(name) for name in names if name.isdecimal()), default=_NONE)


def mismatch(checkpoint: CheckpointState, position: Position | None) -> tuple[str, str] | None:
    """Return what is wrong and what helps, if a checkpoint does not continue where the ledger is; None: it does.

    Args:
        checkpoint: How far it is.
        position: That of the ledger: the id of the stream, and the last batch that the state has.
    """
    last = position["epoch"] if position else _NONE
    if position and checkpoint.query is None:
        return f"Spark's checkpoint is gone, and the tables have the stream up to its batch {last}", (
            "Bring the checkpoint back"
        )
    if position and checkpoint.query != position["query"]:
        return f"the checkpoint is that of another stream, and the tables have one up to its batch {last}", (
            "Bring the checkpoint of this stream back, or read another stream by another pipeline"
        )
    if checkpoint.committed > last or checkpoint.planned > last + 1:
        done = max(checkpoint.committed, checkpoint.planned - 1)
        return (
            f"the checkpoint is at batch {done} of the stream, and the state only at {last}: rows between are gone",
            ("Bring the state back that belongs to the checkpoint; or remove the checkpoint, too, to read all again"),
        )
    if checkpoint.query is not None and checkpoint.planned < last:
        return f"the checkpoint is an old one, at batch {checkpoint.planned}; the state is at {last}", (
            "Bring the newest checkpoint of this stream back"
        )
    return None

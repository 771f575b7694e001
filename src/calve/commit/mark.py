"""Where batches are committed, who commits them, and the property of the table that says how far they came."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from calve.commit.branch_keys import BranchKeys
from calve.errors import OvertakenError
from calve.ledger.ledger import Ledger
from calve.record.target import EQUALITY_DELETE, WriteMode
from calve.table.gate import CommitGate
from calve.table.loaded import MARK

__all__ = ["CommitTarget", "Mark"]


@dataclass(frozen=True)
class CommitTarget:
    """Where batches are committed.

    Attributes:
        identifier: Namespace and name of the table, joined by dots.
        uuid: The UUID of the table that the files were written for; empty: any.
        branch: The branch that gets the snapshot. A missing branch is created in the same commit, at the snapshot of
            `main`, or empty if the table has no snapshot.
        write_mode: How equality deletes among the files are committed: as they are, by position, or by a MERGE.
        keys: Finds rows by an index of their keys; None: by a scan.
        keeps_row_ids: Whether a row that is replaced by position keeps its id.
        write_as: The format and the write properties of its data files, if they are not committed as they were staged.
        gate: When the branch is published to `main`; None: never.
    """

    identifier: str
    uuid: str = ""
    branch: str = "main"
    write_mode: WriteMode = EQUALITY_DELETE
    keys: BranchKeys | None = field(default=None, compare=False)
    keeps_row_ids: bool = False
    write_as: Mapping[str, str] = field(default_factory=dict)
    gate: CommitGate | None = None


@dataclass(frozen=True)
class Mark:
    """Who commits.

    Attributes:
        pipeline: The pipeline's name.
        state_id: The identity of its ledger.
        batch: The last batch that this ledger has staged; a table with a later one belongs to another driver.
        confirm: Called with the time, in monotonic seconds, when the table was inspected. Raises OvertakenError if
            another driver may have owned the ledger by then.
    """

    pipeline: str
    state_id: str
    batch: int
    confirm: Callable[[float], None] = field(default=lambda _: None, compare=False)

    @staticmethod
    def of(ledger: Ledger) -> Mark:
        """Return the mark of the driver that owns a ledger."""
        return Mark(ledger.pipeline, ledger.state_id, ledger.last_staged, ledger.confirm)

    def key(self, branch: str) -> str:
        """Return the table property that holds the mark."""
        return f"{MARK}{self.pipeline}" + ("" if branch == "main" else f"@{branch}")

    def text(self, batch: int) -> str:
        """Return the mark of a batch."""
        return json.dumps({"state": self.state_id, "batch": batch})

    def summary(self, batch: int) -> dict[str, str]:
        """Return the summary of a snapshot that ends with a batch."""
        return {"calve.pipeline": self.pipeline, "calve.state": self.state_id, "calve.batch": str(batch)}

    def read(self, text: str | None, target: CommitTarget) -> int:
        """Return the last batch of this pipeline in a table, 0 for none.

        Args:
            text: The mark in the table.
            target: The table.

        Raises:
            OvertakenError: Another state has committed under this pipeline's name, or a newer copy of this one, or
                another driver has the state by now.
            WriteError: The store of the state does not answer.
        """
        if text is None:
            return 0
        written = json.loads(text)
        if written["state"] != self.state_id:
            raise OvertakenError(
                f"The table {target.identifier} has batches of a pipeline {self.pipeline!r} from another state folder",
                step="commit",
                target=target.identifier,
                hint="Run with that state folder, or rename this pipeline. If that state is lost, "
                f"`calve state rebuild` restores it from the tables. Do not remove the table property "
                f"{self.key(target.branch)}: then Calve "
                "reads the source from its beginning and duplicates the rows",
            )
        reached: int = written["batch"]
        if reached > self.batch:
            self.confirm(time.monotonic())  # who was replaced is told so, and not that there is a copy
            raise OvertakenError(
                f"The table {target.identifier} has batch {reached} of {self.pipeline!r}; "
                f"this state ends at {self.batch}",
                step="commit",
                target=target.identifier,
                hint="Another driver ran with a copy of this state folder: stop this driver, and run with the newer "
                "state",
            )
        return reached

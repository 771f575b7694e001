"""What a ledger keeps, and the seam to where it is kept: a local folder, or a prefix on an object store."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Protocol

import msgspec

from calve import structs
from calve.errors import InvariantError, SettingsError
from calve.observe.totals import Totals
from calve.record.staged import StagedBatch
from calve.sources.source import Planned, Position, Split

__all__ = [
    "FORMAT",
    "Committed",
    "Identity",
    "Kept",
    "Records",
    "check_identity",
    "check_source",
    "decoded",
    "encoded",
    "plan_of",
]

FORMAT = 1
"""The version of the files; Calve refuses a ledger of a later version."""
_CONTINUES = {("file", "file with tail")}
"""Kinds of sources, each with another one that understands its positions."""


class Committed(msgspec.Struct, frozen=True):
    """The progress that all tables of the pipeline have reached.

    Attributes:
        batch: The last committed batch, 0 for none.
        position: The source's position after it.
        totals: The pipeline's counts since its first start.
        moment: The batch's `Planned.time_tenths`.
    """

    batch: int = 0
    position: Position | None = None
    totals: Totals = msgspec.field(default_factory=Totals)
    moment: int = 0


class Identity(msgspec.Struct, frozen=True):
    """Whose ledger it is; decided by its first driver.

    Attributes:
        moved: The location of the copy that replaces this ledger; empty: none.
        source: The kind of source that its positions are of; empty: unknown.
    """

    format: int
    state: str
    pipeline: str
    created: str = ""
    moved: str = ""
    source: str = ""

    @staticmethod
    def of(state_id: str, pipeline: str) -> Identity:
        """Return the identity of a new ledger."""
        return Identity(FORMAT, state_id, pipeline, datetime.now(UTC).isoformat(timespec="seconds"))


class Kept(msgspec.Struct, frozen=True):
    """What was kept of an uncommitted batch: its plan, and its staged record if it has one."""

    planned: Planned
    staged: StagedBatch | None


class Records(Protocol):
    """The records of one ledger, which its driver owns until `close`.

    Every write is durable when it returns. It raises WriteError if nothing was recorded and it may be repeated, and
    OvertakenError if another driver owns the ledger by now.
    """

    @property
    def identity(self) -> Identity:
        """Whose ledger it is."""
        ...

    def committed(self) -> Committed:
        """Return the last committed progress."""
        ...

    def recover(self) -> dict[int, Kept]:
        """Return the uncommitted batches without gaps, and remove what a crash left."""
        ...

    def begin(self, batch: int, plan: dict[str, Any]) -> None:
        """Keep the plan of a new batch."""
        ...

    def stage(self, batch: int, record: StagedBatch, replaces: bool) -> None:
        """Keep a batch's staged record; `replaces`: instead of an older one."""
        ...

    def set_committed(self, committed: Committed, dropped: Sequence[int]) -> None:
        """Replace the committed progress, and drop the records of the batches that it covers for the first time."""
        ...

    def set_moved(self, location: str) -> None:
        """Record that a copy replaces this ledger: no driver opens it again."""
        ...

    def set_source(self, source: str) -> None:
        """Record the kind of source that later positions are of."""
        ...

    def check(self) -> None:
        """Raise OvertakenError if it is known that another driver owns the ledger; costs nothing."""
        ...

    def confirm(self, since: float) -> None:
        """Raise OvertakenError unless it is certain that this driver owned the ledger at `since`, in monotonic s."""
        ...

    def close(self) -> None:
        """Let the next driver in. May be called twice."""
        ...


def encoded(value: Any) -> bytes:
    """Return a record as JSON."""
    if isinstance(value, msgspec.Struct):
        return msgspec.json.encode(value)
    return json.dumps(value, separators=(",", ":")).encode()


def decoded(name: str, content: bytes, kind: Any = Any) -> Any:
    """Read a record.

    Raises:
        InvariantError: It is damaged.
    """
    try:
        return structs.decode(content, kind)
    except (ValueError, msgspec.DecodeError) as error:
        raise InvariantError(
            f"{name} is damaged: {error}",
            step="ledger",
            target=name,
            hint="Bring it back from a backup; going on without it could lose or double events",
        ) from error


def plan_of(plan: dict[str, Any]) -> Planned:
    """Read a kept plan."""
    splits = [Split(**split) for split in plan["splits"]]
    time_tenths = plan.get("time_tenths", plan.get("moment", 0))  # `moment` in older records
    return Planned(splits, plan["position"], tuple(plan.get("waiting", ())), time_tenths)


def check_identity(identity: Identity, pipeline: str, location: str) -> None:
    """Check that a ledger may be opened.

    Raises:
        SettingsError: It belongs to another pipeline or a later version, or a copy replaces it.
    """
    problem = hint = ""
    if identity.format > FORMAT:
        problem = f"was written by a later version of Calve (format {identity.format}, this one knows {FORMAT})"
        hint = "Upgrade Calve"
    elif identity.pipeline != pipeline:
        problem = f"is the state of the pipeline {identity.pipeline!r}, not of {pipeline!r}"
        hint = "Give this pipeline another `--state`, or its old name back"
    elif identity.moved:
        problem = f"was copied to {identity.moved}, which replaces it"
        hint = f"Run with --state {identity.moved}. To return to this folder, copy that state to a new one"
    if problem:
        raise SettingsError(f"{location} {problem}", step="start", target=location, hint=hint)


def check_source(identity: Identity, source: str, has_pending: bool, location: str) -> None:
    """Check that a kind of source understands the positions of a ledger.

    Args:
        identity: Whose ledger it is.
        source: The kind of source.
        has_pending: Whether some batches are not committed.
        location: The state, for the message.

    Raises:
        SettingsError: It does not.
    """
    before = identity.source
    understands = before in ("", source) or (before, source) in _CONTINUES
    if understands and not (has_pending and before):
        return
    hint = f"Run it once more with the source {before} and --once, which commits all that was begun"
    if not understands:
        hint = f"Set the source back to {before}. Or: {hint}; then give it another name or --state, to begin anew"
    raise SettingsError(
        f"The state of the pipeline {identity.pipeline} is of the source {before}; {source} cannot go on from there",
        step="start",
        target=location,
        hint=hint,
    )

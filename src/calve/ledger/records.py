"""What a ledger keeps, whether in a local folder or on an object store."""

from __future__ import annotations

from collections.abc import Collection
from datetime import UTC, datetime
from typing import TypeVar

import msgspec

from calve.errors import InvariantError, SettingsError
from calve.observe.totals import Totals
from calve.record.key_file import KeyFile
from calve.record.staged import StagedBatch
from calve.sources.source import Planned, Position, Split
from calve.state.folder import StateFolder
from calve.state.values import read, read_as

__all__ = [
    "FORMAT",
    "Committed",
    "Kept",
    "LedgerIdentity",
    "check_complete",
    "check_identity",
    "check_source",
    "read_plan",
    "read_record",
]

T = TypeVar("T")

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
        key_files: The files with the keys to remember after the batch.
    """

    batch: int = 0
    position: Position | None = None
    totals: Totals = msgspec.field(default_factory=Totals)
    moment: int = 0
    key_files: list[KeyFile] = []


class LedgerIdentity(msgspec.Struct, frozen=True):
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
    def of(state_id: str, pipeline: str) -> LedgerIdentity:
        """Return the identity of a new ledger."""
        return LedgerIdentity(FORMAT, state_id, pipeline, datetime.now(UTC).isoformat(timespec="seconds"))


class Kept(msgspec.Struct, frozen=True):
    """What was kept of an uncommitted batch: its plan, and its staged record if it has one."""

    planned: Planned
    staged: StagedBatch | None


def read_record(folder: StateFolder, name: str, kind: type[T]) -> T:
    """Return a record that must exist.

    Raises:
        InvariantError: It is missing or damaged.
    """
    record = read_as(folder, name, kind)
    if record is None:
        hint = "Bring it back from a backup"
        raise InvariantError(f"{folder}/{name} is missing", step="ledger", target=str(folder), hint=hint)
    return record


def read_plan(folder: StateFolder, name: str) -> Planned:
    """Return the plan of a batch.

    Raises:
        InvariantError: It is missing or damaged.
    """
    plan = read(folder, name)
    if plan is None:
        hint = "Bring it back from a backup"
        raise InvariantError(f"{folder}/{name} is missing", step="ledger", target=str(folder), hint=hint)
    splits = [Split(**split) for split in plan["splits"]]
    time_tenths = plan.get("time_tenths", plan.get("moment", 0))  # `moment` in older records
    waiting, accepted = tuple(plan.get("waiting", ())), plan.get("accepted_through", 0.0)
    return Planned(splits, plan["position"], waiting, time_tenths, accepted)


def check_complete(batches: Collection[int], done: int, folder: StateFolder) -> None:
    """Check that no batch after the last committed one is missing.

    Raises:
        InvariantError: One is.
    """
    if sorted(batches) != list(range(done + 1, done + len(batches) + 1)):
        raise InvariantError(
            f"{folder} has batches {sorted(batches)} after batch {done}: one is missing",
            step="ledger",
            target=str(folder),
            hint="Bring what is missing back from a backup",
        )


def check_identity(identity: LedgerIdentity, pipeline: str, location: str) -> None:
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


def check_source(identity: LedgerIdentity, source: str, has_pending: bool, location: str) -> None:
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
        hint = f"Set the source back to {before}. Or: {hint}; then rename the pipeline. Under its new name it"
        hint += " starts at the beginning of its source, and duplicates the rows that its tables have from there"
    raise SettingsError(
        f"The state of the pipeline {identity.pipeline} is of the source {before}; {source} cannot go on from there",
        step="start",
        target=location,
        hint=hint,
    )

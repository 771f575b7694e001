"""What one task reports to the driver.

A task writes a receipt as JSON, or a failure if an error ended it. The driver's `spark_job` reads it and builds the
record of a staged batch (`calve.record.staged`) from the receipts of all tasks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from calve import structs
from calve.columns.infer import Inferred
from calve.errors import CalveError
from calve.record.key_file import KeyFile
from calve.record.target import TableRef
from calve.record.written import FailedRules, Ignored, IndexDocuments, Nulled, Rejects, StagedFiles

__all__ = ["Failure", "Misfit", "ReadCounts", "Receipt", "merge_misfits"]


class Misfit(msgspec.Struct, frozen=True):
    """A table that lacks columns for its events, or does not exist. The driver evolves or creates it.

    Attributes:
        target: The table.
        inferred: The columns that the events need; None without inference.
    """

    target: TableRef
    inferred: Inferred | None = None


class ReadCounts(msgspec.Struct):
    """What a task read. The task counts in it; the staged batch has the sums.

    Attributes:
        events: The events.
        bytes: Their length.
        unrouted: Events that no route selected.
        skipped: Envelopes that do not describe a row change.
        dropped: Events that a processor dropped.
        added: How many more events there are than were read, because a processor split some.
        core_failures: How often the compiled core failed and the exact converter replaced it.
        duplicates: Events of `dropped` whose key had passed before.
        forgotten_keys: Keys that were forgotten before the end of their window, because there were too many.
    """

    events: int = 0
    bytes: int = 0
    unrouted: int = 0
    skipped: int = 0
    dropped: int = 0
    added: int = 0
    core_failures: int = 0
    duplicates: int = 0
    forgotten_keys: int = 0


class Receipt(msgspec.Struct, frozen=True, tag="receipt"):
    """What one task of a pass did. Written by tasks; the driver joins all receipts into a staged batch.

    Attributes:
        tables: The files that it wrote.
        documents: The documents that it wrote.
        rejects: The dead letters that it wrote.
        nulled: The values that became null.
        ignored: The fields that no column has.
        failed_rules: The rows that did not follow rules.
        misfits: The tables that must be created or evolved first; the task wrote nothing for them.
        seen: What it read.
        seconds: The time of each step.
        is_first: Whether the pass is the batch's first one; later passes read events again.
        task: Its number; -1 for a task of the second stage, which writes what others shuffled.
        shuffled_parts: How many parts of partitions it shuffled.
        record_times: The latest time of the records that it read, by origin, in microseconds since the epoch.
        lines: What the driver prints, each with its line break.
        key_files: The files with the keys to remember after the batch.
    """

    tables: list[StagedFiles] = []
    documents: list[IndexDocuments] = []
    rejects: list[Rejects] = []
    nulled: list[Nulled] = []
    ignored: list[Ignored] = []
    failed_rules: list[FailedRules] = []
    misfits: list[Misfit] = []
    seen: ReadCounts = msgspec.field(default_factory=ReadCounts)
    seconds: dict[str, float] = {}
    is_first: bool = False
    task: int = -1
    shuffled_parts: int = 0
    record_times: dict[str, int] = {}
    lines: list[str] = []
    key_files: list[KeyFile] = []


class Failure(msgspec.Struct, frozen=True, omit_defaults=True, tag="failure"):
    """The error that ended a task, as data. Written by tasks; the driver raises it.

    Attributes:
        error: The name of the error's class; the others are its attributes.
    """

    error: str
    message: str
    step: str = ""
    target: str = ""
    hint: str = ""
    sink: int | None = None
    evidence: str = ""

    @staticmethod
    def of(error: CalveError) -> Failure:
        """Convert an error to data."""
        return structs.convert(error.to_dict(), Failure)

    def to_error(self) -> CalveError:
        """Rebuild the error."""
        attributes: Mapping[str, Any] = msgspec.to_builtins(self)
        return CalveError.from_dict({key: value for key, value in attributes.items() if key != "type"})


def merge_misfits(receipts: Iterable[Receipt]) -> list[Misfit]:
    """Join the misfits of all tasks by table; new columns follow the order of the tasks."""
    merged: dict[TableRef, Misfit] = {}
    for misfit in (misfit for receipt in receipts for misfit in receipt.misfits):
        earlier = merged.get(misfit.target)
        if earlier is None or earlier.inferred is None:
            merged[misfit.target] = misfit
        elif misfit.inferred is not None:
            merged[misfit.target] = Misfit(misfit.target, earlier.inferred.merge(misfit.inferred))
    return list(merged.values())

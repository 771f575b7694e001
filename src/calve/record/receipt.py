"""What one task reports to the driver.

A task writes a receipt as JSON, or a failure if an error ended it; the driver's `spark_job` reads it, and makes the
record of a staged batch (`calve.record.staged`) of the receipts of all tasks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from calve.columns.infer import Inferred
from calve.errors import CalveError
from calve.record.target import TableRef
from calve.record.written import Ignored, IndexDocuments, Nulled, Rejects, TableFiles

__all__ = ["Failure", "Misfit", "Receipt", "Seen", "merge_misfits"]


class Misfit(msgspec.Struct, frozen=True):
    """A table that events do not fit: it is unknown, or fields have no column. The driver makes the table fit.

    Attributes:
        target: The table.
        inferred: The columns that the events need; None where nothing is inferred.
    """

    target: TableRef
    inferred: Inferred | None = None


class Seen(msgspec.Struct):
    """What a task read. The task counts in it; the staged batch has the sums.

    Attributes:
        events: The events.
        bytes: Their length.
        unrouted: Events that no route took.
        passed_over: Envelopes that are no change of a row.
        core_failures: How often the compiled core failed, so that the exact converter did its work.
    """

    events: int = 0
    bytes: int = 0
    unrouted: int = 0
    passed_over: int = 0
    core_failures: int = 0


class Receipt(msgspec.Struct, frozen=True, tag="receipt"):
    """What one task of a pass did. Written by tasks; read by the driver, which makes a staged batch of all receipts.

    Attributes:
        tables: The files that it wrote.
        documents: The documents that it wrote.
        rejects: The dead letters that it wrote.
        nulled: The values that became null.
        ignored: The fields that no column has.
        misfits: The tables that its events do not fit; it wrote nothing for them.
        seen: What it read.
        seconds: The time of each step.
        is_first: Whether the pass is the batch's first one; later passes read events again.
        task: Its number; -1 for a task that wrote what others handed on.
        handed_on: How many parts of partitions it handed on.
    """

    tables: list[TableFiles] = []
    documents: list[IndexDocuments] = []
    rejects: list[Rejects] = []
    nulled: list[Nulled] = []
    ignored: list[Ignored] = []
    misfits: list[Misfit] = []
    seen: Seen = msgspec.field(default_factory=Seen)
    seconds: dict[str, float] = {}
    is_first: bool = False
    task: int = -1
    handed_on: int = 0


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
        """Return an error as data."""
        return msgspec.convert(error.to_dict(), Failure)

    def to_error(self) -> CalveError:
        """Return the error again."""
        found: Mapping[str, Any] = msgspec.to_builtins(self)
        return CalveError.from_dict({key: value for key, value in found.items() if key != "type"})


def merge_misfits(receipts: Iterable[Receipt]) -> list[Misfit]:
    """Join the misfits of all tasks by table; the order of tasks decides the order of new columns."""
    merged: dict[TableRef, Misfit] = {}
    for misfit in (misfit for receipt in receipts for misfit in receipt.misfits):
        known = merged.get(misfit.target)
        if known is None or known.inferred is None:
            merged[misfit.target] = misfit
        elif misfit.inferred is not None:
            merged[misfit.target] = Misfit(misfit.target, known.inferred.merge(misfit.inferred))
    return list(merged.values())

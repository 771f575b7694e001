"""The record of a staged batch, as the ledger keeps it on disk until the batch is committed."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from calve.record.key_file import KeyFile
from calve.record.written import FailedRules, Ignored, IndexDocuments, Nulled, Rejects, StagedFiles
from calve.sources.source import Planned, Position

if TYPE_CHECKING:
    from calve.record.receipt import Receipt  # with PyIceberg, which a start needs later than the ledger

__all__ = ["StagedBatch"]


class StagedBatch(msgspec.Struct, frozen=True):
    """Everything the tasks of a batch did. The driver writes it to the ledger; committer, progress and counts read it.

    Calve reads records of its own and of all earlier versions, and ignores unknown keys. A new key that must not be
    ignored needs a higher `FORMAT` of the ledger.

    Attributes:
        batch: The batch's number.
        position: The source's position after it.
        tables: The files that wait for a commit, one entry for each task, table and branch.
        rejects: The dead letters.
        nulled: The values that became null.
        ignored: The fields that no column has.
        failed_rules: The rows that did not follow rules.
        documents: The documents, which are written already.
        events: The events that were read. This, the next four, and the last ones before `key_files` are sums of
            `ReadCounts`.
        waiting: The parts of the source with more events after the position (`Planned.waiting`).
        since: When its oldest event was first seen waiting, in seconds since the epoch.
        staged_at: When it was staged, in seconds since the epoch.
        steps: Seconds of each step, of all tasks together.
        seconds: How long the batch took.
        record_times: The latest time of the source's records by origin, in microseconds since the epoch.
        key_files: The files with the keys to remember after it.
    """

    batch: int
    position: Position
    tables: list[StagedFiles]
    events: int
    bytes: int
    unrouted: int
    rejects: list[Rejects] = []
    nulled: list[Nulled] = []
    ignored: list[Ignored] = []
    documents: list[IndexDocuments] = []
    passed_over: int = 0
    core_failures: int = 0
    waiting: list[str] = []
    since: float = 0.0
    staged_at: float = 0.0
    steps: dict[str, float] = {}
    seconds: float = 0.0
    dropped: int = 0
    added: int = 0
    record_times: dict[str, int] = {}
    failed_rules: list[FailedRules] = []
    duplicates: int = 0
    forgotten_keys: int = 0
    key_files: list[KeyFile] = []

    @staticmethod
    def of(batch: int, planned: Planned, receipts: Sequence[Receipt], since: float, seconds: float) -> StagedBatch:
        """Join the receipts of a batch; it counts as staged at this moment.

        Args:
            batch: Its number.
            planned: Its splits and the position after them.
            receipts: Of all passes. Events count once, in the first pass: later passes read them again.
            since: When its oldest event was first seen waiting.
            seconds: How long it took.
        """
        accepted = {"": int(planned.accepted_through * 1_000_000)} if planned.accepted_through else {}
        first = [receipt.seen for receipt in receipts if receipt.is_first]
        steps = receipts[0].seconds if receipts else {}
        return StagedBatch(
            batch=batch,
            position=planned.position,
            waiting=list(planned.waiting),
            since=since,
            staged_at=time.time(),
            events=sum(seen.events for seen in first),
            bytes=sum(seen.bytes for seen in first),
            unrouted=sum(seen.unrouted for seen in first),
            passed_over=sum(seen.skipped for seen in first),
            core_failures=sum(receipt.seen.core_failures for receipt in receipts),
            tables=[entry for receipt in receipts for entry in receipt.tables],
            documents=[entry for receipt in receipts for entry in receipt.documents],
            rejects=[entry for receipt in receipts for entry in receipt.rejects],
            nulled=[entry for receipt in receipts for entry in receipt.nulled],
            ignored=[entry for receipt in receipts for entry in receipt.ignored],
            failed_rules=[entry for receipt in receipts for entry in receipt.failed_rules],
            steps={step: round(sum(receipt.seconds[step] for receipt in receipts), 3) for step in steps},
            seconds=seconds,
            dropped=sum(seen.dropped for seen in first),
            added=sum(seen.added for seen in first),
            duplicates=sum(seen.duplicates for seen in first),
            forgotten_keys=sum(seen.forgotten_keys for seen in first),
            key_files=[file for receipt in receipts for file in receipt.key_files],
            record_times=_latest([accepted, *(receipt.record_times for receipt in receipts if receipt.is_first)]),
        )


def _latest(times: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Join the latest times by origin of several tasks."""
    latest: dict[str, int] = {}
    for of_task in times:
        for origin, micros in of_task.items():
            latest[origin] = max(micros, latest.get(origin, micros))
    return latest

"""The counts of a pipeline since its first start; the ledger keeps them with the last committed batch."""

from __future__ import annotations

from dataclasses import replace

import msgspec

from calve.observe.report import PipelineReport, TableReport

__all__ = ["Totals"]


class Totals(msgspec.Struct, frozen=True):
    """The counts that outlive a process. Unknown keys are ignored, and defaults never change.

    Attributes:
        event_times: How far tables are complete: catalog, table, branch, and the two of `watermark.EventTime`.
        origins: The last event of each origin (`watermark.OriginSeen`).
    """

    events: int = 0
    bytes: int = 0
    unrouted: int = 0
    passed_over: int = 0
    dropped: int = 0
    added: int = 0
    duplicates: int = 0
    forgotten_keys: int = 0
    rejects: dict[str, int] = {}
    batches: int = 0
    last_batch: int | None = None
    tables: dict[str, TableReport] = {}
    event_times: list[tuple[str, str, str, int, int | None]] = []
    origins: list[tuple[str, str, str, str, int, float]] = []

    @staticmethod
    def of(report: PipelineReport) -> Totals:
        """Return the lasting counts of a report, which must not change any more."""
        tables = {
            name: replace(table, error=None, converting=False, conversion_error=None)
            for name, table in report.tables.items()
        }
        return Totals(
            events=report.events,
            bytes=report.bytes,
            unrouted=report.unrouted,
            passed_over=report.passed_over,
            dropped=report.dropped,
            added=report.added,
            duplicates=report.duplicates,
            forgotten_keys=report.forgotten_keys,
            rejects=report.rejects,
            batches=report.batches,
            last_batch=report.last_batch,
            tables=tables,
        )

    def report(self, pipeline: str) -> PipelineReport:
        """Return the report of a pipeline that continues from these counts; it shares no data with them."""
        return PipelineReport.from_dict({**msgspec.to_builtins(self), "pipeline": pipeline})

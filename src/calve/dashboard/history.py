"""The last hour of each pipeline: a sample every ten seconds, in memory and in one local file."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import msgspec

from calve import structs
from calve.dashboard.row_history import SAMPLE_SECONDS, SPAN_SECONDS, RowHistory
from calve.files.private import make_private
from calve.observe.log import Log
from calve.observe.report import PipelineReport
from calve.state import durable

__all__ = ["SAMPLE_SECONDS", "SPAN_SECONDS", "Sample", "SampleHistory"]

MOST_PIPELINES = 200
"""With these limits the files stay below 10 MB each."""
_MOST_SAMPLES = SPAN_SECONDS // SAMPLE_SECONDS + 1


class Sample(msgspec.Struct, array_like=True, frozen=True):
    """The figures of a pipeline at one time.

    Attributes:
        at: Epoch seconds.
        events: Events read since the first start.
        lag_rows: -1: unknown.
        freshness_seconds: None: unknown.
        rejects: Events rejected since the first start.
        refused: Requests refused since the process started.
    """

    at: float
    events: int
    lag_rows: int
    lag_bytes: int
    freshness_seconds: float | None
    rejects: int = 0
    refused: int = 0

    @staticmethod
    def of(report: PipelineReport) -> Sample:
        """Return the figures of a report, at the time when it was written."""
        at = report.updated.timestamp() if report.updated else 0.0
        counts = sum(report.rejects.values()), sum(report.refused.values())
        return Sample(at, report.events, report.lag_rows, report.lag_bytes, report.freshness_seconds, *counts)


class SampleHistory:
    """Samples by pipeline, oldest first. Thread-safe; a file that cannot be read or written is logged once.

    Args:
        file: Where it is kept over restarts; None: only in memory.

    Attributes:
        rows: The rows of tables.
    """

    def __init__(self, file: Path | None) -> None:
        self._file = file
        self.rows = RowHistory(file and file.with_name("rows.json"))
        self._lock = threading.Lock()
        self._refused = False
        self._samples: dict[str, list[Sample]] = self._load()

    def add(self, reports: list[PipelineReport], now: float | None = None) -> None:
        """Add a sample of each pipeline, and forget those that are too old."""
        self.rows.add(reports, now)
        oldest = (time.time() if now is None else now) - SPAN_SECONDS
        with self._lock:
            for report in reports[:MOST_PIPELINES]:
                samples = self._samples.setdefault(report.pipeline, [])
                sample = Sample.of(report)
                if not samples or sample.at > samples[-1].at:
                    samples.append(sample)
            kept = {name: _recent(samples, oldest) for name, samples in self._samples.items()}
            self._samples = {name: samples for name, samples in kept.items() if samples}

    def fill(self, pipeline: str, samples: list[Sample]) -> None:
        """Replace the samples of a pipeline; oldest first."""
        with self._lock:
            self._samples[pipeline] = list(samples)

    def of(self, pipeline: str) -> list[Sample]:
        """Return the samples of a pipeline, oldest first."""
        with self._lock:
            return list(self._samples.get(pipeline, ()))

    def save(self) -> None:
        """Write the files."""
        self.rows.save()
        if self._file is None or not self._samples:
            return
        with self._lock:
            data = msgspec.json.encode(self._samples)
        try:
            make_private(self._file.parent)
            durable.replace(self._file, data)
            self._refused = False
        except Exception as error:  # the dashboard goes on without it
            if not self._refused:
                Log().warning(f"the dashboard's history is not kept: {self._file} cannot be written: {error}")
            self._refused = True

    def _load(self) -> dict[str, list[Sample]]:
        if self._file is None:
            return {}
        try:
            return structs.decode(self._file.read_bytes(), dict[str, list[Sample]])
        except FileNotFoundError:
            return {}
        except (OSError, msgspec.DecodeError) as error:
            Log().warning(f"the dashboard's history begins again: {self._file} cannot be read: {error}")
            return {}


def _recent(samples: list[Sample], oldest: float) -> list[Sample]:
    return [sample for sample in samples if sample.at >= oldest][-_MOST_SAMPLES:]

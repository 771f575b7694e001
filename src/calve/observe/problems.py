"""What is wrong with a pipeline now: the one definition for `calve status`, the dashboard, health and the alerts.

A problem has the name of its alert in `alerts.yaml`, if there is one; a rule asks the metrics for the same condition.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from calve.observe import tally
from calve.observe.gate_report import GateReport
from calve.observe.humanize import ago, duration, harmless, many, size
from calve.observe.liveness import liveness
from calve.observe.report import PipelineReport, Trouble, now

__all__ = ["Level", "Problem", "lag_of", "problems"]

Level = Literal["good", "note", "bad"]
"""good · note: it goes on, and somebody should know · bad: events or tables wait until something is done."""

_RECENT_SECONDS = 900.0
_COMMITS_SECONDS, _FRESH_SECONDS = 1_800.0, 900.0
_LASTING_SECONDS = 120.0
"""An error of a running pipeline that persists occurs again after at most a minute (`backoff`)."""
_SHOWN = 5
_MOST_MANIFESTS = 1_000
_MANIFESTS_HINT = "Maintenance joins manifests: calve maintain, or leave the option maintenance on; commit less often"
_LIST_BYTES_A_FILE = 1024
_MOST_SMALL_FILES = 10_000


@dataclass(frozen=True)
class Problem:
    """Something that is wrong now.

    Attributes:
        alert: The name of its alert; empty: it has none.
        where: The table; empty: the pipeline.
        when: How long it has lasted, or when it last occurred; empty: unknown.
    """

    alert: str
    level: Level
    where: str
    what: str
    hint: str = ""
    when: str = ""

    def sentence(self) -> str:
        """Return what is wrong, and what helps."""
        return f"{self.what}. {self.hint}" if self.hint else self.what


def lag_of(report: PipelineReport) -> str:
    """Return what waits in the source."""
    if report.lag_rows > 0:
        return many(report.lag_rows, "row")
    return size(report.lag_bytes) if report.lag_bytes > 0 else "none"


def problems(report: PipelineReport, is_behind: bool = False) -> list[Problem]:
    """Return what is wrong now, the worst first.

    Args:
        report: The pipeline.
        is_behind: Whether its lag grows, which takes more than one report to see.
    """
    is_alive = liveness(report) == "alive"
    parts = [*_process(report), *_errors(report), *_source(report), *_counts(report)]
    if is_alive:
        parts += [*_delays(report), *(_trend(report) if is_behind and not report.paused else ())]
    if report.paused:
        hint = harmless(f"calve resume {shlex.quote(report.pipeline)}")
        parts.append(Problem("", "note", "", "Paused: it reads no events", hint))
    return sorted(parts, key=lambda problem: problem.level != "bad")


def _process(report: PipelineReport) -> Iterator[Problem]:
    news = ago(report.updated) if report.updated else "never"
    match liveness(report):
        case "gone":
            what = "The process is not running and did not end by itself"
            yield Problem(
                "CalveGone", "bad", "", what, "Start it again: calve run continues after the last commit", news
            )
        case "silent":
            hint = f"Look at the process {report.pid} on {report.host}"
            yield Problem("CalveGone", "bad", "", f"No news since {news}", hint, news)
        case "ended" if report.state == "failed" and not report.errors:
            yield Problem("CalvePipelineFailed", "bad", "", "The pipeline failed", "Its log has the reason", news)


def _errors(report: PipelineReport) -> Iterator[Problem]:
    name = "CalvePipelineFailed" if report.state == "failed" else "CalveErrors"
    yield from (_trouble(name, "bad", "", error) for error in report.errors)
    for table, counts in sorted(report.tables.items()):
        if counts.error:
            yield _trouble("CalveTableHeld", "bad", table, counts.error)
        if counts.gate and counts.gate.blocked:
            yield _not_published(table, counts.gate)
        for error in (counts.conversion_error, counts.maintenance_error):
            if error:
                yield _trouble("", "note", table, error)


def _not_published(table: str, gate: GateReport) -> Problem:
    what = f"{many(gate.rows, 'row')} on the branch {harmless(gate.branch)} are not published: {harmless(gate.reason)}"
    hint = f"Look at them; then {harmless(f'calve publish {shlex.quote(table)}')} --force, or --discard"
    when = f"for {ago(gate.since).removesuffix(' ago')}" if gate.since else ""
    return Problem("CalveNotPublished", "bad", harmless(table), what, hint, when)


def _trouble(alert: str, level: Level, where: str, error: Trouble) -> Problem:
    return Problem(alert, level, harmless(where), harmless(error.message), harmless(error.hint), _when(error))


def _when(error: Trouble) -> str:
    """Return how long an error has lasted, or when it last occurred if that is long ago."""
    if error.last and (now() - error.last).total_seconds() > _LASTING_SECONDS:
        return ago(error.last)
    return f"for {ago(error.since).removesuffix(' ago')}" if error.since else ""


def _source(report: PipelineReport) -> Iterator[Problem]:
    if report.dead_letters_full:
        what = "It reads nothing, as there is no room for dead letters"
        hint = "Free space on the disk of their folder"
        if report.dead_letter_bytes:
            what += f": they have {size(report.dead_letter_bytes)}"
            hint = "calve dlq list counts them; calve dlq replay sends them again, and then old files can be moved away"
        yield Problem("CalveDeadLettersFull", "bad", "", what, hint)
    if report.refusing and liveness(report) == "alive":
        what = f"It refuses events: {harmless(report.refusing.rstrip('.'))}"
        yield Problem("CalveRefuses", "bad", "", what, "Clients send them again once the cause is gone; see the log")
    for name, table in sorted(report.tables.items()):
        if table.files and table.files.manifests > _MOST_MANIFESTS:
            what = f"{table.files.manifests:,} manifests: every query reads their list first"
            yield Problem("CalveManyManifests", "note", harmless(name), what, _MANIFESTS_HINT)
        if table.files and table.files.manifest_list_bytes > _LIST_BYTES_A_FILE * table.files.data_files:
            what = f"The list of manifests has {size(table.files.manifest_list_bytes)}, more than 1 KiB for a data file"
            yield Problem("CalveManifestListTooLarge", "note", harmless(name), what, _MANIFESTS_HINT)
        if (table.small_files or 0) > _MOST_SMALL_FILES:
            what = f"{table.small_files:,} small files: they come faster than maintenance joins them"
            hint = "Commit less often, use coarser partitions, or give maintenance a larger share_of_cores"
            yield Problem("CalveManySmallFiles", "note", harmless(name), what, hint)
    for address, receiver in sorted(report.notify.items()):
        if receiver.error:
            what = f"{many(receiver.waiting, 'event')} wait: {harmless(receiver.error)}"
            hint = f"{receiver.dropped:,} were dropped" if receiver.dropped else "They are sent when it answers"
            yield Problem("CalveNotificationsWait", "note", harmless(address), what, hint)
    if report.otlp and report.otlp.error:
        what = f"The OpenTelemetry collector gets no metrics: {harmless(report.otlp.error)}"
        yield Problem("", "note", "", what, "Each push has the current values, so nothing is lost once it answers")
    for stopped_table in report.stopped_tables:
        what = "The source does not read this table or topic any more, while the others go on"
        yield Problem(
            "CalveSourceTableStopped",
            "bad",
            harmless(stopped_table),
            what,
            "calve source tables has the reason; of a topic the line `source` of calve status",
        )


def _counts(report: PipelineReport) -> Iterator[Problem]:
    """Yield the dead letters that wait, and what happened in this run, and not long ago if it still runs."""
    run = report.run
    if pending := report.pending_by_code():
        count = sum(pending.values())
        codes = "" if "" in pending else f": {_largest(pending)}"
        what = f"{many(count, 'dead letter waits', 'dead letters wait')}{codes}"
        hint = "calve dlq show has the reasons; calve dlq replay sends them again after a fix"
        yield Problem("CalveRejects", "note", "", what, hint, _last(report.last_reject))
    if run.nulled and _is_recent(report, report.last_nulled):
        what = f"Values of this run that did not fit and became NULL: {_largest(run.nulled)}"
        hint = "on_type_mismatch: dlq keeps such events as dead letters instead"
        yield Problem("CalveNulledValues", "note", "", what, hint, _last(report.last_nulled))
    if report.refused and _is_recent(report, report.last_refused):
        what = f"Requests refused in this run, by status: {_largest(report.refused)}"
        yield Problem("CalveRefusedRequests", "note", "", what, "The log has an example", _last(report.last_refused))


def _is_recent(report: PipelineReport, last: datetime | None) -> bool:
    at = now() if liveness(report) == "alive" else report.updated
    return last is not None and at is not None and (at - last).total_seconds() < _RECENT_SECONDS


def _last(at: datetime | None) -> str:
    return f"the last {ago(at)}" if at else ""


def _largest(counts: Mapping[str, int]) -> str:
    return harmless(tally.largest(counts, _SHOWN))


def _delays(report: PipelineReport) -> Iterator[Problem]:
    last = report.last_commit
    age = (now() - last).total_seconds() if last else 0.0
    if report.lag_rows > 0 and age > _COMMITS_SECONDS and not report.paused:
        what = f"Nothing was committed for {duration(age)}, and {lag_of(report)} wait in the source"
        yield Problem("CalveCommitsNothing", "bad", "", what)
    if (report.freshness_seconds or 0.0) > _FRESH_SECONDS and age < _FRESH_SECONDS:
        yield Problem(
            "CalveStale", "note", "", f"Events become visible after {duration(report.freshness_seconds or 0)}"
        )


def _trend(report: PipelineReport) -> Iterator[Problem]:
    what = f"Events arrive faster than they are written: {lag_of(report)} wait in the source, and the lag grows"
    hint = "Give Calve more cores (--master 'local[8]') or memory, or wait until the peak is over"
    yield Problem("CalveFallsBehind", "note", "", what, hint)

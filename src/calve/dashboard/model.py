"""What the pages show about a pipeline: its verdict, its problems and the health of its tables."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from calve.dashboard.history import Sample
from calve.errors import CalveError
from calve.observe.describe import index_of, state_of
from calve.observe.humanize import ago, amount, duration, harmless, many, size
from calve.observe.liveness import Liveness, liveness
from calve.observe.problems import Level, Problem, lag_of
from calve.observe.problems import problems as problems_now
from calve.observe.report import PipelineReport, TableReport

__all__ = [
    "MANY_FILES",
    "MANY_SNAPSHOTS",
    "Overview",
    "Problem",
    "TableView",
    "by_level",
    "by_problem",
    "is_behind",
    "lag_of",
    "overview",
    "problems",
    "tables",
    "unreadable",
]

_TREND_SECONDS = 300
_LEAST_LAG_ROWS, _LEAST_LAG_BYTES = 1_000, 1 << 20
_SMALL_BYTES, MANY_FILES = 16 << 20, 200
MANY_SNAPSHOTS = 3_000
_MANY_DELETES = 0.1
"""Rows of deletes, as a share of the table's rows written by Calve."""


@dataclass(frozen=True)
class Overview:
    """A pipeline in one line.

    Attributes:
        spark_pages: The address of Spark's own pages; empty: there are none now.
    """

    name: str
    level: Level
    state: str
    verdict: str
    rate: str
    lag: str
    freshness: str
    written: str
    waiting: str
    last_commit: str
    spark_pages: str


@dataclass(frozen=True)
class TableView:
    """A table in one line.

    Attributes:
        name: Its name without control characters; `key` is the name itself.
        command: The command that maintains it.
        key_index: What the index of its keys has; empty: there is none.
        advice: What maintenance would improve.
    """

    name: str
    key: str
    command: str
    is_dead_letters: bool
    is_held: bool
    level: Level
    written: str
    commits: str
    last_commit: str
    files: str
    average: str
    delete_rows: str
    snapshots: str
    key_index: str
    maintained: str
    advice: list[str]


def overview(report: PipelineReport, samples: Sequence[Sample]) -> Overview:
    """Return a pipeline in one line."""
    all_problems = problems(report, samples)
    alive = liveness(report) == "alive"
    waiting = sum(report.pending_by_code().values())
    freshness = report.freshness_seconds
    return Overview(
        name=report.pipeline,
        level=_worst(all_problems),
        state=harmless(state_of(report)),
        verdict=_verdict(report, samples, liveness(report)),
        rate=f"{amount(report.events_per_second)} events/s" if alive else "–",
        lag=lag_of(report) + _lag_in_time(report),
        freshness="unknown" if freshness is None else f"within {duration(freshness)}",
        written=many(report.rows, "row"),
        waiting=f"{waiting:,}",
        last_commit=ago(report.last_commit) if report.last_commit else "never",
        spark_pages=report.spark_pages if alive and report.spark_pages.startswith(("http://", "https://")) else "",
    )


def _lag_in_time(report: PipelineReport) -> str:
    """Return how long the lag takes at the present rate; empty: unknown, or too short to matter."""
    rate = report.events_per_second
    seconds = report.lag_rows / rate if rate >= 1 and report.lag_rows > 0 else 0.0
    return f", {duration(seconds)} at this rate" if seconds >= 1 else ""


def is_behind(samples: Sequence[Sample]) -> bool:
    """Return whether the lag has grown for five minutes, in every third of them, to more than a little."""
    recent = [sample for sample in samples if sample.at >= samples[-1].at - _TREND_SECONDS]
    if len(recent) < 4 or recent[-1].at - recent[0].at < _TREND_SECONDS / 2:
        return False
    in_rows = all(sample.lag_rows >= 0 for sample in recent)
    lags = [sample.lag_rows if in_rows else sample.lag_bytes for sample in recent]
    steps = [lags[len(lags) * part // 3 - (part == 3)] for part in range(4)]
    grows = all(before < after for before, after in pairwise(steps))
    return grows and lags[-1] >= (_LEAST_LAG_ROWS if in_rows else _LEAST_LAG_BYTES)


def problems(report: PipelineReport, samples: Sequence[Sample]) -> list[Problem]:
    """Return what is wrong now, the worst first."""
    return problems_now(report, bool(samples) and is_behind(samples))


def by_problem(problems_of: Mapping[str, Sequence[Problem]]) -> list[tuple[list[str], Problem]]:
    """Return the pipelines of each problem, the worst first: one cause, e.g. a broker that is down, is shown once."""
    groups: dict[tuple[str, ...], tuple[list[str], Problem]] = {}
    for pipeline, its_problems in problems_of.items():
        for problem in its_problems:
            key = problem.level, problem.where, problem.what, problem.hint
            groups.setdefault(key, ([], problem))[0].append(pipeline)
    return sorted(groups.values(), key=lambda group: group[1].level != "bad")


def unreadable(error: CalveError) -> Problem:
    """Return the problem of a pipeline whose status cannot be read."""
    return Problem("", "bad", "", harmless(error.message), harmless(error.hint))


def tables(report: PipelineReport) -> list[TableView]:
    """Return the tables of a pipeline: those with errors first, then those that need maintenance, each by name."""
    views = [_table(name, table, report) for name, table in sorted(report.tables.items())]
    return sorted(views, key=by_level)


def by_level(entry: Problem | TableView | Overview) -> int:
    """Return the place of something in a list that begins with the worst."""
    return ("bad", "note", "good").index(entry.level)


def _worst(sorted_problems: Sequence[Problem]) -> Level:
    return sorted_problems[0].level if sorted_problems else "good"


def _verdict(report: PipelineReport, samples: Sequence[Sample], process: Liveness) -> str:
    if process != "alive":
        return {"ended": "ended", "gone": "not running"}.get(process, "silent")
    if report.errors:
        return "does not read or write"
    if report.refusing:
        return "refuses events"
    if report.paused:
        return "paused"
    if samples and is_behind(samples):
        return "falls behind"
    return "holds tables" if any(table.error for table in report.tables.values()) else "keeps up"


def _table(name: str, table: TableReport, report: PipelineReport) -> TableView:
    files, advice = table.files, list(_advice(table))
    average = files.size_bytes / files.data_files if files and files.data_files else 0.0
    return TableView(
        name=harmless(name),
        key=name,
        command=harmless(f"calve maintain {shlex.quote(name)}"),
        is_dead_letters=name in report.dead_letter_tables,
        is_held=table.error is not None,
        level="bad" if table.error else "note" if advice else "good",
        written=many(table.rows, "row"),
        commits=f"{table.commits:,}",
        last_commit=ago(table.last_commit) if table.last_commit else "never",
        files=f"{many(files.data_files, 'file')}, {size(files.size_bytes)}" if files else "unknown",
        average=size(average) if average else "unknown",
        delete_rows=f"{files.delete_rows:,} in {many(files.delete_files, 'file')}" if files else "unknown",
        snapshots=f"{files.snapshots:,}" if files else "unknown",
        key_index=index_of(table.key_index) if table.key_index else "",
        maintained=ago(files.last_maintenance) if files and files.last_maintenance else "never",
        advice=advice,
    )


def _advice(table: TableReport) -> Iterator[str]:
    files = table.files
    if files is None:
        return
    if files.data_files >= MANY_FILES and files.size_bytes / files.data_files < _SMALL_BYTES:
        yield "many small files: compact"
    if files.delete_rows > _MANY_DELETES * max(table.rows, 1):
        yield "many deleted rows: compact"
    if files.snapshots > MANY_SNAPSHOTS:
        yield "many snapshots: expire"

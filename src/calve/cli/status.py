"""`calve status`."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial

import click

from calve.cli import options
from calve.cli.help import Command
from calve.cli.output import echo
from calve.cli.table import columns
from calve.observe import tally
from calve.observe.describe import index_of, state_of
from calve.observe.humanize import ago, amount, duration, harmless, many, size
from calve.observe.liveness import liveness
from calve.observe.notices import IGNORED_HINT, NULLED_HINT
from calve.observe.problems import problems
from calve.observe.report import PipelineReport, TableReport

__all__ = ["status"]


@click.command(cls=Command)
@options.state
@options.only_pipeline
@click.option("--verbose", is_flag=True, help="Also show how the files of the last batch were written, and why.")
@options.json_output
@options.debug
def status(state: str, pipeline: str | None, verbose: bool, as_json: bool) -> None:
    """Show each pipeline and table: rows, rejects, lag, last commit, staged batches, errors and hints.

    It reads the status files in the state folder, so it works while pipelines run and after they have ended.

    Examples:
      calve status
      calve status --state /var/lib/calve --pipeline orders
      calve status --json | jq '.pipelines[].tables'
    """
    from calve.cli.states import no_pipelines  # here, so that `calve status --help` needs no Arrow
    from calve.observe.status_file import read_replay, read_reports

    reports = [report for report in read_reports(state) if pipeline in (None, report.pipeline, *report.feeds)]
    if any(report.rejects for report in reports):
        from calve.dead_letters.pending import PendingInState  # brings Arrow

        for report in reports:
            PendingInState(state).complete(report)
    if not reports:
        raise no_pipelines(state, pipeline)
    replays = {report.pipeline: read_replay(state, report.pipeline) for report in reports}
    if as_json:
        replay_of = {name: {"replay": replay.to_dict()} for name, replay in replays.items() if replay}
        pipelines = [
            {**report.to_dict(), "process": liveness(report), **replay_of.get(report.pipeline, {})}
            for report in reports
        ]
        echo(json.dumps({"pipelines": pipelines}, indent=2))
    else:
        echo("\n\n".join("\n".join(_lines(report, replays[report.pipeline], verbose)) for report in reports))


def _lines(report: PipelineReport, replay: PipelineReport | None, verbose: bool) -> Iterator[str]:
    feeds = f" (feeds {', '.join(report.feeds)})" if report.feeds else ""
    yield f"{report.pipeline}{feeds}: {state_of(report)}"
    yield f"  {', '.join(_figures(report))}"
    if report.source and liveness(report) == "alive":
        yield f"  source: {harmless(report.source)}"
    if report.spark_pages and liveness(report) == "alive":
        yield f"  Spark's pages: {harmless(report.spark_pages)}"
    if report.tables:
        yield from (f"  {line}" for line in _tables(report))
    yield from (f"  {line}" for line in _receivers(report))
    if replay and replay.events:
        yield f"  {_replayed(replay)}"
    yield from (f"  {harmless(line)}" for line in _not_written(report))
    if report.files and verbose:
        yield f"  files of the last batch: {report.files}"
    if homeless := report.rejects_without_table():
        yield f"  rejects without a table: {_counts(homeless)}"
    for problem in problems(report):
        word = "error" if problem.level == "bad" else "warning"
        where = f" in {problem.where}" if problem.where else ""
        sentence = problem.what if problem.alert == _EXPLAINED else problem.sentence()
        yield f"  {word}{where}{f' ({problem.when})' if problem.when else ''}: {sentence}"


def _replayed(replay: PipelineReport) -> str:
    """Return what all replays together sent; the other figures are without it."""
    counts = {name: table.rows for name, table in replay.targets.items() if table.rows}
    tables = f" ({harmless(tally.largest(counts, _SHOWN))})" if counts else ""
    again = f"{sum(replay.rejects.values()):,} rejected again"
    when = f", {ago(replay.updated)}" if replay.updated else ""
    return f"dead letters sent again: {many(replay.events, 'event')}, {many(replay.rows, 'row')}{tables}, {again}{when}"


def _receivers(report: PipelineReport) -> Iterator[str]:
    for address, receiver in sorted(report.notify.items()):
        dropped = f", {receiver.dropped:,} dropped" if receiver.dropped else ""
        yield f"notify {harmless(address)}: {receiver.sent:,} sent, {receiver.waiting:,} waiting{dropped}"
    if report.otlp:
        yield f"otlp: metrics pushed {many(report.otlp.sent, 'time')}, {report.otlp.failed:,} pushes failed"


def _figures(report: PipelineReport) -> Iterator[str]:
    yield f"{many(report.events, 'event')} read"
    if liveness(report) == "alive":
        yield f"{amount(report.events_per_second)} events/s"
    if report.lag_rows > 0 or report.lag_bytes > 0:
        yield "lag " + (many(report.lag_rows, "row") if report.lag_rows > 0 else size(report.lag_bytes))
    else:
        yield "no lag"
    if report.staged_batches:
        yield f"{many(report.staged_batches, 'batch', 'batches')} staged"
    if report.unrouted:
        yield f"{many(report.unrouted, 'event')} without a route"
    if report.dropped:
        duplicates = f", {report.duplicates:,} of them duplicates" if report.duplicates else ""
        yield f"{many(report.dropped, 'event')} dropped by processors{duplicates}"
    if report.forgotten_keys:
        yield f"{many(report.forgotten_keys, 'key')} of deduplicate forgotten too early (max_keys)"
    if report.added:
        yield f"{many(report.added, 'event')} more, made by splitting events"
    if report.passed_over:
        yield f"{many(report.passed_over, 'tombstone or control record', 'tombstones and control records')} skipped"
    if report.freshness_seconds is not None:
        yield f"fresh within {duration(report.freshness_seconds)}"


def _tables(report: PipelineReport) -> Iterator[str]:
    tables = report.tables.values()
    more: list[tuple[str, Callable[[TableReport], str]]] = []
    if any(table.ignored for table in tables):
        more.append(("not written", lambda table: _counts(table.ignored)))
    if any(table.failed_rules for table in tables):
        more.append(("failed rules", lambda table: _counts(table.failed_rules)))
    if any(table.gate for table in tables):
        more.append(("not published", _unpublished))
    if any(table.valid_through for table in tables):
        more.append(("valid through", _through))
    if any(table.late_events for table in tables):
        more.append((">late", lambda table: f"{table.late_events:,}"))
    if any(table.superseded for table in tables):
        more.append((">superseded", lambda table: f"{table.superseded:,}"))
    if any(table.equality_deletes or table.last_conversion for table in tables):
        more.append(("equality deletes", partial(_deletes, liveness(report) == "alive")))
    if any(table.key_index for table in tables):
        more.append(("key index", lambda table: index_of(table.key_index) if table.key_index else "-"))
    if any(table.maintenance_rounds for table in tables):
        more.append(("maintained", _maintained))
    named = [(_name(name, report), table) for name, table in sorted(report.tables.items())]
    rows = [(*_row(*item), *(cell(item[1]) for _, cell in more)) for item in named]
    yield from columns((*_HEADINGS, *(heading for heading, _ in more)), rows)


_SHOWN = 5
_EXPLAINED = "CalveNulledValues"
"""The problem whose hint `_not_written` has already."""
_HEADINGS = ("table", ">written", ">commits", "last commit", "rejects", "set to NULL")


def _name(table: str, report: PipelineReport) -> str:
    return f"{table} (dead letters)" if table in report.dead_letter_tables else table


def _row(name: str, table: TableReport) -> tuple[str, ...]:
    last = ago(table.last_commit) if table.last_commit else "never"
    return name, f"{table.rows:,}", f"{table.commits:,}", last, _counts(table.rejects), _counts(table.nulled)


def _unpublished(table: TableReport) -> str:
    if not table.gate or not table.gate.commits:
        return "-"
    why = "" if table.gate.blocked else f" ({table.gate.reason.partition(';')[0]})"
    return harmless(f"{many(table.gate.rows, 'row')} on {table.gate.branch}{why}")


def _through(table: TableReport) -> str:
    return table.valid_through.strftime("%Y-%m-%d %H:%M:%SZ") if table.valid_through else "-"


def _deletes(is_alive: bool, table: TableReport) -> str:
    rows = f"{table.equality_deletes:,}"
    if table.converting and is_alive:
        return f"{rows} (being converted)"
    return f"{rows} (converted {ago(table.last_conversion)})" if table.last_conversion else rows


def _maintained(table: TableReport) -> str:
    last = table.files.last_maintenance if table.files else None
    return ago(last) if last else "-"


def _counts(counts: dict[str, int]) -> str:
    return harmless(tally.largest(counts, _SHOWN)) or "-"


def _not_written(report: PipelineReport) -> Iterator[str]:
    """Explain the columns `set to NULL` and `not written`, each with a hint."""
    for name, table in sorted(report.tables.items()):
        for column in sorted(table.nulled, key=lambda field: -table.nulled[field])[:_SHOWN]:
            if reason := table.reasons.get(column):
                yield f"set to NULL in {name}, column {column}, for example: {reason}"
    if any(table.nulled for table in report.tables.values()):
        yield f"set to NULL: values that are not coercible. {NULLED_HINT}"
    if any(table.ignored for table in report.tables.values()):
        what = "a field without a column, a repeated key, or a time that was rounded"
        yield f"not written: number of events with {what}. {IGNORED_HINT}"

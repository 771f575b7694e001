"""`calve publish`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from calve.cli import failures, options
from calve.cli.catalogs import catalog_of, iceberg_sinks, pipelines
from calve.cli.help import Command
from calve.cli.output import echo
from calve.cli.table import columns
from calve.errors import SettingsError
from calve.observe.humanize import harmless, many
from calve.observe.log import configure
from calve.table.gate import CommitGate

if TYPE_CHECKING:
    from calve.commit.publish import PublishOutcome
    from calve.sinks.iceberg.settings import IcebergSettings

__all__ = ["publish"]

_NOT_PUBLISHED = 4
"""The exit code if commits still wait."""


@click.command(cls=Command)
@click.argument("tables", metavar="TABLE...", nargs=-1, required=True)
@click.option("--force", is_flag=True, help="Publish whatever the rules say.")
@click.option("--discard", is_flag=True, help="Throw away all commits that wait; their events are not read again.")
@click.option("--dry-run", is_flag=True, help="Only show what waits, and what each rule says.")
@click.option("--branch", metavar="NAME", help="The branch. [default: that of --pipelines, or audit]")
@options.catalog
@pipelines
@options.json_output
@options.master
@options.conf
@options.debug
@click.pass_context
def publish(ctx: click.Context, /, tables: tuple[str, ...], as_json: bool, **chosen: Any) -> None:
    """Publish what waits on the branch of a sink with `publish`: move main forward to it.

    Without --force only as far as the rules hold, e.g. after they were changed. The pipeline may run meanwhile. Exit
    codes: 0 nothing waits any more, 4 commits still wait.

    Examples:
      calve publish shop.orders --pipelines orders.yaml --dry-run
      calve publish shop.orders --pipelines orders.yaml
      calve publish shop.orders --force
      calve publish shop.orders --discard
    """
    from calve.cli.maintain import contexts

    if chosen["force"] and chosen["discard"]:
        raise click.UsageError("--force and --discard exclude each other")
    sinks = iceberg_sinks(chosen["pipelines"]) if chosen["pipelines"] else []
    if chosen["pipelines"]:
        chosen["catalog"] = {**catalog_of(chosen["pipelines"], sinks), **chosen["catalog"]}
    elif not (chosen["force"] or chosen["discard"]):
        raise SettingsError(
            "The rules are not known",
            step="settings",
            target="--pipelines",
            hint="Set --pipelines with the YAML file of the pipeline, or decide with --force or --discard",
        )
    configure(debug=ctx.meta[failures.DEBUG])
    gates = {table: _gate(table, sinks, chosen) for table in tables}
    reports = []
    for context in contexts(tables, chosen):
        branch, gate = gates[context.name]
        publication = _publish(context.catalog, context.name, branch, gate, chosen)
        reports.append(_report(context.name, branch, publication, chosen))
        for line in [] if as_json else _lines(reports[-1], publication):
            echo(harmless(line))
    if as_json:
        echo(json.dumps({"tables": reports}, indent=2))
    ctx.exit(_NOT_PUBLISHED if any(report["done"] == "waits" for report in reports) else 0)


def _gate(table: str, sinks: list[IcebergSettings], chosen: dict[str, Any]) -> tuple[str, CommitGate]:
    """Return the branch and the rules of a table, from the sink that names it, or else any that has a gate."""
    named = [sink.of(table) for sink in sinks if sink.table_identifier == table]
    named += [sink.of(table) for sink in sinks if sink.table_identifier != table and sink.dynamic]
    own = [sink.publish for sink in named if sink.publish]
    if sinks and not own:
        raise SettingsError(f"No sink of {chosen['pipelines']} has `publish` for {table}", step="settings")
    branch = chosen["branch"] or (own[0].branch if own else "audit")
    return branch, own[0].gate if own else CommitGate()


def _publish(catalog: Any, table: str, branch: str, gate: CommitGate, chosen: dict[str, Any]) -> PublishOutcome:
    from calve.commit.published import discard_waiting, publish_waiting

    if chosen["discard"]:
        return discard_waiting(catalog, table, branch, chosen["dry_run"])
    return publish_waiting(catalog, table, branch, gate, chosen["force"], chosen["dry_run"])


def _report(table: str, branch: str, publication: PublishOutcome, chosen: dict[str, Any]) -> dict[str, Any]:
    """Return what was done to a table, as JSON values; of a dry run what would be."""
    done = "published" if publication.published is not None else "nothing"
    if publication.commits:
        done = "discarded" if chosen["discard"] and not chosen["dry_run"] else "waits"
    return {
        "table": table,
        "branch": branch,
        "done": done,
        "dry_run": chosen["dry_run"],
        "main": publication.published,
        "commits": publication.commits,
        "rows": publication.rows,
        "reason": publication.reason,
        "rules": {
            rule.rule: {"word": rule.word, "figure": rule.figure, "text": rule.text, "snapshot": rule.snapshot}
            for rule in publication.verdicts
        },
    }


def _lines(report: dict[str, Any], publication: PublishOutcome) -> Iterator[str]:
    waiting = f"{many(report['commits'], 'commit')} with {many(report['rows'], 'row')}"
    would = "would be " if report["dry_run"] else ""
    match report["done"]:
        case "published":
            yield f"{report['table']}: {would}published: main is at snapshot {report['main']} of {report['branch']}"
        case "discarded":
            yield f"{report['table']}: discarded: {waiting}; {report['branch']} is where main is"
        case "nothing":
            yield f"{report['table']}: nothing waits on {report['branch']}"
    if report["done"] == "waits":
        yield f"{report['table']}: {waiting} wait on {report['branch']}: {report['reason']}"
    rows = [(rule.rule, rule.word, rule.text, str(rule.snapshot or "-")) for rule in publication.verdicts]
    yield from (f"  {line}" for line in columns(("rule", "verdict", "figure", "snapshot"), rows) if rows)

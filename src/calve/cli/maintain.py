"""`calve maintain`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from calve.cli import failures, options
from calve.cli.catalogs import catalog_of, iceberg_sinks, pipelines
from calve.cli.help import Command
from calve.cli.output import echo
from calve.cli.table import columns
from calve.errors import SettingsError
from calve.observe.humanize import size
from calve.observe.log import Log, configure
from calve.table.limits import DEFAULTS

if TYPE_CHECKING:
    from calve.maintenance.context import MaintenanceContext
    from calve.maintenance.upkeep import MaintenanceReport
    from calve.sinks.iceberg.settings import IcebergSettings

__all__ = ["contexts", "maintain"]

_STEPS = ("convert", "compact", "expire", "orphans")
_CONF = {
    "spark.sql.shuffle.partitions": "8",  # only lists of files are joined here
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=4",  # rows pass through this JVM
}
_BEGINS = {
    "convert": "converting equality deletes",
    "compact": "compacting",
    "expire": "expiring snapshots",
    "orphans": "looking for orphans",
}
_FIGURES = {
    "data_files": "data files",
    "position_delete_files": "position delete files",
    "equality_delete_files": "equality delete files",
    "equality_deletes": "equality deletes, rows",
    "size_bytes": "bytes",
    "snapshots": "snapshots",
}


@click.command(cls=Command)
@click.argument("tables", metavar="TABLE...", nargs=-1, required=True)
@options.catalog
@pipelines
@click.option("--branch", default="main", show_default=True, metavar="NAME", help="Branch to convert and compact.")
@click.option("--only", multiple=True, type=click.Choice(_STEPS), help="Only this step; repeatable.")
@click.option(
    "--older-than",
    metavar="DURATION",
    callback=options.maybe_duration,
    help="Minimum age of removed snapshots and orphans, e.g. P7D. [default: the table's, or 5 days; orphans 3 days]",
)
@click.option("--dry-run", is_flag=True, help="Only show what would be done.")
@click.option("--plan", is_flag=True, help="Only show what a running pipeline would do by itself, and why.")
@click.option("--force", is_flag=True, help="Also remove orphans younger than three days.")
@options.json_output
@options.master
@options.conf
@options.debug
@click.pass_context
def maintain(ctx: click.Context, /, tables: tuple[str, ...], as_json: bool, **chosen: Any) -> None:
    """Compact tables, convert their equality deletes, expire old snapshots, remove orphans; each step if needed.

    Pipelines and other writers may keep writing. After a crash the tables are intact; run the command again.

      convert  replace equality deletes by deletes by position; files that this cannot do are rewritten. Then PyIceberg
               and Snowflake can read the table, and all reads are faster
      compact  merge small files into large ones
      expire   remove old snapshots, and the files that only they use; tags and branches are kept
      orphans  delete files that belong to no snapshot. Staged files of a pipeline are kept, however old they are, and
               dead letters are not touched. Files younger than three days may belong to a running write; they are
               only deleted with --force

    Examples:
      calve maintain shop.orders
      calve maintain shop.orders shop.items --dry-run
      calve maintain shop.orders --only convert --only compact
      calve maintain shop.orders --only expire --older-than 12h
      calve maintain shop.orders --pipelines orders.yaml
      calve maintain shop.orders --plan --pipelines orders.yaml
      calve maintain shop.orders --catalog type=rest --catalog uri=http://127.0.0.1:8181 --catalog warehouse=s3://wh/
    """
    from calve.maintenance.orphans import check_age  # brings Spark's Python side
    from calve.maintenance.upkeep import MaintenanceOptions

    steps = chosen["only"] or _STEPS
    older_than: timedelta | None = chosen["older_than"]
    if "orphans" in steps:
        check_age(older_than, chosen["force"])
    sinks = iceberg_sinks(chosen["pipelines"]) if chosen["pipelines"] else []
    if chosen["pipelines"]:
        chosen["catalog"] = {**catalog_of(chosen["pipelines"], sinks), **chosen["catalog"]}
    if not chosen["catalog"] and not Path("lakehouse/catalog.db").is_file():
        raise SettingsError(
            "There is no catalog in ./lakehouse",
            step="settings",
            target="--catalog",
            hint="Change to the folder of the pipeline, or set the catalog: --catalog type=… --catalog uri=…",
        )
    configure(debug=ctx.meta[failures.DEBUG])
    if chosen["plan"]:
        plans = [_planned(context, sinks, as_json) for context in contexts(tables, chosen)]
        if as_json:
            echo(json.dumps({"tables": plans}, indent=2))
        ctx.exit(failures.FAILED if any(table_plan["error"] for table_plan in plans) else 0)
    reports = list(_reports(tables, MaintenanceOptions(steps, older_than, chosen["dry_run"]), chosen, as_json))
    if as_json:
        echo(json.dumps({"tables": [report.to_dict() for report in reports]}, indent=2))
    ctx.exit(failures.FAILED if any(report.error for report in reports) else 0)


def _planned(context: MaintenanceContext, sinks: Sequence[IcebergSettings], as_json: bool) -> dict[str, Any]:
    """Show the plan of a table, by the options of the sink that names it; those of a `${…}` are any sink's."""
    from calve.cli.maintenance_plan import lines, plan

    own = [sink for sink in sinks if sink.table_identifier == context.name] or list(sinks)
    limits = own[0].limits if own else DEFAULTS
    table_plan = plan(context, limits or DEFAULTS)
    if limits is None:
        Log().warning(f"{context.name}: `maintenance: false`, so the pipeline does nothing of this")
    for line in [] if as_json else lines(table_plan):
        echo(line)
    if table_plan["error"]:
        echo(f"Error: {table_plan['error']['message']}", err=True)
    return table_plan


def contexts(tables: tuple[str, ...], chosen: dict[str, Any]) -> Iterator[MaintenanceContext]:
    """Start Spark, and yield table after table."""
    from calve.catalog import storage
    from calve.catalog.catalog import Catalog
    from calve.commit.mark import CommitTarget
    from calve.engine import session
    from calve.maintenance.context import MaintenanceContext

    Log().info("starting Spark, which takes some seconds")
    spark = session.start(chosen["master"], {**_CONF, **chosen["conf"]}, storage.needs_s3(chosen["catalog"]))
    try:
        catalog = Catalog(spark, chosen["catalog"])
        catalog.open()
        for table in tables:
            yield MaintenanceContext(spark, catalog, CommitTarget(table, branch=chosen["branch"]))
    finally:
        session.stop(spark)


def _reports(
    tables: tuple[str, ...], wishes: Any, chosen: dict[str, Any], as_json: bool
) -> Iterator[MaintenanceReport]:
    """Maintain table after table; a failure does not affect the others."""
    from calve.maintenance.upkeep import maintain as maintain_table

    for context in contexts(tables, chosen):
        report = maintain_table(context, wishes, partial(_begins, context.name))
        _print_report(report, as_json, wishes.dry_run)
        yield report


def _print_report(report: MaintenanceReport, as_json: bool, dry_run: bool) -> None:
    for line in [] if as_json else _lines(report, dry_run):
        echo(line)
    if report.error:
        echo(f"Error: {report.error}", err=True)


def _begins(table: str, step: str) -> None:
    Log().info(f"{table}: {_BEGINS[step]}")


def _lines(report: MaintenanceReport, dry_run: bool) -> Iterator[str]:
    if report.error and not report.done:
        return
    branch = "" if report.branch == "main" else f" (branch {report.branch})"
    yield f"{report.table}{branch}{': what would be done' if dry_run else ''}"
    for action in report.done:
        yield f"  {action.step:<8} {action.text}"
    before, after = report.before.to_dict(), report.after.to_dict()
    rows = [(name, _figure(key, before[key]), _figure(key, after[key])) for key, name in _FIGURES.items()]
    cells = [row[:2] for row in rows] if dry_run else rows
    headings = ("", ">now") if dry_run else ("", ">before", ">after")
    yield from (f"  {line}" for line in columns(headings, cells))


def _figure(key: str, value: int) -> str:
    return size(value) if key == "size_bytes" else f"{value:,}"

"""`calve wait`."""

from __future__ import annotations

import time
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import click

from calve.cli import options
from calve.cli.catalogs import chosen_catalog, pipelines
from calve.cli.help import Command
from calve.cli.output import echo
from calve.errors import CalveError, NoTargetError, SettingsError, Verdict
from calve.settings import units

if TYPE_CHECKING:
    from pyiceberg.table import Table

__all__ = ["wait"]

_NOT_COMPLETE = 4
"""The exit code when the time is over."""


def _duration(_: click.Context, __: click.Parameter, value: str) -> timedelta:
    try:
        return units.duration(value)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


@click.command(cls=Command)
@click.argument("table")
@click.option("--partition", metavar="PERIOD", required=True, help="An hour, day, month or year in UTC: 2026-11-25.")
@click.option("--branch", default="main", show_default=True, help="The branch of the table.")
@click.option("--pipeline", metavar="NAME", help="Only what this pipeline writes. [default: all that write the table]")
@click.option("--timeout", callback=_duration, default="1h", show_default=True, help="How long to wait; 0s: look once.")
@click.option("--every", callback=_duration, default="10s", show_default=True, help="How often to look.")
@options.catalog
@pipelines
@options.debug
@click.pass_context
def wait(
    ctx: click.Context,
    /,
    table: str,
    partition: str,
    branch: str,
    pipeline: str | None,
    timeout: timedelta,
    every: timedelta,
    catalog: dict[str, str],
    pipelines: Path | None,
) -> None:
    """Wait until a table is complete through the end of an hour, a day, a month or a year.

    It reads the snapshots of the table, without Spark. Exit codes: 0 complete, 4 not in time.

    Examples:
      calve wait shop.orders --partition 2026-11-25 --timeout 6h
      calve wait shop.orders --partition 2026-11-25T13 --timeout 0s
    """
    from calve.acknowledge.periods import named  # here, so that `calve wait --help` is fast
    from calve.catalog.open_tables import OpenTables

    period, properties = named(partition), chosen_catalog(pipelines, catalog)
    deadline = time.monotonic() + timeout.total_seconds()
    while True:
        through, reason = None, ""
        try:
            through = _through(OpenTables(properties).open(table), branch, pipeline)
        except CalveError as error:
            if not isinstance(error, NoTargetError) and error.verdict is not Verdict.AGAIN:
                raise
            reason = f" ({error.message})"
        through_text = through.strftime("%Y-%m-%d %H:%M:%SZ") if through else f"unknown{reason}"
        if through is not None and through >= period.end:
            echo(f"{table} is complete in {period.name}: valid through {through_text}")
            return
        if (seconds := deadline - time.monotonic()) <= 0:
            echo(f"Error: {table} is not complete in {period.name}: valid through {through_text}", err=True)
            ctx.exit(_NOT_COMPLETE)
        time.sleep(min(every.total_seconds(), seconds))


def _through(table: Table, branch: str, pipeline: str | None) -> datetime | None:
    """Return through which time all pipelines have completed a branch; None: it is not known of one of them."""
    reference = table.metadata.refs.get(branch)
    if reference is None and branch != "main":
        raise SettingsError(f"The table has no branch {branch}", step="wait", hint="Set --branch")
    snapshot = table.metadata.snapshot_by_id(reference.snapshot_id) if reference else None
    newest: dict[str, str] = {}
    names: set[str] = set()
    while snapshot is not None:
        summary = snapshot.summary.additional_properties if snapshot.summary else {}
        name, through = summary.get("calve.pipeline"), summary.get("calve.valid-through")
        if name and not name.endswith(".replay") and pipeline in (None, name):
            names.add(name)
            if through:
                newest.setdefault(name, through)
        parent = snapshot.parent_snapshot_id
        snapshot = table.metadata.snapshot_by_id(parent) if parent is not None else None
    if not names or names - newest.keys():
        return None
    return datetime.fromisoformat(min(newest.values()))

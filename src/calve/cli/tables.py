"""`calve tables`."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from calve.cli import failures, options
from calve.cli.catalogs import chosen_catalog, pipelines
from calve.cli.help import Command
from calve.cli.output import echo
from calve.cli.table import columns
from calve.errors import CalveError
from calve.observe.humanize import ago, size

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from calve.catalog.open_tables import OpenTables

__all__ = ["tables"]


@click.command(cls=Command)
@options.catalog
@pipelines
@options.json_output
@options.debug
@click.pass_context
def tables(ctx: click.Context, /, catalog: dict[str, str], pipelines: Path | None, as_json: bool) -> None:
    """List the tables of a catalog: rows, files, the last commit, where they are; without Spark.

    Rows that deletes remove are counted until they are compacted.

    Examples:
      calve tables
      calve tables --pipelines orders.yaml
      calve tables --catalog type=rest --catalog uri=http://127.0.0.1:8181 --catalog warehouse=s3://wh/ --json
    """
    from calve.catalog.open_tables import OpenTables  # here, so that `calve tables --help` is fast

    opened = OpenTables(chosen_catalog(pipelines, catalog))
    described = [_opened(opened, name) for name in opened.names()]
    if as_json:
        echo(json.dumps({"tables": described}, indent=2))
    elif not described:
        echo(f"No tables. {opened.absence()}".rstrip(), err=True)
    else:
        headings = ("table", ">columns", ">rows", ">files", ">size", "last commit", "location")
        for line in columns(headings, [_row(table) for table in described]):
            echo(line)
    for table in described:
        if error := table.get("error"):
            echo(f"Error: {error}", err=True)
    if any("error" in table for table in described):
        ctx.exit(failures.FAILED)


def _opened(tables: OpenTables, name: str) -> dict[str, Any]:
    """Describe a table; one that cannot be opened has an error instead, and the others are listed."""
    try:
        return _described(name, tables.open(name))
    except CalveError as error:
        return {"table": name, "error": str(error)}


def _described(name: str, table: Table) -> dict[str, Any]:
    snapshot = table.current_snapshot()
    summary = snapshot.summary.additional_properties if snapshot and snapshot.summary else {}
    at = datetime.fromtimestamp(snapshot.timestamp_ms // 1000, UTC) if snapshot else None
    deletes = sum(int(summary.get(f"total-{kind}-deletes", 0)) for kind in ("position", "equality"))
    return {
        "table": name,
        "columns": [{"name": field.name, "type": str(field.field_type)} for field in table.schema().fields],
        "rows": int(summary.get("total-records", 0)),
        "deletes": deletes,
        "files": int(summary.get("total-data-files", 0)),
        "bytes": int(summary.get("total-files-size", 0)),
        "last_commit": at.isoformat() if at else None,
        "location": table.location(),
    }


def _row(table: dict[str, Any]) -> tuple[str, ...]:
    if "error" in table:
        return (table["table"], *["?"] * 6)
    at = table["last_commit"]
    rows = f"{table['rows']:,}" + (f" - {table['deletes']:,} deletes" if table["deletes"] else "")
    last = ago(datetime.fromisoformat(at)) if at else "never"
    counts = f"{len(table['columns']):,}", rows, f"{table['files']:,}", size(table["bytes"])
    return table["table"], *counts, last, table["location"]

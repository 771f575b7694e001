"""`calve show`."""

from __future__ import annotations

from pathlib import Path

import click

from calve.cli import options
from calve.cli.catalogs import chosen_catalog, pipelines
from calve.cli.help import Command

__all__ = ["show"]


@click.command(cls=Command)
@click.argument("table")
@click.option("--columns", metavar="A,B", help="Only these columns, or expressions of SQL. [default: all]")
@click.option("--where", metavar="SQL", help="Only rows for which this is true, e.g. \"total > 9 AND city = 'Bern'\".")
@click.option("--limit", type=click.IntRange(min=0), default=20, show_default=True, help="The most rows; 0: all.")
@options.catalog
@pipelines
@options.json_output
@options.debug
def show(
    table: str,
    columns: str | None,
    where: str | None,
    limit: int,
    catalog: dict[str, str],
    pipelines: Path | None,
    as_json: bool,
) -> None:
    """Show rows of a table, those of the newest files first, deletes applied: without Spark, by DuckDB's SQL.

    Examples:
      calve show shop.orders
      calve show shop.orders --columns id,total --where "total > 9" --limit 5
      calve show shop.orders --json --limit 0 > orders.ndjson
      calve show shop.orders --pipelines orders.yaml
    """
    import duckdb  # here, so that `calve show --help` is fast

    from calve.catalog.open_tables import OpenTables
    from calve.catalog.rows import TableRows
    from calve.cli.rows import connect, print_rows, select, wrong_query

    rows = TableRows(OpenTables(chosen_catalog(pipelines, catalog)).open(table))
    database = connect()
    query = f"SELECT {columns or '*'} FROM rows{f' WHERE {where}' if where else ''}{f' LIMIT {limit}' if limit else ''}"
    try:
        database.register("rows", rows.reader())
        print_rows(select(database, query), as_json)
    except duckdb.Error as error:
        raise wrong_query(error) from error

"""`calve sql`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import click

from calve.cli import options
from calve.cli.catalogs import chosen_catalog, pipelines
from calve.cli.help import Command
from calve.expression.sql import duckdb_name

if TYPE_CHECKING:
    import duckdb

    from calve.catalog.open_tables import OpenTables

__all__ = ["sql"]

_NAME = re.compile(r'"(?:[^"]|"")+"|[^".]+')


@click.command(cls=Command)
@click.argument("query")
@options.catalog
@pipelines
@options.json_output
@options.debug
def sql(query: str, catalog: dict[str, str], pipelines: Path | None, as_json: bool) -> None:
    """Query tables with DuckDB's SQL, deletes applied, without Spark. The tables are read whole; nothing is written.

    Tables are named as NAMESPACE.TABLE, and those of deeper namespaces as "a.b".TABLE.

    Examples:
      calve sql "SELECT city, sum(total) FROM shop.orders GROUP BY city"
      calve sql "SELECT count(*) FROM shop.orders" --json
      calve sql "SELECT * FROM shop.orders JOIN shop.items USING (id)" --pipelines shop.yaml
    """
    import duckdb  # here, so that `calve sql --help` is fast

    from calve.catalog.open_tables import OpenTables
    from calve.cli.rows import connect, print_rows, wrong_query

    database = connect()
    try:
        _copy_tables(database, query, OpenTables(chosen_catalog(pipelines, catalog)))
        print_rows(database.sql(query).to_arrow_reader(), as_json)
    except duckdb.Error as error:
        raise wrong_query(error) from error


def _copy_tables(database: duckdb.DuckDBPyConnection, query: str, tables: OpenTables) -> None:
    """Copy the tables that a query names into the database.

    Raises:
        CalveError: One does not exist, or cannot be read.
    """
    from calve.catalog.rows import TableRows

    for namespace, table in sorted(map(_parts, database.get_table_names(query, qualified=True))):
        if not namespace:
            continue  # a table function, or an error that DuckDB names
        database.register("rows_of_table", TableRows(tables.open(f"{namespace}.{table}")).reader())
        database.execute(f"CREATE SCHEMA IF NOT EXISTS {duckdb_name(namespace)}")
        target = f"{duckdb_name(namespace)}.{duckdb_name(table)}"
        database.execute(f"CREATE TABLE IF NOT EXISTS {target} AS SELECT * FROM rows_of_table")
        database.unregister("rows_of_table")


def _parts(name: str) -> tuple[str, str]:
    """Return namespace and table of a name as DuckDB gives it: quoted where needed, and perhaps with an alias."""
    words = _NAME.findall(name.partition(" AS ")[0])
    parts = [word.strip('"').replace('""', '"') for word in words]
    return ".".join(parts[:-1]), parts[-1]

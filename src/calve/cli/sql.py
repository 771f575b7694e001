"""`calve sql`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from calve.cli import options
from calve.cli.catalogs import chosen_catalog, pipelines
from calve.cli.help import Command
from calve.expression.sql import duckdb_name
from calve.observe.humanize import listed

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
    from calve.cli.rows import check_select, connect, print_rows, select, wrong_query

    database, tables = connect(), OpenTables(chosen_catalog(pipelines, catalog))
    names: list[tuple[str, str]] = []
    try:
        check_select(database, query)
        names = _tables_of(database, query)
        _copy_tables(database, [name for name in names if name[0]], tables)
        print_rows(select(database, query), as_json)
    except duckdb.CatalogException as error:
        bare = {name for namespace, name in names if not namespace and f"Table with name {name} " in str(error)}
        raise wrong_query(error, _better_name(bare, tables)) from error
    except duckdb.Error as error:
        raise wrong_query(error) from error


def _better_name(bare: set[str], tables: OpenTables) -> str:
    """Return the hint for tables named without a namespace; DuckDB's would be tables of its own."""
    both = [table.rpartition(".") for table in bare if "." in table.strip(".")]
    full = [f"{duckdb_name(namespace)}.{duckdb_name(table)}" for namespace, _, table in both]
    full += [name for name in tables.names() if name.rpartition(".")[2] in bare] if bare else []
    if full:
        return f"Name the table as {listed(full, 3)}"
    return "calve tables lists the tables; name one as NAMESPACE.TABLE" if bare else ""


def _tables_of(database: duckdb.DuckDBPyConnection, query: str) -> list[tuple[str, str]]:
    """Return namespace and table of each table that a query names, sorted; without a namespace: maybe a table function.

    The parsed query has them. DuckDB's `get_table_names` also binds the query: it refuses each `USING` and `NATURAL`
    of tables that do not exist yet.

    Raises:
        duckdb.Error: DuckDB cannot parse it.
    """
    [(text,)] = database.execute("SELECT json_serialize_sql(?)", [query]).fetchall()
    parsed = json.loads(text)
    if parsed["error"]:  # a wrong query, or no SELECT
        return sorted(map(_parts, database.get_table_names(query, qualified=True)))
    return sorted(set(_base_tables(parsed)))


def _base_tables(node: Any) -> Iterator[tuple[str, str]]:
    if isinstance(node, dict):
        if node.get("type") == "BASE_TABLE":
            yield ".".join(filter(None, (node["catalog_name"], node["schema_name"]))), node["table_name"]
        node = list(node.values())
    if isinstance(node, list):
        for child in node:
            yield from _base_tables(child)


def _copy_tables(database: duckdb.DuckDBPyConnection, names: Iterable[tuple[str, str]], tables: OpenTables) -> None:
    """Copy tables into the database.

    Raises:
        CalveError: One does not exist, or cannot be read.
    """
    from calve.catalog.rows import TableRows

    for namespace, table in names:
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

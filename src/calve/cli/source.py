"""`calve source`: what sources have on their servers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from calve.cli import options
from calve.cli.help import Group
from calve.cli.output import echo
from calve.errors import SettingsError
from calve.observe.humanize import harmless
from calve.settings import only, parse
from calve.state.folder import StateFolder
from calve.state.location import state_folder_at

if TYPE_CHECKING:
    from calve.sources.tables import Tables

__all__ = ["drop_source", "list_tables", "reload_source", "source"]


@click.group(cls=Group)
def source() -> None:
    """List the tables that a source of a database reads, load them again, or drop what it has on its server.

    Examples:
      calve source tables shop.yaml
      calve source reload shop.yaml public.orders
      calve source drop shop.yaml
    """


@source.command("tables")
@click.argument("path", type=click.Path(exists=True, path_type=Path))
@options.only_pipeline
@options.state
@options.debug
def list_tables(path: Path, pipeline: str | None, state: str) -> None:
    """List the tables of a `postgres` or `mysql` source: waiting, loading, streaming, or stopped and why.

    The pipeline may be running; nothing is asked of the database.

    Examples:
      calve source tables shop.yaml
      calve source tables pipelines/ --pipeline shop --state /var/lib/calve
    """
    from calve.sources.database.overview import states

    table_states = states(_database(path, pipeline, state)[1])
    width = max(len(name) for name, _ in table_states)
    for name, what in table_states:
        echo(harmless(f"{name:{width}}  {what}"))


@source.command("reload")
@click.argument("path", type=click.Path(exists=True, path_type=Path))
@click.argument("tables", nargs=-1)
@options.only_pipeline
@options.state
@click.option("--yes", is_flag=True, help="Do not ask.")
@options.debug
def reload_source(path: Path, tables: tuple[str, ...], pipeline: str | None, state: str, yes: bool) -> None:
    """Load TABLES (`schema.table`) of a `postgres` or `mysql` source again, also those that are stopped. Default: all.

    A running pipeline does it within seconds, another one when it starts. It commits what it has, removes all rows of
    the target tables in one snapshot each, and loads the tables into them. Readers see empty tables at first. Changes
    of the other tables wait in the state folder until the load is read; nothing is lost, and their rows stay.

    Examples:
      calve source reload shop.yaml public.orders
      calve source reload shop.yaml
      calve source reload pipelines/ --pipeline shop --state /var/lib/calve --yes
    """
    from calve.sources.database import full_reload, reload
    from calve.sources.database.overview import load_of

    name, folder, selected = _database(path, pipeline, state)
    if unknown := [table for table in tables if not selected.has(*_split(table))]:
        raise SettingsError(f"{name} does not read {', '.join(unknown)}: `tables` does not select it")
    load = load_of(folder)
    table_names = ", ".join(tables) or "all tables"
    targets = "the target tables of" + (f" {table_names} in" if tables else "")
    if not yes:
        click.confirm(f"Remove all rows of {targets} {name}, and load {table_names} again?", abort=True)
    if tables:
        reload.request(folder, load, dict.fromkeys(tables))
    else:
        full_reload.request(folder, load)
    verb = "is" if len(tables) == 1 else "are"
    echo(f"{name}: {table_names} {verb} loaded again, now or when the pipeline starts")


def _split(table: str) -> tuple[str, str]:
    """Return the schema and the name of a table.

    Raises:
        SettingsError: It has no schema.
    """
    schema, dot, name = table.partition(".")
    if not dot:
        raise SettingsError(f"{table} has no schema (MySQL: database); write e.g. shop.{table}")
    return schema, name


def _database(path: Path, pipeline: str | None, state: str) -> tuple[str, StateFolder, Tables]:
    """Return the name of a pipeline that reads a database, the folder of its source, and the tables that it selects."""
    from calve.pipeline.plugins import PLUGINS, declared  # here, so that `calve source --help` needs no Spark

    settings = only(parse(path, PLUGINS).pipelines, pipeline)
    selected = declared(settings).selected
    if selected is None:
        raise SettingsError(f"The source {settings.source.name} of {settings.name} reads no database")
    return settings.name, state_folder_at(state) / settings.name / settings.source.name, selected


@source.command("drop")
@click.argument("path", type=click.Path(exists=True, path_type=Path))
@options.only_pipeline
@click.option("--yes", is_flag=True, help="Do not ask.")
@options.debug
def drop_source(path: Path, pipeline: str | None, yes: bool) -> None:
    """Drop the replication slot of a `postgres` source, and the publication that Calve created.

    A slot keeps the log of the database until it is read, so drop it when a pipeline never runs again. Afterwards the
    pipeline can only begin again, with a new state and an empty target.

    Examples:
      calve source drop shop.yaml
      calve source drop pipelines/ --pipeline shop --yes
    """
    from calve.pipeline.plugins import (  # here, so that `calve source --help` needs no Spark
        PLUGINS,
        declared,
        drop_source,
        held_by,
    )

    settings = only(parse(path, PLUGINS).pipelines, pipeline)
    if not declared(settings).holds_on_server:
        raise SettingsError(
            f"The source {settings.source.name} of {settings.name} has nothing on its server that could be dropped"
        )
    if not yes:
        click.confirm(f"Drop {held_by(settings)}?", abort=True)
    for line in drop_source(settings):
        echo(line)

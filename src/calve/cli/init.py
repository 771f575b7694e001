"""`calve init`."""

from __future__ import annotations

import json
import re
from pathlib import Path

import click

from calve.cli import options
from calve.cli.help import Command
from calve.cli.init_sources import SOURCES
from calve.cli.output import echo
from calve.errors import SettingsError

__all__ = ["init"]


_PIPELINE = """\
# A pipeline of Calve. All options: docs/reference.md; completion in your editor: calve schema --help
{name}:
  source:
{source}  sink:
    - iceberg:
        table_identifier: {table}
        auto_create: true                  # create the table from the events, in ./lakehouse
        schema_evolution: true             # add a column for each new field
        flush_interval: 1s                 # how long events wait before they are written
        commit_interval: 10s               # how often readers see new rows
        # catalog: {{type: rest, uri: "https://…", warehouse: …}}   a catalog of yours instead of ./lakehouse
{changes}"""
_KEYED = """\
        # operation: "${/op}"                UPDATE and DELETE rows by key:
        # identifier_columns: [id]
        # partition_by: ["day(created_at)"]
"""
_COPIED = """\
        write_mode: merge-on-read          # rows are updated and deleted; every reader can read that
"""
_MIRRORED = """\
        operation: "${getMetadata(\\"iceberg_operation\\")}"
        identifier_columns: [id]
"""
_SMALL_BYTES = 1 << 20
"""A larger file is not looked into."""


@click.command(cls=Command)
@click.argument("path", type=click.Path(path_type=Path, dir_okay=False), default="pipeline.yaml")
@click.option("--source", type=click.Choice(list(SOURCES)), help="Where events come from.")
@click.option("--from", "location", metavar="LOCATION", help="The port, broker/topic, path or URL of the source.")
@click.option("--table", metavar="NAMESPACE.TABLE", help="The table to write.")
@options.debug
@click.pass_context
def init(ctx: click.Context, path: Path, source: str | None, location: str | None, table: str | None) -> None:
    """Ask three questions and write a pipeline that runs. Options answer questions in advance.

    Of files it also shows what the pipeline would make of the first one.

    Examples:
      calve init
      calve init orders.yaml --source kafka --from localhost:9092/orders --table shop.orders
      calve init shop.yaml --source postgres --from postgres://calve@db.internal/shop
      calve init sales.yaml --source file --from 'in/*.csv' --table shop.sales
    """
    if path.exists():
        raise _refused(path, f"{path} exists already", "Choose another name: calve init NAME.yaml")
    chosen: str = source or click.prompt("Where do events come from", "http", type=click.Choice(list(SOURCES)))
    kind = SOURCES[chosen]
    location = location or click.prompt(kind.question, kind.default)
    table = table or (kind.table if kind.is_copy and source else click.prompt("Table to write", kind.table))
    _write(path, _pipeline(chosen, str(location), str(table)))
    _tell(ctx, path, chosen, str(location))


def _tell(ctx: click.Context, path: Path, chosen: str, location: str) -> None:
    """Say what to do next; show what becomes of the first file."""
    connects = chosen not in ("http", "file")
    check = (
        f"  calve validate {path} --connect    # reaches the server and checks rights and tables\n" if connects else ""
    )
    echo(f"Wrote {path}. Next:\n{check}  calve run {path}    # until Ctrl-C; calve status shows rows and rejects")
    if chosen == "http":
        echo(f"""  curl -d '{{"id": 1}}' localhost:{location}/log/ingest""")
    is_local = chosen == "file" and "://" not in location and not Path(location).is_absolute()
    files = sorted(file for file in Path().glob(location) if file.is_file()) if is_local else []
    if files and files[0].stat().st_size <= _SMALL_BYTES:
        from calve.cli.trial import trial

        echo(f"\nWhat it would make of {files[0]} (calve try {path} {files[0]}):")
        with trial.make_context("try", [str(path), str(files[0])], parent=ctx) as trying:
            trial.invoke(trying)


def _pipeline(chosen: str, location: str, table: str) -> str:
    kind = SOURCES[chosen]
    try:
        source = kind.yaml(location)
    except ValueError as error:
        hint = f"E.g. {kind.default}"
        raise SettingsError(f"{location!r} is not {error}", step="settings", hint=hint) from error
    changes = {"postgres": _COPIED, "mysql": _COPIED, "iceberg": _MIRRORED + _COPIED}.get(chosen, _KEYED)
    fixed = re.sub(r"\$\{.*?\}", chosen, table)
    name = re.sub("[^A-Za-z0-9]+", "-", fixed).strip("-")  # the last part alone may be a word of the YAML's own
    table = json.dumps(table, ensure_ascii=False)
    return _PIPELINE.format(name=name or "events", source=source, table=table, changes=changes)


def _write(path: Path, text: str) -> None:
    """Check a pipeline and write it to a new file."""
    from calve.pipeline.plugins import PLUGINS
    from calve.settings import parse_text

    parse_text(text, PLUGINS, str(path))
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise _refused(path, f"{path} cannot be written: {error.strerror or error}", "Choose another path") from error


def _refused(path: Path, message: str, hint: str) -> SettingsError:
    return SettingsError(message, step="settings", target=str(path), hint=hint)

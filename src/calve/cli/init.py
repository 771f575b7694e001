"""`calve init`."""

from __future__ import annotations

import json
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

import click

from calve.cli import options
from calve.cli.help import Command
from calve.cli.init_proposal import Answers, Proposal, proposal
from calve.cli.init_sources import SOURCES
from calve.cli.output import echo
from calve.errors import CalveError, SettingsError
from calve.observe.humanize import harmless
from calve.operate.database_address import PASSWORDS

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
        # operation: "${{/op}}"                UPDATE and DELETE rows by key:
        {begin}identifier_columns: [{key}]{end}
        # partition_by: ["day({time})"]
"""
_CHANGED = """\
        identifier_columns: [{key}]
        upsert: true                       # the envelope has the operation; a repeated record leaves one row
        # partition_by: ["day({time})"]
"""
_MIRRORED = """\
        operation: "${{getMetadata(\\"iceberg_operation\\")}}"
        identifier_columns: [{key}]
"""
_SMALL_BYTES = 1 << 20
"""A larger file is not looked into."""


@click.command(cls=Command)
@click.argument("path", type=click.Path(path_type=Path, dir_okay=False), default="pipeline.yaml")
@click.option("--source", type=click.Choice(list(SOURCES)), help="Where events come from.")
@click.option("--from", "location", metavar="LOCATION", help="The port, broker/topic, path or URL of the source.")
@click.option("--table", metavar="NAMESPACE.TABLE", help="The table to write.")
@click.option("--tables", multiple=True, metavar="PATTERN", help="Tables of a database as schema.table; repeatable.")
@click.option("--key", multiple=True, metavar="COLUMN", help="Identifies a row; repeatable. [default: what it finds]")
@click.option("--registry", default="", metavar="URL", help="The schema registry of a topic.")
@options.catalog_of_source
@click.option("--offline", is_flag=True, help="Do not ask the source what it has.")
@options.debug
@click.pass_context
def init(
    ctx: click.Context, /, path: Path, source: str | None, location: str | None, table: str | None, **more: Any
) -> None:
    """Ask three questions, see what the source has, and write a pipeline that runs. Options answer in advance.

    Of a database and of an Iceberg catalog it lists tables, columns, keys and first rows; of a topic the format of the
    records and their key, of a bucket the format of the objects; of these and of files, what the pipeline would make
    of the first ones. It changes nothing there. If the source does not answer, the pipeline is written all the same.

    Examples:
      calve init
      calve init orders.yaml --source kafka --from localhost:9092/orders --table shop.orders
      calve init orders.yaml --source kafka --from localhost:9092/orders --table shop.orders --registry http://localhost:8081
      calve init shop.yaml --source postgres --from postgres://calve@db.internal/shop --tables 'public.*'
      calve init mirror.yaml --source iceberg --from shop.orders --table shop.mirror
      calve init sales.yaml --source file --from 'in/*.csv' --table shop.sales
    """
    if path.exists():
        raise _refused(path, f"{path} exists already", "Choose another name: calve init NAME.yaml")
    try:
        chosen: str = source or click.prompt("Where do events come from", "http", type=click.Choice(list(SOURCES)))
        kind = SOURCES[chosen]
        location = location or click.prompt(kind.question, kind.default)
        table = table or (kind.table if kind.is_copy and source else click.prompt("Table to write", kind.table))
    except click.Abort:
        if sys.stdin.isatty():
            raise  # Ctrl-C
        echo("", err=True)
        hint = "Answer by options: calve init NAME.yaml --source SOURCE --from LOCATION --table NAMESPACE.TABLE"
        raise _refused(path, "There is no terminal to ask, and an answer is missing", hint) from None
    answers = Answers(chosen, str(location), str(table), more["tables"], more["key"], more["registry"], more["catalog"])
    proposed = Proposal(key=answers.key) if more["offline"] else _found(answers)
    _write(path, _pipeline(answers, proposed))
    _print_next_steps(ctx, path, answers, proposed)


def _found(answers: Answers) -> Proposal:
    """Return what the source has; why it is not known is printed."""
    from calve.pipeline.plugins import PLUGINS
    from calve.settings import parse_text

    [pipeline] = parse_text(_pipeline(answers, Proposal(key=answers.key)), PLUGINS, "the answers").pipelines
    try:
        return proposal(answers, pipeline.source.value)
    except CalveError as error:
        echo(f"The source was not looked into: {error.message}", err=True)
        if variable := PASSWORDS.get(answers.source):
            echo(f"The password is read from the variable {variable}; it goes into no file", err=True)
        return Proposal(key=answers.key)


def _print_next_steps(ctx: click.Context, path: Path, answers: Answers, proposed: Proposal) -> None:
    """Say what was found and what to do next; show what becomes of the first events."""
    for line in proposed.seen:
        echo(line)
    connects = answers.source not in ("http", "file")
    check = (
        f"  calve validate {path} --connect    # reaches the server and checks rights and tables\n" if connects else ""
    )
    echo(f"Wrote {path}. Next:\n{check}  calve run {path}    # until Ctrl-C; calve status shows rows and rejects")
    if answers.source == "http":
        echo(f"""  curl -d '{{"id": 1}}' localhost:{answers.location}/log/ingest""")
    location = answers.location
    is_local = answers.source == "file" and "://" not in location and not Path(location).is_absolute()
    files = sorted(file for file in Path().glob(location) if file.is_file()) if is_local else []
    if files and files[0].stat().st_size <= _SMALL_BYTES:
        _try(ctx, path, str(files[0]), f"{files[0]} (calve try {path} {files[0]})")
    elif proposed.sample:
        with tempfile.TemporaryDirectory(prefix="calve-init-") as folder:
            name, content = proposed.sample
            file = Path(folder, name.rpartition("/")[2])
            file.write_bytes(content)
            _try(ctx, path, str(file), harmless(name))


def _try(ctx: click.Context, path: Path, events: str, title: str) -> None:
    from calve.cli.trial import trial

    echo(f"\nWhat it would make of {title}:")
    with trial.make_context("try", [str(path), events], parent=ctx) as trying:
        trial.invoke(trying)


def _pipeline(answers: Answers, proposed: Proposal) -> str:
    chosen, table = answers.source, answers.table
    kind = SOURCES[chosen]
    try:
        source = kind.yaml(answers, proposed)
    except ValueError as error:
        hint = f"E.g. {kind.default}"
        raise SettingsError(f"{answers.location!r} is not {error}", step="settings", hint=hint) from error
    fixed = re.sub(r"\$\{.*?\}", chosen, table)
    name = re.sub("[^A-Za-z0-9]+", "-", fixed).strip("-")  # the last part alone may be a word of the YAML's own
    table = json.dumps(table, ensure_ascii=False)
    return _PIPELINE.format(name=name or "events", source=source, table=table, changes=_changes(answers, proposed))


def _changes(answers: Answers, proposed: Proposal) -> str:
    """Return the options of the sink about keys and partitions: those that are certain, and others as comments."""
    if answers.source in ("postgres", "mysql"):
        return ""
    form = {"iceberg": _MIRRORED}.get(answers.source, _CHANGED if proposed.is_change else _KEYED)
    is_chosen = bool(answers.key)
    return form.format(
        key=", ".join(json.dumps(name, ensure_ascii=False) for name in proposed.key) or "id",
        time=(proposed.times or ("created_at",))[0],
        begin="" if is_chosen else "# ",
        end="\n        upsert: true" if is_chosen else "",
    )


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

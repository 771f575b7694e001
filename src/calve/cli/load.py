"""`calve load`."""

from __future__ import annotations

import os
import shlex
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
import yaml  # type: ignore[import-untyped]

from calve.cli import options
from calve.cli.help import Command
from calve.cli.output import echo
from calve.cli.run import run
from calve.credentials import without_credentials
from calve.errors import SettingsError
from calve.operate.database_address import DatabaseAddress, is_database
from calve.operate.quick import catalog_in, database_pipeline, load_pipeline

__all__ = ["load"]


@click.command(cls=Command)
@click.argument("source", metavar="FILES|DATABASE")
@click.argument("target", metavar="[NAMESPACE.TABLE|FOLDER]", required=False)
@click.option("--key", multiple=True, metavar="COLUMN", help="Identifies a row: a later one replaces it; repeatable.")
@click.option(
    "--delimiter", metavar="CHARACTER", help=r"Between the cells of CSV; \t: a tab. [default: a comma; of .tsv a tab]"
)
@click.option("--encoding", metavar="NAME", help="Of CSV, e.g. windows-1252. [default: utf-8]")
@click.option(
    "--tables",
    multiple=True,
    metavar="PATTERN",
    help="Tables of a database as schema.table, with * and ?; repeatable. [default: public.*; MySQL: the database]",
)
@click.option("--exclude", multiple=True, metavar="PATTERN", help="Tables not to load; repeatable.")
@click.option("--allow-empty", is_flag=True, help="End with exit code 0 even if there is no file to read.")
@click.option("--keep-slot", is_flag=True, help="Keep PostgreSQL's replication slot: the next call reads changes only.")
@click.option("--print", "only_print", is_flag=True, help="Only print the pipeline as YAML, to go on from there.")
@options.state
@options.debug
@click.pass_context
def load(ctx: click.Context, /, source: str, target: str | None, only_print: bool, state: str, **chosen: Any) -> None:
    """Load files into a table of ./lakehouse, or tables of a database into tables of a folder.

    Files are NDJSON, JSON, CSV, Parquet, Avro or ORC; local or s3://. Types are inferred, in CSV too. Call it again
    when there are new files: only these are read.

    A database is PostgreSQL or MySQL. Each table becomes the Iceberg table of its schema and name in the catalog of
    FOLDER, by default ./lakehouse, with its columns, types and key. The password is best in PGPASSWORD or MYSQL_PWD;
    it goes into no file. PostgreSQL needs a replication slot; it is dropped after the load, so that the server keeps
    nothing for it, and the next call loads all tables again. With --keep-slot, and for MySQL, it reads the changes.
    To follow changes all the time: --print, and calve run.

    Examples:
      calve load 'logs/*.csv' shop.orders
      calve load customers.parquet shop.customers --key id
      calve load 'in/*.csv' shop.sales --delimiter ';' --encoding windows-1252
      calve load 'logs/*.csv' shop.orders --print > orders.yaml
      calve load postgres://calve@db.internal/shop --tables 'public.*' ./lakehouse
      calve load mysql://calve@db.internal/shop --exclude 'shop.audit_*'
    """
    address = DatabaseAddress.of(source) if is_database(source) else None
    _check(source, target, chosen, address)
    if address is not None:
        pipeline = database_pipeline(address, chosen["tables"], chosen["exclude"], catalog_in(target or "lakehouse"))
    else:
        delimiter = "\t" if chosen["delimiter"] == r"\t" else chosen["delimiter"]
        pipeline = load_pipeline(source, str(target), chosen["key"], delimiter, chosen["encoding"])
    text = yaml.safe_dump(pipeline, sort_keys=False, allow_unicode=True)
    if address is None and not chosen["delimiter"]:
        _check_delimiter(text, source, str(target))
    if only_print:
        echo(text, nl=False)
        return
    if address is not None and address.password:
        os.environ[address.variable] = address.password  # the run takes it from there
    with tempfile.TemporaryDirectory(prefix="calve-load-") as folder:
        path = Path(folder, "load.yaml")
        path.write_text(text, encoding="utf-8")
        code = _run(ctx, path, state, chosen["allow_empty"])
        if code == 0 and address is not None and address.kind == "postgres" and not chosen["keep_slot"]:
            _drop_slot(path)
    ctx.exit(code)


def _run(ctx: click.Context, path: Path, state: str, allow_empty: bool) -> int:
    """Run a pipeline until it has read what is there; return the exit code."""
    arguments = [str(path), "--once", "--state", state, "--metrics-port", "0"]
    arguments += ["--allow-empty"] if allow_empty else []
    with run.make_context("load", arguments, parent=ctx) as running:
        try:
            run.invoke(running)
        except click.exceptions.Exit as ended:
            return ended.exit_code
    return 0


def _drop_slot(path: Path) -> None:
    from calve.pipeline.plugins import PLUGINS
    from calve.settings import only, parse
    from calve.sources.postgres.slot.release import drop

    pipeline = only(parse(path, PLUGINS).pipelines, None)
    for line in drop(pipeline.source.value, pipeline.name):
        echo(line, err=True)


def _check_delimiter(text: str, source: str, target: str) -> None:
    """Refuse CSV files whose first row is one cell: the wrong table would be made, and the files count as read.

    Raises:
        SettingsError: With the delimiter that they may have.
    """
    from calve.pipeline.plugins import PLUGINS
    from calve.settings import only, parse_text
    from calve.sources.file.csv_check import OtherDelimiter

    other = OtherDelimiter.of(only(parse_text(text, PLUGINS).pipelines, None).source.value)
    if other is None:
        return
    command = f"calve load {shlex.quote(source)} {target} --delimiter"
    raise SettingsError(
        f"The first row of {other.path} is one cell with {other.delimiter} in it; nothing was loaded",
        step="settings",
        target=source,
        hint=f"If this separates its cells: {command} '{other.delimiter}'. If it is one column: {command} ','",
    )


def _check(source: str, target: str | None, chosen: Mapping[str, Any], address: DatabaseAddress | None) -> None:
    """Refuse options that are for the other kind of source.

    Raises:
        SettingsError: With the way out.
    """
    scheme = source.partition("://")[0] if "://" in source else ""
    if source.startswith("jdbc:") or (address is None and scheme not in ("", "s3", "file")):
        message = f"{source.partition(':')[0]}: is no source of calve load"
        hint = "It reads files, s3://, postgres:// and mysql://; calve init --help has further sources"
        raise SettingsError(message, step="settings", target=without_credentials(source), hint=hint)
    of_files, of_databases = ("key", "delimiter", "encoding", "allow_empty"), ("tables", "exclude", "keep_slot")
    what = "files" if address is None else "a database"
    for name in of_databases if address is None else of_files:
        if chosen[name]:
            option = f"--{name.replace('_', '-')}"
            raise SettingsError(f"{option} is not for {what}", step="settings", target=option, hint="calve load --help")
    if address is None and not target:
        raise SettingsError(
            "The table is missing", step="settings", target="TABLE", hint="calve load 'logs/*.csv' shop.orders"
        )
    if address is None and "." not in str(target):
        hint = f"E.g. calve load {shlex.quote(source)} shop.{target}"
        raise SettingsError(f"{target} has no namespace", step="settings", target="TABLE", hint=hint)
    if address is not None and target and "/" not in target and "." in target:
        raise SettingsError(
            f"{target} is no folder: the tables of a database keep their names",
            step="settings",
            target="FOLDER",
            hint="E.g. ./lakehouse; calve load … --print shows the pipeline, in which you can name tables",
        )

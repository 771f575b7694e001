"""`calve load`."""

from __future__ import annotations

import tempfile
from pathlib import Path

import click
import yaml  # type: ignore[import-untyped]

from calve.cli import options
from calve.cli.help import Command
from calve.cli.output import echo
from calve.cli.run import run
from calve.operate.quick import load_pipeline

__all__ = ["load"]


@click.command(cls=Command)
@click.argument("files", metavar="FILES")
@click.argument("table", metavar="NAMESPACE.TABLE")
@click.option("--key", multiple=True, metavar="COLUMN", help="Identifies a row: a later one replaces it; repeatable.")
@click.option("--delimiter", metavar="CHARACTER", help="Between the cells of CSV. [default: a comma; of .tsv a tab]")
@click.option("--encoding", metavar="NAME", help="Of CSV, e.g. windows-1252. [default: utf-8]")
@click.option("--print", "only_print", is_flag=True, help="Only print the pipeline as YAML, to go on from there.")
@options.state
@options.debug
@click.pass_context
def load(
    ctx: click.Context,
    files: str,
    table: str,
    key: tuple[str, ...],
    delimiter: str | None,
    encoding: str | None,
    only_print: bool,
    state: str,
) -> None:
    """Load files into a table of ./lakehouse, each file once: NDJSON, JSON, CSV, Parquet, Avro, ORC; local or s3://.

    Types are inferred, in CSV too. Call it again when there are new files: only these are read.

    Examples:
      calve load 'logs/*.csv' shop.orders
      calve load customers.parquet shop.customers --key id
      calve load 'in/*.csv' shop.sales --delimiter ';' --encoding windows-1252
      calve load 'logs/*.csv' shop.orders --print > orders.yaml
    """
    text = yaml.safe_dump(load_pipeline(files, table, key, delimiter, encoding), sort_keys=False, allow_unicode=True)
    if only_print:
        echo(text, nl=False)
        return
    with tempfile.TemporaryDirectory(prefix="calve-load-") as folder:
        path = Path(folder, "load.yaml")
        path.write_text(text, encoding="utf-8")
        arguments = [str(path), "--once", "--state", state, "--metrics-port", "0"]
        with run.make_context("load", arguments, parent=ctx) as running:
            run.invoke(running)

"""`calve validate`."""

from __future__ import annotations

from pathlib import Path

import click

from calve.cli import failures, options
from calve.cli.help import Command
from calve.cli.output import echo
from calve.observe.humanize import many
from calve.observe.log import configure
from calve.settings import PipelineSettings, parse

__all__ = ["validate"]


@click.command(cls=Command)
@click.argument("path", type=click.Path(exists=True, path_type=Path))
@click.option("--connect", is_flag=True, help="Also connect to catalogs, sources and receivers of notify.")
@options.conf
@options.debug
@click.pass_context
def validate(ctx: click.Context, /, path: Path, connect: bool, conf: dict[str, str]) -> None:
    """List all errors of a configuration, each with file:line:column.

    It starts nothing and writes nothing. With --connect it connects to catalogs, sources and the receivers of notify,
    with the Spark settings of --conf, and writes and removes a small file in the location of the tables. It lists what
    each entry of a sink's `tables` sets, and with --connect for which tables.

    Examples:
      calve validate orders.yaml
      calve validate pipelines/ --connect
      calve validate orders.yaml --connect --conf spark.driver.extraClassPath=/opt/postgresql.jar
    """
    from calve.pipeline.key_columns import fill_notes, key_notes, remembering_notes
    from calve.pipeline.plugins import PLUGINS  # here, so that `calve validate --help` needs no Spark

    parsed = parse(path, PLUGINS)
    for warning in parsed.warnings:
        echo(f"{warning.location}: warning: {warning.path}: {warning.message}", err=True)
    configure(debug=ctx.meta[failures.DEBUG])
    problems = _try(parsed.pipelines, conf) if connect else []
    for problem in problems:
        echo(f"Error: {problem}", err=True)
    if problems:
        ctx.exit(failures.FAILED)
    if any(getattr(sink.value, "tables", None) for pipeline in parsed.pipelines for sink in pipeline.sinks):
        from calve.operate.table_settings import table_settings  # brings PyIceberg

        for line in table_settings(parsed.pipelines, connect):
            echo(line)
    for pipeline in parsed.pipelines:
        for note in (*key_notes(pipeline), *fill_notes(pipeline), *remembering_notes(pipeline)):
            echo(note)
    count = sum(1 + len(pipeline.feeds) for pipeline in parsed.pipelines)
    echo(f"OK: {many(count, 'pipeline')}: {', '.join(pipeline.title for pipeline in parsed.pipelines)}")


def _try(pipelines: list[PipelineSettings], conf: dict[str, str]) -> list[str]:
    from calve.operate.probe import check  # brings Spark; a plain `validate` is quick without

    return check(pipelines, conf)

"""`calve validate`."""

from __future__ import annotations

from pathlib import Path

import click

from calve.cli import failures, options
from calve.cli.help import Command
from calve.observe.words import many
from calve.pipeline.plugins import PLUGINS
from calve.settings import PipelineSettings, parse

__all__ = ["validate"]


@click.command(cls=Command)
@click.argument("path", type=click.Path(exists=True, path_type=Path))
@click.option("--connect", is_flag=True, help="Also try whether catalogs and sources answer.")
@options.debug
@click.pass_context
def validate(ctx: click.Context, /, path: Path, connect: bool) -> None:
    """Find every error of a configuration at once, each with file:line:column.

    Nothing is started and nothing is written; with --connect catalogs and sources are asked.

    Examples:
      calve validate orders.yaml
      calve validate pipelines/ --connect
    """
    parsed = parse(path, PLUGINS)
    for warning in parsed.warnings:
        click.echo(f"{warning.location}: warning: {warning.path}: {warning.message}", err=True)
    problems = _try(parsed.pipelines) if connect else []
    for problem in problems:
        click.echo(f"Error: {problem}", err=True)
    if problems:
        ctx.exit(failures.FAILED)
    count = sum(1 + len(one.feeds) for one in parsed.pipelines)
    click.echo(f"OK: {many(count, 'pipeline')}: {', '.join(one.title for one in parsed.pipelines)}")


def _try(pipelines: list[PipelineSettings]) -> list[str]:
    from calve.pipeline.connect import check  # brings Spark; a plain `validate` is quick without

    return check(pipelines)

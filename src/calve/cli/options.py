"""Options that several commands share."""

from __future__ import annotations

import click

from calve.cli import failures

__all__ = ["debug", "json_output", "only_pipeline", "state"]


def _remember_debug(ctx: click.Context, parameter: click.Parameter, value: bool) -> None:
    ctx.meta[failures.DEBUG] = value


state = click.option(
    "--state",
    default="./calve-state",
    show_default=True,
    metavar="URI",
    help="The folder of progress, rejects and status.",
)
only_pipeline = click.option("--pipeline", metavar="NAME", help="This pipeline only.")
json_output = click.option("--json", "as_json", is_flag=True, help="Print JSON, for scripts.")
debug = click.option(
    "--debug",
    is_flag=True,
    expose_value=False,
    callback=_remember_debug,
    help="Show tracebacks, and more of what happens.",
)

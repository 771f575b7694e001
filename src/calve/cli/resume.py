"""`calve resume`."""

from __future__ import annotations

import click

from calve.cli import options
from calve.cli.help import Command
from calve.cli.output import echo

__all__ = ["resume"]


@click.command(cls=Command)
@click.argument("pipelines", metavar="PIPELINE...", nargs=-1, required=True)
@options.state
@options.debug
def resume(pipelines: tuple[str, ...], state: str) -> None:
    """Let paused pipelines read again, from where they stopped.

    Examples:
      calve resume orders
    """
    from calve.cli.states import check_known  # here, so that `calve resume --help` needs no Arrow
    from calve.observe import pause as requests

    for name in pipelines:
        check_known(state, name)
        requests.resume(state, name)
        echo(f"{name}: reads again")

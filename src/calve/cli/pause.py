"""`calve pause`."""

from __future__ import annotations

import click

from calve.cli import options
from calve.cli.help import Command
from calve.cli.output import echo

__all__ = ["pause"]


@click.command(cls=Command)
@click.argument("pipelines", metavar="PIPELINE...", nargs=-1, required=True)
@options.state
@options.debug
def pause(pipelines: tuple[str, ...], state: str) -> None:
    """Let running pipelines read nothing until `calve resume`; what they have read is committed.

    The run continues, and so do its other pipelines. An `http` source still accepts events into its log. The pause
    outlasts restarts: `calve run` of a paused pipeline commits what is staged, and waits.

    Examples:
      calve pause orders
      calve pause orders clicks --state /var/lib/calve
    """
    from calve.cli.states import check_known  # here, so that `calve pause --help` needs no Arrow
    from calve.observe import pause as requests

    for name in pipelines:
        check_known(state, name)
        requests.pause(state, name)
        echo(f"{name}: reads nothing until: calve resume {name}")

"""`calve doctor`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from calve.cli import failures, options
from calve.cli.help import Command
from calve.cli.output import echo
from calve.observe.humanize import harmless
from calve.state.location import state_folder_at

if TYPE_CHECKING:
    from calve.cli.checks import Check

__all__ = ["doctor"]

MARKS = {"ok": ("ok  ", "green"), "note": ("note", "yellow"), "wrong": ("BAD ", "red")}


@click.command(cls=Command)
@options.state
@click.option("--fetch", is_flag=True, help="Download the jars before the first run.")
@click.option("--s3", is_flag=True, help="Include the jar for S3.")
@options.debug
@click.pass_context
def doctor(ctx: click.Context, /, state: str, fetch: bool, s3: bool) -> None:
    """Check what Calve needs, line by line, and say how to fix problems.

    The exit code is 1 if something is wrong; a note is only information.

    Examples:
      calve doctor
      calve doctor --fetch          also download the jars, e.g. when you build an image
    """
    from calve.cli.checks import checks  # here, so that `calve doctor --help` needs no Spark
    from calve.engine.jvm import jars

    if fetch:
        jars.resolve(jars.needed(s3))
    all_checks = []
    for check in checks(state_folder_at(state.removeprefix("file://")), s3):
        all_checks.append(check)
        _print_check(check)
    wrong = sum(check.outcome == "wrong" for check in all_checks)
    if wrong:
        echo(f"{wrong} of {len(all_checks)} checks failed.", err=True)
        ctx.exit(failures.FAILED)
    echo("All checks passed.")


def _print_check(check: Check) -> None:
    mark, colour = MARKS[check.outcome]
    click.echo(f"{click.style(mark, fg=colour)}  {check.name:<8} {harmless(check.found)}")
    if check.fix:
        echo(f"               → {check.fix}")

"""The command `calve`. A command's module is imported when it is called, so that `--help` needs no Spark."""

from __future__ import annotations

import errno
import importlib
import sys
from typing import Any

import click

from calve import __version__
from calve.cli import failures
from calve.cli.help import Group
from calve.errors import CalveError

__all__ = ["Commands", "calve", "main"]

COMMANDS = {
    "demo": "Run a small pipeline and show what it does.",
    "run": "Run the pipelines of a YAML file or folder.",
    "validate": "Find every error of a configuration at once.",
    "try": "Show what a pipeline would do with sample events.",
    "status": "Show what the pipelines do: rows, rejects, lag, errors.",
    "dlq": "Look at the events that were refused, and why; send them again.",
    "state": "Make a lost state anew, or begin at a chosen place.",
    "changes": "Print the row changes of a table, snapshot by snapshot.",
    "maintain": "Compact tables, convert deletes, expire snapshots, remove orphans.",
    "doctor": "Check Java, jars, memory and disk, and say how to mend them.",
    "schema": "Print the JSON Schema of the YAML, for your editor.",
}
"""What `calve --help` shows; the module and the command in it have the command's name, but for those of `MODULES`."""
MODULES = {"try": "trial"}
"""Commands whose names are Python's."""

INTERRUPTED = 130


class Commands(Group):
    """Imports commands when they are called, and turns failures into one sentence and an exit code."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Name the commands in the order in which one meets them."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command."""
        if cmd_name not in COMMANDS:
            return None
        name = MODULES.get(cmd_name, cmd_name)
        command: click.Command = getattr(importlib.import_module(f"calve.cli.{name}"), name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; what fails is told on stderr."""
        try:
            return super().invoke(ctx)
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except KeyboardInterrupt:
            ctx.exit(INTERRUPTED)
        except CalveError as error:
            ctx.exit(failures.tell(error, ctx))
        except Exception as error:
            if isinstance(error, OSError) and error.errno == errno.EPIPE:
                raise  # the reader went away; click ends quietly
            ctx.exit(failures.tell_unexpected(error, ctx))


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="calve", message="%(prog)s %(version)s")
def calve() -> None:
    """Move streams of events into Apache Iceberg tables, exactly once, from one YAML file.

    A first pipeline, in orders.yaml:
      orders:
        source:
          http: {}                        # POST JSON arrays to port 2021, /log/ingest
        sink:
          - iceberg:
              table_identifier: shop.orders
              auto_create: true           # into ./lakehouse, no catalog needed

    Then:
      calve validate orders.yaml          every error at once, with its line
      calve try orders.yaml sample.ndjson where each event would go; writes nothing
      calve run orders.yaml               until Ctrl-C, which commits and ends
      calve status                        rows, rejects, lag
      calve dlq show                      what was refused, and why
      calve dlq replay orders.yaml        send it again, when it is mended
      calve changes shop.orders           what became of its rows, one change a line

    Exit codes: 0 done, 1 a pipeline failed, 2 the configuration is wrong.
    """


def main() -> None:
    """Run the command line."""
    try:
        calve(prog_name="calve")
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)

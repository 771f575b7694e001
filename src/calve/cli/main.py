"""The command `calve`. A command's module is imported when it is called, so that `--help` needs no Spark."""

from __future__ import annotations

import atexit
import difflib
import errno
import faulthandler
import gc
import importlib
import os
import sys
from typing import Any, NoReturn

import click

from calve import __version__
from calve.cli import failures
from calve.cli.help import Group
from calve.cli.output import echo
from calve.errors import CalveError

__all__ = ["Commands", "calve", "main"]

COMMANDS = {
    "demo": "Run a small pipeline and show its results.",
    "init": "Ask three questions and write a pipeline that runs.",
    "convert": "Print a Kafka Connect Iceberg sink as a pipeline.",
    "run": "Run the pipelines of a YAML file or folder.",
    "load": "Load files into a table, or tables of a database, in one line.",
    "validate": "List all errors of a configuration.",
    "try": "Show what a pipeline would do with sample events.",
    "status": "Show the pipelines: rows, rejects, lag, errors.",
    "dashboard": "Show the pipelines as web pages, with their last hour.",
    "pause": "Let running pipelines read nothing for a while.",
    "resume": "Let paused pipelines read again.",
    "dlq": "Show rejected events and the reasons; send them again.",
    "state": "Rebuild or copy a state, or forget files of a dropped table.",
    "source": "Remove what a source has on its server: a replication slot.",
    "tables": "List the tables of a catalog.",
    "show": "Show rows of a table, without Spark.",
    "wait": "Wait until a day of a table is complete.",
    "sql": "Query tables with SQL, without Spark.",
    "changes": "Print the row changes of a table, snapshot by snapshot.",
    "publish": "Publish commits that wait on a branch, or discard them.",
    "maintain": "Compact tables, convert deletes, expire snapshots and orphans.",
    "doctor": "Check Java, jars, memory and disk, and say how to fix problems.",
    "bundle": "Pack Calve for the executors of a Spark cluster.",
    "ops": "Print alerting rules, a Grafana dashboard, or all metrics.",
    "schema": "Print the JSON Schema of the YAML, for your editor.",
}
"""What `calve --help` shows. Module and function have the name of the command, except those of `MODULES`."""
MODULES = {"try": "trial"}
"""Modules of commands whose names are Python keywords."""

INTERRUPTED = 130
LIBRARIES = {"OMP_NUM_THREADS": "1", "MIMALLOC_PURGE_DELAY": "1000"}
"""Variables that libraries read when they are loaded: NumPy starts no threads for algebra, Arrow computes in one
thread, and keeps memory for the next batch."""


class Commands(Group):
    """Imports commands when they are called, and turns failures into one sentence and an exit code."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the commands, in the order of typical use."""
        return list(COMMANDS)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find a command; the error for an unknown one names the nearest.

        Raises:
            UsageError: There is no such command.
        """
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError:
            if near := difflib.get_close_matches(args[0], COMMANDS, n=1):
                ctx.fail(f"No such command {args[0]!r}. Did you mean {near[0]!r}?")
            raise

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
        """Run the command; print failures to stderr."""
        try:
            return super().invoke(ctx)
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except KeyboardInterrupt:
            ctx.exit(INTERRUPTED)
        except CalveError as error:
            ctx.exit(failures.print_error(error, ctx))
        except Exception as error:
            if isinstance(error, OSError) and error.errno == errno.EPIPE:
                raise  # the reader of the pipe has ended; click exits quietly
            ctx.exit(failures.print_unexpected(error, ctx))


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="calve", message="%(prog)s %(version)s")
def calve() -> None:
    """Write streams of events to Apache Iceberg tables, exactly once, configured by one YAML file.

    A first pipeline, in orders.yaml:
      orders:
        source:
          http: {}                        # POST JSON or NDJSON to port 2021, /log/ingest
        sink:
          - iceberg:
              table_identifier: shop.orders
              auto_create: true           # in ./lakehouse; no catalog needed

    `calve init` writes such a file. Then:
      calve validate orders.yaml          list all errors, with their lines
      calve try orders.yaml sample.ndjson dry run: the table of each event; writes nothing
      calve run orders.yaml               run until Ctrl-C; then commit and exit
      calve status                        rows, rejects, lag
      calve dlq show                      rejected events and the reasons
      calve dlq replay orders.yaml        send them again, after a fix
      calve changes shop.orders           row changes of the table, one per line

    Exit codes: 0 success, 1 a pipeline failed, 2 the configuration is wrong.
    """


def main() -> NoReturn:
    """Run the command line; a crash in native code prints where each thread was."""
    if sys.stderr is not None:  # it may be closed
        faulthandler.enable()
    gc.set_threshold(20_000, 50, 100)  # imports make many objects, and no garbage
    for name, value in LIBRARIES.items():
        os.environ.setdefault(name, value)
    try:
        calve(prog_name="calve")
    except KeyboardInterrupt:
        _end(INTERRUPTED)
    except SystemExit as asked:
        if isinstance(asked.code, int):
            _end(asked.code)
        raise
    except OSError as error:  # of --help and --version; commands turn theirs into a sentence
        echo(f"Error: {error.strerror}", err=True)
        _end(1)
    _end(0)


def _end(code: int) -> NoReturn:
    """End the process without taking the interpreter apart.

    That would take a sixth of the time of a short run, while threads of native libraries may still call it.
    """
    atexit._run_exitfuncs()
    try:
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
    except (OSError, ValueError):  # a full disk, a reader that has ended, a closed stream: as Python itself ends
        sys.exit(code)
    os._exit(code)

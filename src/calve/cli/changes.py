"""`calve changes`."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from calve.cli import options
from calve.cli.help import Command
from calve.cli.output import echo
from calve.errors import CalveError, NoTargetError, Verdict
from calve.observe.standard_output import flush_output, write_output

if TYPE_CHECKING:
    from calve.changes.snapshot import SnapshotStep
    from calve.changes.table_changes import TableChanges

__all__ = ["changes"]


@click.command(cls=Command)
@click.argument("table", metavar="TABLE")
@options.catalog
@click.option("--branch", default="main", show_default=True, metavar="NAME", help="Branch to read.")
@click.option(
    "--from", "after", type=int, metavar="ID", help="Start after this snapshot. [default: all retained snapshots]"
)
@click.option("--to", "until", type=int, metavar="ID", help="Stop after this snapshot. [default: the newest]")
@click.option("--key", multiple=True, metavar="COLUMN", help="Identifier column, to pair updates; repeatable.")
@click.option("--follow", is_flag=True, help="Wait for new snapshots, until Ctrl-C.")
@click.option(
    "--polling-interval",
    default="5s",
    show_default=True,
    metavar="DURATION",
    callback=options.as_duration,
    help="Interval at which --follow checks for new snapshots.",
)
@options.master
@options.conf
@options.debug
def changes(table: str, after: int | None, until: int | None, follow: bool, **chosen: Any) -> None:
    """Print the row changes of a table, snapshot by snapshot: {"event": {…}, "metadata": {…}}, one per line.

    Each change is an INSERT, a DELETE, or an update as UPDATE_BEFORE and UPDATE_AFTER. It works for copy-on-write,
    position and equality deletes, and deletion vectors. Compaction changes no row. Updates are paired by --key,
    otherwise by the table's identifier fields, otherwise by row id (format version 3); without any of these an update
    is a DELETE and an INSERT.

    Without --from it starts with all rows of the oldest retained snapshot; so the changes, applied to an empty table,
    give the table. --catalog takes Iceberg's catalog properties and `name`.

    Examples:
      calve changes shop.orders
      calve changes shop.orders --from 4859623548962345 --key id
      calve changes shop.orders --follow --catalog type=rest --catalog uri=http://127.0.0.1:8181
      calve changes shop.orders | jq -c 'select(.metadata.iceberg_operation == "DELETE") | .event'
    """
    if follow and until is not None:
        raise click.UsageError("--follow continues after the newest snapshot: remove --to")
    if not follow and (lines := _without_spark(table, after, until, chosen)) is not None:
        for line in lines:
            write_output(line.encode() + b"\n")
        flush_output()
        return
    with _stop_asked(follow) as stop, _opened(table, chosen) as table_changes:
        after = _print(table_changes, table_changes.steps(after, until), stop) or after
        while follow and not stop.wait(chosen["polling_interval"].total_seconds()):
            after = _print(table_changes, _new_steps(table_changes, after), stop) or after


def _without_spark(table: str, after: int | None, until: int | None, chosen: Mapping[str, Any]) -> Iterator[str] | None:
    """Return the lines if snapshots of a local table only add rows; None: Spark reads them."""
    from calve.catalog.appended import appended_lines  # brings PyIceberg
    from calve.catalog.open_tables import OpenTables
    from calve.catalog.sqlite import embedded, sqlite_file

    properties = dict(chosen["catalog"]) or embedded(Path("lakehouse"))
    if chosen["master"] or chosen["conf"] or sqlite_file(properties) is None:
        return None
    try:
        opened = OpenTables(properties).open(table)
    except CalveError:  # Spark's side says it
        return None
    return appended_lines(opened, chosen["branch"], after, until, chosen["key"])


def _print(table_changes: TableChanges, steps: Sequence[SnapshotStep], stop: threading.Event) -> int | None:
    """Print whole snapshots until the end or a stop request; return the id of the last one."""
    last = None
    for step in steps:
        if stop.is_set():
            break
        for line in table_changes.lines(step):
            write_output(line.encode() + b"\n")
        flush_output()
        last = step.snapshot.snapshot_id
    return last


def _new_steps(table_changes: TableChanges, after: int | None) -> Sequence[SnapshotStep]:
    """Look for new snapshots; return none if the catalog does not answer at the moment."""
    try:
        return table_changes.steps(after)
    except CalveError as error:
        if error.verdict is not Verdict.AGAIN:
            raise
        echo(f"Retrying: {error}", err=True)
        return ()


@contextmanager
def _stop_asked(follow: bool) -> Iterator[threading.Event]:
    """With --follow, a first Ctrl-C or SIGTERM ends after the current snapshot, a second one at once.

    Without --follow a signal ends at once, so a partial output never looks complete.
    """
    stop = threading.Event()

    def asked(number: int, _: object) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()

    numbers = (signal.SIGINT, signal.SIGTERM) if follow else ()
    before = {number: signal.signal(number, asked) for number in numbers}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _opened(table: str, chosen: Mapping[str, Any]) -> Iterator[TableChanges]:
    """Start Spark for reading, and open the table."""
    from calve.catalog.catalog import Catalog, embedded  # brings Spark's Python side
    from calve.catalog.sqlite import SqliteCatalog, sqlite_file
    from calve.catalog.storage import needs_s3
    from calve.changes.plan import Planner
    from calve.changes.table_changes import TableChanges
    from calve.engine import session
    from calve.engine.jvm.plan import READING

    properties = dict(chosen["catalog"]) or embedded(Path("lakehouse"))
    file = sqlite_file(properties)
    if file is not None and SqliteCatalog(file, properties).load(table) is None:  # checked without Spark
        raise _no_table(table, file)
    conf = READING | chosen["conf"]
    echo("Starting Spark, which takes some seconds; calve show prints rows without it", err=True)
    spark = session.start(chosen["master"], conf, needs_s3=needs_s3(properties), preload=())
    try:
        catalog = Catalog(spark, properties)
        yield TableChanges(Planner(spark), table, partial(catalog.load_java, table), chosen["branch"], chosen["key"])
    finally:
        session.stop(spark)


def _no_table(table: str, file: Path) -> NoTargetError:
    hint = "Name another table, or set its catalog with --catalog"
    if not file.is_file():
        hint = "Set the catalog with --catalog, or change to the folder that has it"
    where = f"the catalog {file}" if file.is_file() else f"{file}: there is no such catalog"
    return NoTargetError(f"There is no table {table} in {where}", step="changes", target=table, hint=hint)

"""`calve state`: rebuild a lost state, copy a state, or forget the staged files of a dropped table."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import click
import msgspec

from calve.cli import failures, options
from calve.cli.help import Group
from calve.cli.output import echo
from calve.errors import SettingsError
from calve.observe.humanize import many
from calve.observe.log import configure
from calve.settings import named, parse

__all__ = ["copy_state", "forget_table", "rebuild_state", "state"]

_SHOWN_FILES = 10


@click.group(cls=Group)
def state() -> None:
    """Rebuild a lost state, copy a state, or forget the staged files of a dropped table.

    Examples:
      calve state rebuild orders.yaml
      calve state copy ./calve-state s3://my-bucket/calve
      calve state forget shop.orders
    """


def _offsets(ctx: click.Context, parameter: click.Parameter, value: str | None) -> dict[str, dict[int, int]] | None:
    try:
        return None if value is None else msgspec.json.decode(value, type=dict[str, dict[int, int]])
    except msgspec.DecodeError as error:
        raise click.BadParameter(f'{error}; e.g. {{"orders": {{"0": 123}}}}') from None


def _milliseconds(ctx: click.Context, parameter: click.Parameter, value: str | None) -> int | None:
    try:
        time = None if value is None else datetime.fromisoformat(value)
    except ValueError:
        raise click.BadParameter(f"{value!r} is not a time, e.g. 2026-01-31T12:00:00Z") from None
    if time is None:
        return None
    return int((time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp() * 1000)


@state.command("rebuild")
@click.argument("path", type=click.Path(exists=True, path_type=Path))
@options.only_pipeline
@click.option(
    "--from",
    "at",
    type=click.Choice(["earliest", "latest", "group"]),
    help="Start with everything, with new data only, or at the offsets of Kafka's consumer group.",
)
@click.option(
    "--start-offsets", metavar="JSON", callback=_offsets, help="Start at these offsets of Kafka's partitions."
)
@click.option(
    "--start-timestamp",
    metavar="TIME",
    callback=_milliseconds,
    help="Start with records or files that were written at this time or later.",
)
@options.state
@options.master
@options.conf
@options.debug
@click.pass_context
def rebuild_state(
    ctx: click.Context,
    /,
    path: Path,
    pipeline: str | None,
    at: Literal["earliest", "latest", "group"] | None,
    start_offsets: dict[str, dict[int, int]] | None,
    start_timestamp: int | None,
    **run_options: Any,
) -> None:
    """Rebuild the lost state of a pipeline from its tables, without loss or duplicates.

    No run of the pipeline may be active, and no older copy of its state may be used afterwards. If the tables do not
    have enough information, nothing is written, and you choose where to start: events that the tables have are
    duplicated if they are read again, and skipped events are lost. The options also choose where a pipeline that has
    never run starts.

    Examples:
      calve state rebuild orders.yaml
      calve state rebuild pipelines/ --pipeline orders --state /var/lib/calve
      calve state rebuild orders.yaml --from latest
      calve state rebuild orders.yaml --from group
      calve state rebuild orders.yaml --start-offsets '{"orders": {"0": 123, "1": 456}}'
      calve state rebuild orders.yaml --start-timestamp 2026-01-31T12:00:00Z
    """
    from calve.operate.rebuild import rebuild
    from calve.pipeline.plugins import PLUGINS  # here, so that `calve state --help` needs no Spark
    from calve.pipeline.run import RunOptions
    from calve.sources.source import StartPosition

    configure(debug=ctx.meta[failures.DEBUG])
    given = [start for start in (at, start_offsets, start_timestamp) if start is not None]
    if len(given) > 1:
        raise click.UsageError("Only one of --from, --start-offsets and --start-timestamp is allowed")
    chosen = named(parse(path, PLUGINS).pipelines, pipeline)
    if len(chosen) > 1:
        names = ", ".join(settings.name for settings in chosen)
        raise SettingsError("Several pipelines are configured", step="rebuild", hint=f"Choose one: --pipeline {names}")
    beginning = StartPosition(at, start_offsets, start_timestamp) if given else None
    rebuild(chosen[0], RunOptions(**run_options), beginning, echo)


@state.command("forget")
@click.argument("table")
@options.only_pipeline
@options.state
@click.option("--yes", is_flag=True, help="Do not ask.")
@options.debug
def forget_table(table: str, pipeline: str | None, state: str, yes: bool) -> None:
    """Remove the staged files of a table that was dropped, so that the pipeline continues without them.

    Their events are then in no table, and Calve does not read them again. No run of the pipeline may be active. The
    files themselves stay where they are.

    Examples:
      calve state forget shop.orders
      calve state forget shop.orders --pipeline orders --state /var/lib/calve --yes
    """
    from calve.cli.states import no_pipelines  # here, so that `calve state --help` needs no Arrow
    from calve.observe.state_folder import Folder
    from calve.operate.forget import FilesOfTable
    from calve.pipeline.run import RunOptions, state_folder

    folder = state_folder(RunOptions(state))
    names = [name for name in Folder.at(state).folders() if pipeline in (None, name)]
    if not names:
        raise no_pipelines(state, pipeline)
    for name in names:
        with FilesOfTable(folder / name, table) as staged:
            if not staged.batches:
                echo(f"{name}: no staged files of {table}")
                continue
            staged_text = f"{many(staged.rows, 'row')} in {many(staged.batches, 'staged batch', 'staged batches')}"
            if not yes:
                click.confirm(
                    f"{name}: {table} has {staged_text}. Remove them? Their events will be in no table", abort=True
                )
            staged.forget()
            echo(f"{name}: forgot {staged_text} of {table}. The files stay in their storage:")
            for path in staged.paths[:_SHOWN_FILES]:
                echo(f"  {path}")
            if len(staged.paths) > _SHOWN_FILES:
                echo(f"  and {len(staged.paths) - _SHOWN_FILES:,} more")


@state.command("copy")
@click.argument("old", metavar="FROM")
@click.argument("new", metavar="TO")
@options.only_pipeline
@options.debug
def copy_state(old: str, new: str, pipeline: str | None) -> None:
    """Copy a state to another folder or object store, or back. No run of its pipelines may be active.

    Run with the copy from then on: `calve run` refuses the old state. Nothing of the old state is removed. Dead letters
    that `dlq` of a sink sends elsewhere stay there.

    Examples:
      calve state copy ./calve-state s3://my-bucket/calve
      calve state copy s3://my-bucket/calve /var/lib/calve --pipeline orders
    """
    from calve.cli.states import no_pipelines
    from calve.observe.state_folder import Folder
    from calve.operate.copy_state import copy_pipeline
    from calve.pipeline.run import RunOptions, state_folder

    source, target = state_folder(RunOptions(old)).absolute(), state_folder(RunOptions(new)).absolute()
    names = [name for name in Folder.at(old).folders() if pipeline in (None, name)]
    if not names:
        raise no_pipelines(old, pipeline)
    for name in names:
        copy_pipeline(source / name, target / name, str(target), echo)
    echo(f"From now on run with --state {target}")

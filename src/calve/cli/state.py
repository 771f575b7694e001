"""`calve state`: rebuild a lost state."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import click
import msgspec

from calve.cli import failures, options
from calve.cli.help import Group
from calve.errors import SettingsError
from calve.observe.log import configure
from calve.settings import named, parse
from calve.sources.source import Beginning

__all__ = ["rebuild_state", "state"]


@click.group(cls=Group)
def state() -> None:
    """Rebuild a lost state, or choose where a pipeline starts.

    Examples:
      calve state rebuild orders.yaml
    """


def _offsets(ctx: click.Context, parameter: click.Parameter, value: str | None) -> dict[str, dict[int, int]] | None:
    try:
        return None if value is None else msgspec.json.decode(value, type=dict[str, dict[int, int]])
    except msgspec.DecodeError as error:
        raise click.BadParameter(f'{error}; e.g. {{"orders": {{"0": 123}}}}') from None


def _milliseconds(ctx: click.Context, parameter: click.Parameter, value: str | None) -> int | None:
    try:
        moment = None if value is None else datetime.fromisoformat(value)
    except ValueError:
        raise click.BadParameter(f"{value!r} is not a time, e.g. 2026-01-31T12:00:00Z") from None
    if moment is None:
        return None
    return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)


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

    configure(debug=ctx.meta[failures.DEBUG])
    given = [one for one in (at, start_offsets, start_timestamp) if one is not None]
    if len(given) > 1:
        raise click.UsageError("Only one of --from, --start-offsets and --start-timestamp is allowed")
    chosen = named(parse(path, PLUGINS).pipelines, pipeline)
    if len(chosen) > 1:
        names = ", ".join(one.name for one in chosen)
        raise SettingsError("Several pipelines are configured", step="rebuild", hint=f"Choose one: --pipeline {names}")
    beginning = Beginning(at, start_offsets, start_timestamp) if given else None
    rebuild(chosen[0], RunOptions(**run_options), beginning, click.echo)

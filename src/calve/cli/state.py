"""`calve state`: make a lost state anew."""

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
from calve.settings import parse
from calve.sources.source import Beginning

__all__ = ["rebuild_state", "state"]


@click.group(cls=Group)
def state() -> None:
    """Make a lost state anew: where the pipelines go on.

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
        raise click.BadParameter(f"{value!r} is no time, e.g. 2026-01-31T12:00:00Z") from None
    if moment is None:
        return None
    return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)


@state.command("rebuild")
@click.argument("path", type=click.Path(exists=True, path_type=Path))
@options.only_pipeline
@click.option(
    "--from", "at", type=click.Choice(["earliest", "latest"]), help="Begin with all that is there, or what comes later."
)
@click.option(
    "--start-offsets", metavar="JSON", callback=_offsets, help="Begin at these offsets of Kafka's partitions."
)
@click.option(
    "--start-timestamp",
    metavar="TIME",
    callback=_milliseconds,
    help="Begin with the records, or the files, that were written at this time or later.",
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
    at: Literal["earliest", "latest"] | None,
    start_offsets: dict[str, dict[int, int]] | None,
    start_timestamp: int | None,
    **run_options: Any,
) -> None:
    """Make the lost state of a pipeline anew from what its tables tell; nothing is lost and nothing doubled.

    Nothing of the pipeline may run meanwhile, nor an older copy of its state afterwards. Where the tables do not tell
    enough it is refused, and you choose where to begin: what the tables have is doubled if it is read again, what is
    skipped is lost. A pipeline that has never run can begin at a chosen place, too.

    Examples:
      calve state rebuild orders.yaml
      calve state rebuild pipelines/ --pipeline orders --state /var/lib/calve
      calve state rebuild orders.yaml --from latest
      calve state rebuild orders.yaml --start-offsets '{"orders": {"0": 123, "1": 456}}'
      calve state rebuild orders.yaml --start-timestamp 2026-01-31T12:00:00Z
    """
    from calve.pipeline.plugins import PLUGINS  # here, so that `calve state --help` needs no Spark
    from calve.pipeline.rebuild import rebuild
    from calve.pipeline.run import RunOptions

    configure(debug=ctx.meta[failures.DEBUG])
    given = [one for one in (at, start_offsets, start_timestamp) if one is not None]
    if len(given) > 1:
        raise click.UsageError("--from, --start-offsets and --start-timestamp exclude each other")
    chosen = options.named(parse(path, PLUGINS).pipelines, pipeline)
    if len(chosen) > 1:
        names = ", ".join(one.name for one in chosen)
        raise SettingsError("Several pipelines are configured", step="rebuild", hint=f"Choose one: --pipeline {names}")
    beginning = Beginning(at, start_offsets, start_timestamp) if given else None
    rebuild(chosen[0], RunOptions(**run_options), beginning, click.echo)

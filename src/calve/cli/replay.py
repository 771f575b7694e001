"""`calve dlq replay`: send rejected events again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import click

from calve.cli import failures, options
from calve.cli.help import Command
from calve.cli.output import echo
from calve.cli.table import columns
from calve.observe.humanize import many
from calve.observe.log import Log, configure
from calve.observe.progress import ProgressLine
from calve.settings import named, parse

if TYPE_CHECKING:
    from calve.operate.replay import Replayed

__all__ = ["replay_entries"]

_FILES_SHOWN = 5


@click.command("replay", cls=Command)
@click.argument("path", type=click.Path(exists=True, path_type=Path))
@options.only_pipeline
@options.code
@options.table
@options.give_up_after
@options.state
@options.master
@options.conf
@options.debug
@click.pass_context
def replay_entries(
    ctx: click.Context,
    /,
    path: Path,
    pipeline: str | None,
    code: str | None,
    table: str | None,
    **run_options: str | timedelta | dict[str, str] | None,
) -> None:
    """Send rejected events through their pipeline again, each at most once, and show the result.

    PATH is the YAML of the pipelines. Correct it, or the table, before the replay. The events take the pipeline's
    current routes, but only to the sink that rejected them. An event that is rejected again is a new dead letter, which
    the next replay sends. The pipeline may run meanwhile. After a crash, run the command again; it continues.

    Examples:
      calve dlq replay orders.yaml
      calve dlq replay pipelines/ --pipeline orders --code REQUIRED_MISSING
      calve dlq replay orders.yaml --table shop.orders --state /var/lib/calve
    """
    from calve.cli.signals import run_until_asked  # here, so that `--help` and `dlq list` need no Spark
    from calve.engine.jvm.process import abandon_all
    from calve.observe.watch import Watch
    from calve.operate.replay import Chosen, replay
    from calve.pipeline.plugins import PLUGINS
    from calve.pipeline.run import RunOptions

    terminal = configure(debug=ctx.meta[failures.DEBUG])
    parsed = parse(path, PLUGINS)
    for warning in parsed.warnings:
        Log().warning(str(warning))
    chosen = named(parsed.pipelines, pipeline)
    done: list[Replayed] = []

    def work() -> int:
        replay(chosen, RunOptions(**run_options, once=True), Chosen(code, table), watch, done.append)  # type: ignore[arg-type]
        return 0

    try:
        with ExitStack() as stack:
            watch = stack.enter_context(Watch())
            stack.enter_context(ProgressLine(watch.reports, terminal))
            run_until_asked(work, watch, abandon_all)
    finally:
        for outcome in done:
            echo("\n".join(_lines(outcome)))


def _lines(done: Replayed) -> Iterator[str]:
    if not done.sent:
        yield f"{done.pipeline}: nothing to replay"
        return
    rows, rejects = done.rows or {}, done.rejects or {}
    again, arrived = sum(rejects.values()), sum(rows.values())
    yield f"{done.pipeline}: {many(done.sent, 'event')} sent, {arrived:,} now in tables, {again:,} rejected again"
    if rows:
        yield from (f"  {line}" for line in columns(("table", ">rows"), [(k, f"{n:,}") for k, n in rows.items()]))
    if rejects:
        yield from (f"  {line}" for line in columns(("code", ">events"), [(k, f"{n:,}") for k, n in rejects.items()]))
    if done.files:
        yield f"  rejected again, in {many(len(done.files), 'file')}:"
        yield from (f"    {file}" for file in done.files[:_FILES_SHOWN])
    if done.unrouted:
        yield f"  {many(done.unrouted, 'event')} that match no route now"
    if done.left:
        yield f"  {many(done.left, 'event')} not sent, because you stopped it: run the replay again"

"""Sends a pipeline's dead letters through it again: an ordinary run with its own ledger, and rejects for a source."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from calve.dead_letters.reader import places_of
from calve.dead_letters.replay.selection import Selection
from calve.dead_letters.replay.source import RejectsSource
from calve.engine import session
from calve.event.columns import VERSION
from calve.ledger.ledger import Ledger
from calve.observe.status_file import REPLAY_FOLDER as FOLDER
from calve.observe.totals import Totals
from calve.observe.watch import Watch
from calve.pipeline.driver import Driver, RunMode
from calve.pipeline.plugins import metadata_of
from calve.pipeline.run import Catalogs, RunOptions, needs_s3, state_folder
from calve.pipeline.wiring import Wiring, dead_letter_places, replay_name, sink_labels, sink_places
from calve.settings import PipelineSettings

__all__ = ["Chosen", "Replayed", "replay"]


@dataclass(frozen=True)
class Chosen:
    """Which dead letters to send: of one code, of one table; None: of any."""

    code: str | None = None
    table: str | None = None


@dataclass(frozen=True)
class Replayed:
    """What became of a pipeline's dead letters in one call.

    Attributes:
        sent: How many were read; none were waiting where this is 0.
        rows: Rows that are now in tables, by table.
        rejects: How many were rejected again, by code.
        unrouted: How many no route takes any more.
        files: Where those are that were rejected again.
        left: How many were not sent, because the stop was asked for.
    """

    pipeline: str
    sent: int = 0
    rows: Mapping[str, int] | None = None
    rejects: Mapping[str, int] | None = None
    unrouted: int = 0
    files: Sequence[str] = ()
    left: int = 0


def replay(
    pipelines: Sequence[PipelineSettings],
    options: RunOptions,
    chosen: Chosen,
    watch: Watch,
    tell: Callable[[Replayed], None],
) -> None:
    """Send the dead letters of pipelines again, one pipeline after the other, each entry at most once.

    Repeat it after a kill: it goes on where it was, and nothing is doubled. The pipeline itself may run meanwhile.

    Args:
        pipelines: As parsed; their routes and tables decide anew.
        options: Where the state is, and how Spark runs.
        chosen: Which entries.
        watch: Gets the status, and says when to stop.
        tell: Is told of each pipeline, as soon as it is done.

    Raises:
        CalveError: A replay cannot go on. What it began is finished by the next one.
    """
    one_by_one = [_Replay(settings, state_folder(options) / settings.name, chosen, options) for settings in pipelines]
    waiting = [one for one in one_by_one if one.has_table or one.waits()]
    for one in one_by_one:
        if one not in waiting:
            tell(Replayed(one.settings.name))
    if not waiting:
        return
    preload = (*session.PRELOADED, "calve.task.task")
    spark = session.start(options.master, options.conf, needs_s3([one.settings for one in waiting]), preload)
    try:
        catalogs = Catalogs(spark)
        for one in waiting:
            if not watch.stop.is_set():
                tell(one.run(spark, catalogs, watch))
    finally:
        session.stop(spark)


class _Replay:
    def __init__(self, settings: PipelineSettings, folder: Path, chosen: Chosen, options: RunOptions) -> None:
        self.settings = settings
        self.has_table = any(sink.value.dlq_table for sink in settings.sinks)
        self._folder = folder
        self._mode = RunMode(once=True, give_up_seconds=options.give_up_after.total_seconds())
        self._name = replay_name(settings.name)
        names = {label: number for number, label in enumerate(sink_labels(settings))}
        paths = {place: number for number, place in enumerate(sink_places(settings))}
        selection = Selection(settings.name, paths | names, chosen.code, chosen.table)
        places = [*dead_letter_places(settings, folder), *places_of(options.state, settings.name)]
        self._source = RejectsSource(folder / FOLDER, places, selection, _metadata(settings), f"{self._name}-")
        self._before = Totals()

    def waits(self) -> bool:
        """Return whether there is anything to send or to finish; without Spark, because often there is not."""
        self._source.look()
        position, pending = None, []
        if (self._folder / FOLDER / "ledger").exists():
            with contextlib.closing(Ledger.open(self._folder / FOLDER / "ledger", self._name)) as ledger:
                position, pending = ledger.position, ledger.pending()
                self._before = ledger.committed.totals
        self._source.start(position, True, [one.planned for one in pending])
        if pending or self._source.backlog(position):
            return True
        self._source.finish()
        return False

    def run(self, spark: Any, catalogs: Catalogs, watch: Watch) -> Replayed:
        wiring = Wiring(self.settings, self._folder, catalogs.get, self._source)
        if self.has_table:  # which is looked at anew
            wiring.open_dead_letters()
            wiring.note_dead_letters()
            self._source.know(wiring.letter_places)
            if not self.waits():
                return Replayed(self.settings.name)
        Driver(spark, wiring, self._folder / FOLDER, self._mode, watch).run()
        self._source.know(wiring.letter_places)
        after = next(report for report in watch.reports() if report.pipeline == self._name)
        if not watch.stop.is_set():
            self._source.finish()
        before = self._before
        return Replayed(
            self.settings.name,
            after.events - before.events,
            Counter({name: one.rows for name, one in after.targets.items()})
            - Counter({name: one.rows for name, one in before.tables.items()}),
            Counter(after.rejects) - Counter(before.rejects),
            after.unrouted - before.unrouted,
            self._source.rejected_again(),
            max(after.lag_rows, 0) if watch.stop.is_set() else 0,
        )


def _metadata(settings: PipelineSettings) -> dict[str, pa.DataType]:
    """Return what dead letters know beside their events; where documents are written, the place in the order of all."""
    documents = not all(sink.value.has_tables for sink in settings.sinks)
    return {**metadata_of(settings), **({VERSION: pa.int64()} if documents else {})}

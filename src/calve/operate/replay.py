"""Replays a pipeline's dead letters: an ordinary run with its own ledger, and rejects as its source."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from calve.dead_letters.reader import locations_of
from calve.dead_letters.replay.selection import ReplaySelection
from calve.dead_letters.replay.source import RejectsSource
from calve.dead_letters.topic import LetterTopic
from calve.engine import session
from calve.event.columns import PART, VERSION
from calve.event.envelope.decoder import Envelopes
from calve.ledger.ledger import Ledger
from calve.observe.status_file import REPLAY_FOLDER as FOLDER
from calve.observe.totals import Totals
from calve.observe.watch import Watch
from calve.pipeline.driver import Driver, RunMode
from calve.pipeline.pipeline_parts import PipelineParts, dead_letter_locations, replay_name, sink_labels, sink_paths
from calve.pipeline.plugins import declared
from calve.pipeline.run import Catalogs, RunOptions, state_folder
from calve.pipeline.spark_needs import needs_s3
from calve.pipeline.task_modules import task_modules
from calve.settings import PipelineSettings
from calve.state.folder import StateFolder

__all__ = ["Chosen", "Replayed", "replay"]


@dataclass(frozen=True)
class Chosen:
    """The dead letters to replay: of one code, of one table; None: of all."""

    code: str | None = None
    table: str | None = None


@dataclass(frozen=True)
class Replayed:
    """The result of one replay of a pipeline's dead letters.

    Attributes:
        sent: How many were read; 0: none were waiting.
        rows: Rows that are now in tables, by table.
        rejects: How many were rejected again, by code.
        unrouted: How many no route selects any more.
        files: The files of those that were rejected again.
        left: How many were not sent, because a stop was requested.
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
    report: Callable[[Replayed], None],
) -> None:
    """Replay the dead letters of pipelines, one pipeline after the other, each entry at most once.

    Repeat it after a kill: it continues without duplicates. The pipeline itself may run meanwhile.

    Args:
        pipelines: The parsed pipelines; their current routes and tables apply.
        options: The state folder, and how Spark runs.
        chosen: Which entries.
        watch: Gets the status, and has the request to stop.
        report: Called with the result of each pipeline, as soon as it is done.

    Raises:
        CalveError: A replay cannot continue. The next one finishes it.
    """
    one_by_one = [_Replay(settings, state_folder(options) / settings.name, chosen, options) for settings in pipelines]
    waiting = [
        pipeline_replay for pipeline_replay in one_by_one if pipeline_replay.has_table or pipeline_replay.waits()
    ]
    for pipeline_replay in one_by_one:
        if pipeline_replay not in waiting:
            report(Replayed(pipeline_replay.settings.name))
    if not waiting:
        return
    settings = [pipeline_replay.settings for pipeline_replay in waiting]
    spark = session.start(options.master, options.conf, needs_s3(settings), task_modules(settings))
    try:
        catalogs = Catalogs(spark)
        for pipeline_replay in waiting:
            if not watch.stop.is_set():
                report(pipeline_replay.run(spark, catalogs, watch))
    finally:
        session.stop(spark)


class _Replay:
    def __init__(self, settings: PipelineSettings, folder: StateFolder, chosen: Chosen, options: RunOptions) -> None:
        self.settings = settings
        self.has_table = any(sink.value.dlq_table for sink in settings.sinks)
        self._folder = folder
        self._mode = RunMode(once=True, give_up_seconds=options.give_up_after.total_seconds())
        self._name = replay_name(settings.name)
        names = {label: number for number, label in enumerate(sink_labels(settings))}
        paths = {path: number for number, path in enumerate(sink_paths(settings))}
        fed = frozenset(number for number, sink in enumerate(settings.sinks) if sink.branch)
        selection = ReplaySelection(settings.name, paths | names, chosen.code, chosen.table, fed)
        locations = [*dead_letter_locations(settings, folder), *locations_of(options.state, settings.name)]
        topics = [LetterTopic.of(sink.value.dlq_topic) for sink in settings.sinks if sink.value.dlq_topic]
        own = f"{self._name}-"
        self._source = RejectsSource(folder / FOLDER, locations, selection, _metadata(settings), own, topics)
        self._before = Totals()

    def waits(self) -> bool:
        """Return whether there is anything to send or to finish; it often is not, so Spark is not needed."""
        self._source.find_files()
        position, pending = None, []
        if (self._folder / FOLDER / "ledger").exists():
            with contextlib.closing(Ledger.open(self._folder / FOLDER / "ledger", self._name)) as ledger:
                position, pending = ledger.position, ledger.pending()
                self._before = ledger.committed.totals
        self._source.start(position, True, [batch.planned for batch in pending])
        if pending or self._source.backlog(position):
            return True
        self._source.finish()
        return False

    def run(self, spark: Any, catalogs: Catalogs, watch: Watch) -> Replayed:
        parts = PipelineParts(self.settings, self._folder, catalogs.get, self._source)
        if self.has_table:  # load it again
            parts.letters.open()
            parts.letters.note()
            self._source.know(parts.letters.readable)
            if not self.waits():
                return Replayed(self.settings.name)
        Driver(spark, parts, self._folder / FOLDER, self._mode, watch).run()
        self._source.know(parts.letters.readable)
        after = next(report for report in watch.reports() if report.pipeline == self._name)
        if not watch.stop.is_set():
            self._source.finish()
        before = self._before
        return Replayed(
            self.settings.name,
            after.events - before.events,
            Counter({name: table.rows for name, table in after.targets.items()})
            - Counter({name: table.rows for name, table in before.tables.items()}),
            Counter(after.rejects) - Counter(before.rejects),
            after.unrouted - before.unrouted,
            self._source.rejected_again(),
            max(after.lag_rows, 0) if watch.stop.is_set() else 0,
        )


def _metadata(settings: PipelineSettings) -> dict[str, pa.DataType]:
    """Return the metadata of dead letters: those of source and envelopes, and what else an event keeps."""
    documents = not all(sink.value.has_tables for sink in settings.sinks)
    versions = {VERSION: pa.int64()} if documents else {}
    parts = {PART: pa.string()} if settings.every_processor else {}
    source = declared(settings)
    envelopes = Envelopes(source.envelope).metadata if source.envelope else {}  # masked rows are decoded
    return {**source.metadata, **envelopes, **versions, **parts}

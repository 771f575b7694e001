"""Rebuilds a lost state from the pipeline's tables, without loss and without duplicates.

Each table has its last batch (its mark), a batch up to which all tables have their rows, and the source's positions
after batches. The new state continues after the last batch that all tables certainly have. Later batches, which only
some tables have, are read again under the same numbers, up to the same positions. As after any crash, a table skips
the batches up to its mark, and the other tables get them.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from calve.commit.evidence import Evidence, evidence
from calve.engine import session
from calve.errors import PositionLostError, SettingsError
from calve.ledger.ledger import Committed, Ledger, under_construction
from calve.pipeline.batch import run_batch
from calve.pipeline.plugins import declared, open_source
from calve.pipeline.run import Catalogs, RunOptions, state_folder
from calve.pipeline.spark_needs import needs_s3
from calve.settings import PipelineSettings
from calve.sinks.iceberg.settings import IcebergSettings
from calve.sinks.opensearch.settings import OpenSearchSettings
from calve.sources.settings import StateForm
from calve.sources.source import BeginsAnywhere, Planned, Position, Rereads, Source, StartPosition
from calve.state.folder import StateFolder

__all__ = ["Decision", "decide", "rebuild"]

_CHOICES = "Choose where to begin: --from earliest, latest or group (Kafka's), --start-offsets or --start-timestamp"
_LONGEST = 300
_NOTHING: Any = SimpleNamespace(write=lambda *_: [])
"""Writes a batch without events."""
_RISK = "events that are read again become duplicates, events that are skipped are lost"


@dataclass(frozen=True)
class Decision:
    """Where the new state continues.

    Attributes:
        state_id: The identity in the tables' marks.
        batch: The last batch that counts as committed.
        position: The source's position after it; None: the source's own start.
        again: Later batches that only some tables have, in order, each with the position after it.
    """

    state_id: str
    batch: int
    position: Position | None
    again: tuple[tuple[int, Position], ...] = ()


def decide(evidence: Sequence[Evidence], is_only_table: bool) -> Decision:
    """Decide where to continue without loss and without duplicates.

    Args:
        evidence: The evidence of all tables with rows of the pipeline.
        is_only_table: Whether the pipeline cannot have other tables, so that one mark is enough.

    Raises:
        PositionLostError: The tables do not have enough evidence.
    """
    state_id = _only_state(evidence)
    positions = _positions(evidence)
    complete = max(mark.batch if is_only_table else mark.complete for mark in evidence)
    batch = max((number for number in positions if number <= complete), default=0)
    later = {mark.batch: mark.table for mark in evidence if mark.batch > batch}
    for number, table in later.items():
        if number not in positions:
            what = f"The snapshot of {table} with the source's position after batch {number} has expired"
            problem = f"{what}, or the position is too large for a snapshot"
            raise _undecided(problem, f"{_CHOICES}; {_RISK}")
    again = tuple((number, positions[number]) for number in sorted(later))
    return Decision(state_id, batch, positions.get(batch), again)


def _only_state(evidence: Sequence[Evidence]) -> str:
    if not evidence:
        raise _undecided("No table has rows of this pipeline", "`calve run` starts as the settings say")
    states = {mark.state_id: mark for mark in evidence}
    if len(states) > 1:
        marks = "; ".join(
            f"ALTER TABLE {mark.table} UNSET TBLPROPERTIES ('{mark.mark}')"
            for mark in evidence
            if mark.state_id != evidence[0].state_id
        )
        hint = f"Remove the marks of all states but one, and repeat; rows of the others may be duplicated: {marks}"
        raise _undecided(f"The tables have rows of {len(states)} different states", hint)
    return evidence[0].state_id


def _positions(evidence: Iterable[Evidence]) -> dict[int, Position]:
    positions: dict[int, Position] = {}
    for mark in evidence:
        for number, position in mark.positions.items():
            if positions.setdefault(number, position) != position:
                text = f"The tables disagree on the source's position after batch {number}"
                raise _undecided(text, f"{_CHOICES}; {_RISK}")
    return positions


def _undecided(text: str, hint: str) -> PositionLostError:
    return PositionLostError(text, step="rebuild", hint=hint)


def rebuild(
    settings: PipelineSettings, options: RunOptions, beginning: StartPosition | None, say: Callable[[str], None]
) -> None:
    """Rebuild the state of a pipeline.

    Args:
        settings: The pipeline.
        options: The new state folder, and how to start Spark, which reads the tables.
        beginning: Where to start, if not the tables shall decide.
        say: Called with each line about the evidence and the decision.

    Raises:
        SettingsError: There is a state, or the source cannot start there.
        PositionLostError: The tables do not have enough evidence.
        CalveError: A catalog or the source does not answer.
    """
    folder = state_folder(options) / settings.name
    _check_is_lost(folder, settings)
    spark = session.start(options.master, options.conf, needs_s3([settings]))
    try:
        catalogs = Catalogs(spark)
        opened = [catalogs.get(entry.value.catalog or {}) for entry in settings.sinks if entry.value.has_tables]
        marks = [entry for catalog in dict(opened).values() for entry in evidence(catalog, settings.name)]
        for line in _describe_evidence(marks):
            say(line)
        source = open_source(settings, folder, catalogs.get)
        decision = _decision(settings, marks, source, beginning)
        for line in _describe_decision(decision):
            say(line)
        if declared(settings).accepts and not beginning:
            say("Events that were accepted but not committed were in the lost folder, and are lost with it")
        _write(folder, settings.name, decision, source)
    finally:
        session.stop(spark)


def _check_is_lost(folder: StateFolder, settings: PipelineSettings) -> None:
    for name in ("ledger", settings.source.name):
        if (folder / name).exists():
            raise SettingsError(
                f"{folder / name} exists: the state of the pipeline {settings.name} is not lost, or only in part",
                step="rebuild",
                target=str(folder),
                hint="Run with it; to rebuild the state, move it away first",
            )


def _describe_evidence(evidence: Sequence[Evidence]) -> Iterable[str]:
    for mark in evidence:
        branch = "" if mark.branch == "main" else f" (branch {mark.branch})"
        position = mark.positions.get(mark.batch)
        reads = f", which ends at {_text(position)}" if position is not None else ""
        yield f"{mark.table}{branch}: has batch {mark.batch} of state {mark.state_id[:8]}{reads}"
    if complete := max((mark.complete for mark in evidence), default=0):
        yield f"All tables have their rows up to batch {complete}"


def _text(position: Position) -> str:
    text = json.dumps({name: value for name, value in position.items() if not name.startswith("@")})
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def _describe_decision(decision: Decision) -> Iterable[str]:
    where = "at the source's own start" if decision.position is None else f"at {_text(decision.position)}"
    yield f"The new state continues after batch {decision.batch}, {where}"
    if decision.again:
        last, position = decision.again[-1]
        yield (
            f"Batches {decision.batch + 1} to {last}, up to {_text(position)}, are read again: tables that have "
            "them skip them. Their rejects are rejected again"
        )


def _decision(
    settings: PipelineSettings, evidence: Sequence[Evidence], source: Source, beginning: StartPosition | None
) -> Decision:
    if beginning is not None:
        return _chosen(settings, evidence, source, beginning)
    if any(isinstance(sink.value, OpenSearchSettings) and not sink.value.id_text for sink in settings.sinks):
        raise _undecided("Documents without a document_id would be duplicated", f"{_CHOICES}; {_RISK}")
    if declared(settings).accepts:  # uncommitted events are lost with the folder: nothing is read again
        return Decision(_only_state(evidence), max(mark.batch for mark in evidence), None)
    if StateForm.LIST in declared(settings).remembers.values():
        text = "The list of files that were read is lost with the state, and tables do not have their names"
        choices = "Choose which files count as read: --from earliest (none), --from latest (all), or --start-timestamp"
        raise _undecided(text, f"{choices} (those that were written before); {_RISK}")
    decision = decide(evidence, _has_one_table(settings, evidence))
    spool = any("open" in place for place in (decision.position or {}).get("tables", {}).values())
    if spool or (decision.again and not isinstance(source, Rereads)):
        text = f"The positions of the source {settings.source.name} for batches that are not in all tables are lost"
        raise _undecided(
            text, "Start with --from earliest, as the settings say; rows that the tables have are duplicated"
        )
    return decision


def _has_one_table(settings: PipelineSettings, evidence: Sequence[Evidence]) -> bool:
    sinks = [entry.value for entry in settings.sinks]
    if len(sinks) != 1 or not isinstance(sinks[0], IcebergSettings) or sinks[0].dynamic or sinks[0].dlq_table:
        return False
    return {(entry.table, entry.branch) for entry in evidence} == {
        (sinks[0].table_identifier, sinks[0].of(sinks[0].table_identifier).target_branch)
    }


def _chosen(
    settings: PipelineSettings, evidence: Sequence[Evidence], source: Source, beginning: StartPosition
) -> Decision:
    state_id = _only_state(evidence) if evidence else str(uuid.uuid4())
    batch = max((mark.batch for mark in evidence), default=0)
    if isinstance(source, BeginsAnywhere):
        return Decision(state_id, batch, source.begin_at(beginning))
    if beginning.at == "earliest" and not declared(settings).accepts:
        return Decision(state_id, batch, None)
    raise SettingsError(
        f"The source {settings.source.name} cannot start at a chosen position",
        step="rebuild",
        target=settings.source.name,
        hint="Accepted events are lost with the folder"
        if declared(settings).accepts
        else "It starts as its settings say: --from earliest",
    )


def _write(folder: StateFolder, name: str, decision: Decision, source: Source) -> None:
    """Write the state atomically."""
    committed = Committed(decision.batch, decision.position)
    with (
        under_construction(folder / "ledger") as new,
        closing(Ledger.create(new, name, decision.state_id, committed)) as ledger,
    ):
        for planned in _planned(decision, source):
            number = ledger.last_batch + 1
            if planned.splits:
                ledger.begin(number, planned)
            else:
                run_batch(number, planned, time.time(), ledger, _NOTHING)


def _planned(decision: Decision, source: Source) -> Iterable[Planned]:
    number, position = decision.batch, decision.position
    for later, behind in decision.again:
        assert isinstance(source, Rereads)
        yield from source.between(position, behind, later - number)
        number, position = later, behind

"""Makes a lost state anew from what the pipeline's tables tell, so that nothing is lost and nothing doubled.

Each table tells the last batch that it has (its mark), a batch up to which all tables have their rows, and the source's
positions behind batches. The new state goes on behind the last batch that all tables surely have. What some tables
have of later batches is read again under the same numbers, cut at the same positions: a table skips the batches that
its mark says it has, as it does after any crash, and the others take them.
"""

from __future__ import annotations

import json
import shutil
import time
import uuid
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from calve import durable
from calve.commit.evidence import Evidence, evidence
from calve.engine import session
from calve.errors import PositionLostError, SettingsError
from calve.ledger.ledger import Committed, Ledger
from calve.pipeline.batch import run_batch
from calve.pipeline.plugins import accepts, open_source
from calve.pipeline.run import Catalogs, RunOptions, needs_s3, state_folder
from calve.settings import PipelineSettings
from calve.sinks.iceberg.settings import IcebergSettings
from calve.sinks.opensearch.settings import OpenSearchSettings
from calve.sources.source import Beginning, BeginsAnywhere, Planned, Position, Rereads, Source

__all__ = ["Decision", "decide", "rebuild"]

_CHOICES = "Choose where to begin: --from earliest, latest or group (Kafka's), --start-offsets or --start-timestamp"
_LONGEST = 300
_NOTHING: Any = SimpleNamespace(write=lambda *_: [])
"""Writes a batch without events."""
_RISK = "what is read again is doubled, what is skipped is lost"


@dataclass(frozen=True)
class Decision:
    """How a new state goes on.

    Attributes:
        state_id: The identity that the tables know.
        batch: The last batch that counts as committed.
        position: The source's position behind it; None: where the source begins by itself.
        again: Later batches that only some tables have, in order, each with the position behind it.
    """

    state_id: str
    batch: int
    position: Position | None
    again: tuple[tuple[int, Position], ...] = ()


def decide(found: Sequence[Evidence], is_only_table: bool) -> Decision:
    """Decide how to go on so that nothing is lost or doubled.

    Args:
        found: What the tables tell; all of them that have rows of the pipeline.
        is_only_table: Whether the pipeline can have no other table, so that its mark tells of all batches.

    Raises:
        PositionLostError: The tables do not tell enough.
    """
    state_id = _only_state(found)
    positions = _positions(found)
    complete = max(one.batch if is_only_table else one.complete for one in found)
    batch = max((number for number in positions if number <= complete), default=0)
    later = {one.batch: one.table for one in found if one.batch > batch}
    for number, table in later.items():
        if number not in positions:
            what = f"The snapshot of {table} that told the source's position behind batch {number} has expired"
            raise _undecided(what, f"{_CHOICES}; {_RISK}")
    again = tuple((number, positions[number]) for number in sorted(later))
    return Decision(state_id, batch, positions.get(batch), again)


def _only_state(found: Sequence[Evidence]) -> str:
    if not found:
        raise _undecided("No table has rows of this pipeline", "`calve run` begins as the settings say")
    states = {one.state_id: one for one in found}
    if len(states) > 1:
        marks = "; ".join(
            f"ALTER TABLE {one.table} UNSET TBLPROPERTIES ('{one.mark}')"
            for one in found
            if one.state_id != found[0].state_id
        )
        hint = f"Leave the marks of one of them and call this again; what the others have may then be doubled: {marks}"
        raise _undecided(f"The tables have rows of {len(states)} different states", hint)
    return found[0].state_id


def _positions(found: Iterable[Evidence]) -> dict[int, Position]:
    positions: dict[int, Position] = {}
    for one in found:
        for number, position in one.positions.items():
            if positions.setdefault(number, position) != position:
                text = f"The tables disagree on the source's position behind batch {number}"
                raise _undecided(text, f"{_CHOICES}; {_RISK}")
    return positions


def _undecided(text: str, hint: str) -> PositionLostError:
    return PositionLostError(text, step="rebuild", hint=hint)


def rebuild(
    settings: PipelineSettings, options: RunOptions, beginning: Beginning | None, say: Callable[[str], None]
) -> None:
    """Make the state of a pipeline anew.

    Args:
        settings: The pipeline.
        options: Where its state will be, and how to start Spark, which reads the tables.
        beginning: Where to begin, if the tables shall not decide it.
        say: Is told what was found and what was decided, line by line.

    Raises:
        SettingsError: There is a state, or the source cannot begin where it shall.
        PositionLostError: The tables do not tell enough.
        CalveError: A catalog or the source does not answer.
    """
    folder = state_folder(options) / settings.name
    _check_is_lost(folder, settings)
    spark = session.start(options.master, options.conf, needs_s3([settings]))
    try:
        catalogs = Catalogs(spark)
        opened = [catalogs.get(one.value.catalog or {}) for one in settings.sinks if one.value.has_tables]
        found = [one for catalog in dict(opened).values() for one in evidence(catalog, settings.name)]
        for line in _told(found):
            say(line)
        source = open_source(settings, folder, catalogs.get)
        decision = _decision(settings, found, source, beginning)
        for line in _decided(decision):
            say(line)
        if accepts(settings) and not beginning:
            say("Events that were accepted and not committed were in the lost folder, and are lost with it")
        _write(folder, settings.name, decision, source)
    finally:
        session.stop(spark)


def _check_is_lost(folder: Path, settings: PipelineSettings) -> None:
    for name in ("ledger", settings.source.name):
        if (folder / name).exists():
            raise SettingsError(
                f"{folder / name} is there: the state of the pipeline {settings.name} is not lost, or not whole",
                step="rebuild",
                target=str(folder),
                hint="Run with it; if it is to be made anew, move it away first",
            )


def _told(found: Sequence[Evidence]) -> Iterable[str]:
    for one in found:
        branch = "" if one.branch == "main" else f" (branch {one.branch})"
        position = one.positions.get(one.batch)
        reads = f", which ends at {_text(position)}" if position is not None else ""
        yield f"{one.table}{branch}: has batch {one.batch} of state {one.state_id[:8]}{reads}"
    if complete := max((one.complete for one in found), default=0):
        yield f"All tables have their rows up to batch {complete}, they say"


def _text(position: Position) -> str:
    text = json.dumps({name: value for name, value in position.items() if not name.startswith("@")})
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def _decided(decision: Decision) -> Iterable[str]:
    where = "as the source begins by itself" if decision.position is None else f"at {_text(decision.position)}"
    yield f"The new state goes on behind batch {decision.batch}, {where}"
    if decision.again:
        last, position = decision.again[-1]
        yield (
            f"Batches {decision.batch + 1} to {last}, up to {_text(position)}, are read again: tables that have "
            "them skip them. What they rejected is rejected again"
        )


def _decision(
    settings: PipelineSettings, found: Sequence[Evidence], source: Source, beginning: Beginning | None
) -> Decision:
    if beginning is not None:
        return _chosen(settings, found, source, beginning)
    if any(isinstance(one.value, OpenSearchSettings) and not one.value.id_text for one in settings.sinks):
        raise _undecided("Documents without a document_id would be doubled", f"{_CHOICES}; {_RISK}")
    if accepts(settings):  # what was accepted and not committed is lost with the folder: nothing is read again
        return Decision(_only_state(found), max(one.batch for one in found), None)
    if settings.source.name == "file":
        text = "The list of files that were read is lost with the state, and tables do not tell their names"
        choices = "Choose which files count as read: --from earliest (none), --from latest (all), or --start-timestamp"
        raise _undecided(text, f"{choices} (those that were written before); {_RISK}")
    decision = decide(found, _has_one_table(settings, found))
    spool = any("open" in place for place in (decision.position or {}).get("tables", {}).values())
    if spool or (decision.again and not isinstance(source, Rereads)):
        text = f"What the source {settings.source.name} had read for batches that are not in all tables is lost"
        raise _undecided(text, "Begin with --from earliest, as the settings say; what the tables have is doubled")
    return decision


def _has_one_table(settings: PipelineSettings, found: Sequence[Evidence]) -> bool:
    sinks = [one.value for one in settings.sinks]
    if len(sinks) != 1 or not isinstance(sinks[0], IcebergSettings) or sinks[0].dynamic or sinks[0].dlq_table:
        return False
    return {(one.table, one.branch) for one in found} == {(sinks[0].table_identifier, sinks[0].branch or "main")}


def _chosen(settings: PipelineSettings, found: Sequence[Evidence], source: Source, beginning: Beginning) -> Decision:
    state_id = _only_state(found) if found else str(uuid.uuid4())
    batch = max((one.batch for one in found), default=0)
    if isinstance(source, BeginsAnywhere):
        return Decision(state_id, batch, source.begin_at(beginning))
    if beginning.at == "earliest" and not accepts(settings):
        return Decision(state_id, batch, None)
    raise SettingsError(
        f"The source {settings.source.name} cannot begin at a chosen place",
        step="rebuild",
        target=settings.source.name,
        hint="Of http, what was accepted is lost with the folder; iceberg begins as its settings say: --from earliest",
    )


def _write(folder: Path, name: str, decision: Decision, source: Source) -> None:
    """Write the state whole or not at all."""
    new = folder / "ledger.new"
    shutil.rmtree(new, ignore_errors=True)
    committed = Committed(decision.batch, decision.position)
    with closing(Ledger.create(new, name, decision.state_id, committed)) as ledger:
        for planned in _planned(decision, source):
            number = ledger.last_batch + 1
            if planned.splits:
                ledger.begin(number, planned)
            else:
                run_batch(number, planned, time.time(), ledger, _NOTHING)
    new.rename(folder / "ledger")
    durable.sync(folder)


def _planned(decision: Decision, source: Source) -> Iterable[Planned]:
    number, position = decision.batch, decision.position
    for later, behind in decision.again:
        assert isinstance(source, Rereads)
        yield from source.between(position, behind, later - number)
        number, position = later, behind

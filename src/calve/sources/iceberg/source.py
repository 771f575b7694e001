"""The iceberg source on the driver: writes snapshots to spools of changes, whose files become the splits of batches."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from time import monotonic
from typing import Any, Protocol

from calve.changes.plan import Planner
from calve.engine.engine import Engine
from calve.errors import PositionLostError
from calve.observe.log import Log
from calve.sources.iceberg.followed import FollowedTable
from calve.sources.iceberg.protect import Protection
from calve.sources.iceberg.reader import IcebergReader
from calve.sources.iceberg.settings import IcebergSourceSettings
from calve.sources.iceberg.spool import Spools
from calve.sources.iceberg.table_offset import TableOffset, offsets, position
from calve.sources.source import ALONE, Backlog, Planned, Position, SourceContext, SourceTable, Split
from calve.state import values
from calve.state.clients import file_io_at
from calve.state.folder import StateFolder

__all__ = ["IcebergSource", "Lake", "open", "probe"]

_SPOOLS = 64
"""The most spools of one batch, so that many small snapshots do not delay it."""


_BEGUN = "begun.json"


class Lake(Protocol):
    """A catalog, as the source needs it."""

    spark: Engine

    def load_java(self, identifier: str) -> Any:
        """Return a table's current Java handle."""
        ...


class IcebergSource:
    """Reads tables in the order of their commits, each with its own progress.

    Args:
        settings: The source's settings.
        folder: `<state>/<pipeline>/iceberg`, with uncommitted spools and the tables' first offsets.
        pipeline: Its name, which is part of the tag's name.
        lake_of: Opens the catalog with some properties.
    """

    def __init__(
        self,
        settings: IcebergSourceSettings,
        folder: StateFolder,
        pipeline: str,
        lake_of: Callable[[Mapping[str, str]], Lake],
    ) -> None:
        self.reader = IcebergReader(folder.absolute().location, storage=file_io_at(folder.location))
        self._settings = settings
        self._folder = folder
        self._lake_of = lake_of
        self._log = Log(pipeline)
        self._spools = Spools(folder)
        self._protection = Protection(pipeline, self._log) if settings.protect_snapshots else None
        self._tables: dict[str, FollowedTable] = {}
        self._begun: dict[str, TableOffset] = {}
        self._passed: dict[str, tuple[TableOffset, TableOffset]] = {}
        """By table: an offset, and the equivalent one after all steps that change no row."""
        self._checked_at = 0.0
        self._once = False

    def start(self, position: Position | None, once: bool, pending: Sequence[Planned] = ()) -> None:
        """Find the tables, and their first offsets; with `once`, also their ends.

        Raises:
            NoTargetError: A table or branch does not exist.
            PositionLostError: The changes after a table's offset have expired.
            SettingsError: A column is not there, or `where` is no condition.
        """
        self._once = once
        self.find()
        for table in self._tables.values():
            if once:
                table.end_here()
        self._begin(position)
        at = self._offsets(position)
        self._spools.keep_only(_open(at).union(*(_spools(planned.splits) for planned in pending)))
        for name, offset in at.items():
            self._protect(name, offset)

    def find(self) -> None:
        """Load the tables, and check the settings against them; nothing is written.

        Raises:
            NoTargetError: A table or branch does not exist.
            SettingsError: A column is not there, or `where` is no condition.
        """
        self._open_tables()
        self._refresh()
        for table in self._tables.values():
            table.check()

    def backlog(self, position: Position | None) -> Backlog:
        """Estimate the waiting events; check for new snapshots every `polling_interval`, if none is known."""
        waiting = self._waiting(position)
        interval = self._settings.polling_interval.total_seconds()
        if not waiting and not self._once and monotonic() - self._checked_at >= interval:
            self._refresh()
            waiting = self._waiting(position)
        return Backlog(-1, waiting) if waiting else Backlog()

    def plan(self, position: Position | None, max_bytes: int) -> Planned | None:
        """Write the next changes to spools, and plan a batch of about `max_bytes` at most.

        Raises:
            PositionLostError: The next changes have expired.
        """
        try:
            return self._plan(position, max_bytes)
        except PositionLostError:
            self._refresh()  # a snapshot may just have expired; the others may be enough
            return self._plan(position, max_bytes)

    def tables(self, planned: Planned) -> list[SourceTable]:
        """Return the tables of a batch's events, with the schemas of their rows."""
        spools = dict.fromkeys(split.body["spool"] for split in planned.splits)
        source_tables = [table for spool in spools if (table := self._spools.table(spool))]
        return list({table.name: table for table in source_tables}.values())

    def acknowledge(self, planned: Planned) -> None:
        """Remove the spooled files of a committed batch, and move the tags."""
        table_offsets = offsets(planned.position)
        self._spools.remove(
            [(split.body["spool"], split.body["part"]) for split in planned.splits], _open(table_offsets)
        )
        for name, offset in table_offsets.items():
            self._protect(name, offset)

    def _open_tables(self) -> None:
        planner = None
        reloads = self._settings.on_lost_position == "reload"
        for settings in self._settings.tables:
            lake = self._lake_of(self._settings.catalog_of(settings))
            planner = planner or Planner(lake.spark)
            load = partial(lake.load_java, settings.table_name)
            self._tables[settings.table_name] = FollowedTable(planner, settings, load, reloads, self._log)

    def _refresh(self) -> None:
        for table in self._tables.values():
            table.refresh()
        self._checked_at = monotonic()

    def _begin(self, last_position: Position | None) -> None:
        """Record the first offsets of new tables: the same in every later start."""
        self._begun = offsets(self._read_begun())
        new = self._tables.keys() - self._begun.keys() - offsets(last_position).keys()
        if not new:
            return
        self._begun |= {name: table.begin() for name, table in self._tables.items() if name in new}
        self._folder.put(_BEGUN, values.encoded(position(self._begun)))

    def _read_begun(self) -> Position | None:
        return values.read(self._folder, _BEGUN)

    def _offsets(self, position: Position | None) -> dict[str, TableOffset]:
        """Return the offset of each table, after all steps that change no row, and replaced if it is lost."""
        table_offsets = self._begun | offsets(position)
        result = {}
        for name, table in self._tables.items():
            offset = table_offsets[name]
            behind, ahead = self._passed.get(name, (offset, offset))
            ahead = ahead if behind == offset else offset
            result[name] = ahead if ahead.open else table.here(ahead)
            self._passed[name] = offset, result[name]
        return result

    def _waiting(self, position: Position | None) -> int:
        total = 0
        for name, offset in self._offsets(position).items():
            if offset.open:
                total += sum(part.size_bytes for part in self._spools.parts(offset.open.spool, offset.open.part)) or 1
            else:
                total += self._tables[name].waiting_bytes(offset)
        return total

    def _plan(self, last_position: Position | None, max_bytes: int) -> Planned | None:
        at = self._offsets(last_position)
        splits: list[Split] = []
        spools: set[str] = set()
        used: frozenset[str] = frozenset()
        try:
            self._plan_files(at, splits, spools, max_bytes)
            used = _spools(splits) | _open(at)
        finally:
            self._spools.drop(spools - used)
        if not splits:
            self._passed |= {name: (self._passed[name][0], offset) for name, offset in at.items()}
            return None
        more = tuple(name for name, offset in at.items() if self._has_more(name, offset))
        return Planned(splits, position({**offsets(last_position), **at}), more)

    def _plan_files(self, at: dict[str, TableOffset], splits: list[Split], spools: set[str], max_bytes: int) -> None:
        """Advance the offsets and plan files until there are enough; `spools` collects the spools written for it."""
        bytes_left = max_bytes
        for _ in range(_SPOOLS):
            name = self._due(at) if bytes_left > 0 else None
            if name is None:
                return
            if not at[name].open:
                step = self._tables[name].due(at[name], max_bytes)
                assert step is not None
                at[name] = self._tables[name].write(self._spools, at[name], step, max_bytes)
                spools |= _open({name: at[name]})
            if not self._has_same_schema(at[name], splits):
                return  # the schema has changed: another batch
            at[name], added = self._plan_spool(at[name], bytes_left)
            splits += added
            bytes_left -= sum(split.size_bytes for split in added)

    def _due(self, at: Mapping[str, TableOffset]) -> str | None:
        """Return the next table: one with an open spool, then one that is being loaded, then the earliest commit."""
        best = None
        for name, offset in at.items():
            if offset.open:
                return name
            step = self._tables[name].due(offset)
            rank = None if step is None else (not step.is_full, step.snapshot.committed_ms)
            if rank is not None and (best is None or rank < best[0]):
                best = rank, name
        return best[1] if best else None

    def _has_same_schema(self, offset: TableOffset, splits: list[Split]) -> bool:
        """Return whether the rows of an open spool have the same schema as those of its table in the batch."""
        mine = self._spools.table(offset.open.spool) if offset.open else None
        others = map(self._spools.table, _spools(splits))
        return mine is None or all(other is None or other.name != mine.name or other == mine for other in others)

    def _plan_spool(self, offset: TableOffset, max_bytes: int) -> tuple[TableOffset, list[Split]]:
        """Plan files of a spool, at least one."""
        if offset.open is None:
            return offset, []
        splits: list[Split] = []
        for part in self._spools.parts(offset.open.spool, offset.open.part):
            if splits and max_bytes <= 0:
                last = splits[-1].body["part"]
                return replace(offset, open=replace(offset.open, part=last)), splits
            splits.append(Split({"spool": part.spool, "part": part.name}, part.size_bytes))
            max_bytes -= part.size_bytes
        return offset.closed(), splits

    def _has_more(self, name: str, offset: TableOffset) -> bool:
        return offset.open is not None or self._tables[name].due(offset) is not None

    def _protect(self, name: str, offset: TableOffset) -> None:
        if self._protection and name in self._tables:
            self._protection.keep(name, self._tables[name].load, offset.needs)


def _spools(splits: Sequence[Split]) -> frozenset[str]:
    return frozenset(split.body["spool"] for split in splits)


def _open(table_offsets: Mapping[str, TableOffset]) -> frozenset[str]:
    return frozenset(offset.open.spool for offset in table_offsets.values() if offset.open)


def open(
    settings: IcebergSourceSettings, folder: StateFolder, pipeline: str, context: SourceContext = ALONE
) -> IcebergSource:
    """Return the source of a pipeline; it has no side effects before `start`."""
    return IcebergSource(settings, folder, pipeline, context.lake_of)


def probe(settings: IcebergSourceSettings, folder: StateFolder, pipeline: str, context: SourceContext) -> None:
    """Check that the tables are there, and the settings fit them; see `IcebergSource.find`."""
    open(settings, folder, pipeline, context).find()

"""The iceberg source on the driver: snapshots become spools of changes, and these the splits of batches."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Any, Protocol

from pyspark.sql import SparkSession

from calve import durable
from calve.changes.plan import Planner
from calve.errors import PositionLostError
from calve.observe.log import Log
from calve.sources.iceberg.followed import Followed
from calve.sources.iceberg.protect import Protection
from calve.sources.iceberg.reader import IcebergReader
from calve.sources.iceberg.settings import IcebergSourceSettings
from calve.sources.iceberg.spool import Spools
from calve.sources.iceberg.table_offset import Place, places, position
from calve.sources.source import Backlog, Planned, Position, SourceTable, Split

__all__ = ["IcebergSource", "Lake"]

_SPOOLS = 64
"""Spools of one batch at most, so that many small snapshots do not keep a batch from being written."""


class Lake(Protocol):
    """What the source needs of a catalog."""

    spark: SparkSession

    def load_java(self, identifier: str) -> Any:
        """Return a table's Java handle as it is now."""
        ...


class IcebergSource:
    """Reads tables in the order of their commits, each with its own progress.

    Args:
        settings: The source's part of the YAML.
        folder: `<state>/<pipeline>/iceberg`: what is written down and not yet committed, and where tables began.
        pipeline: Its name; the tag's is made of it.
        lake_of: Opens the catalog of some properties.
    """

    def __init__(
        self,
        settings: IcebergSourceSettings,
        folder: Path,
        pipeline: str,
        lake_of: Callable[[Mapping[str, str]], Lake],
    ) -> None:
        self.reader = IcebergReader(str(folder.absolute()))
        self._settings = settings
        self._folder = folder
        self._lake_of = lake_of
        self._log = Log(pipeline)
        self._spools = Spools(folder)
        self._protection = Protection(pipeline, self._log) if settings.protect_snapshots else None
        self._tables: dict[str, Followed] = {}
        self._begun: dict[str, Place] = {}
        self._passed: dict[str, tuple[Place, Place]] = {}
        """By table: a place, and the one that is as good, behind what changes no row."""
        self._looked = 0.0
        self._once = False

    def start(self, found: Position | None, once: bool, pending: Sequence[Planned] = ()) -> None:
        """Find the tables, and where each begins; with `once`, where it ends.

        Raises:
            NoTargetError: A table or branch does not exist.
            PositionLostError: What comes after a table's place is gone.
            SettingsError: A column is not there, or `where` is no condition.
        """
        self._once = once
        self.find()
        for table in self._tables.values():
            if once:
                table.end_here()
        self._begin(found)
        at = self._places(found)
        self._spools.keep_only(_open(at).union(*(_spools(planned.splits) for planned in pending)))
        for name, place in at.items():
            self._protect(name, place)

    def find(self) -> None:
        """Reach the catalogs, and see whether what the settings name is there; nothing is written.

        Raises:
            NoTargetError: A table or branch does not exist.
            SettingsError: A column is not there, or `where` is no condition.
        """
        self._open_tables()
        self._look()
        for table in self._tables.values():
            table.check()

    def backlog(self, found: Position | None) -> Backlog:
        """Estimate what waits; looks for new snapshots every `polling_interval` once all that is known is planned."""
        waiting = self._waiting(found)
        interval = self._settings.polling_interval.total_seconds()
        if not waiting and not self._once and monotonic() - self._looked >= interval:
            self._look()
            waiting = self._waiting(found)
        return Backlog(-1, waiting) if waiting else Backlog()

    def plan(self, found: Position | None, max_bytes: int) -> Planned | None:
        """Write down what comes next, and give it to a batch, about `max_bytes` at most.

        Raises:
            PositionLostError: What comes next is gone.
        """
        try:
            return self._plan(found, max_bytes)
        except PositionLostError:
            self._look()  # snapshots that were there a moment ago may have expired; what is left may do
            return self._plan(found, max_bytes)

    def tables(self, planned: Planned) -> list[SourceTable]:
        """Return the tables of a batch's events, as they were read."""
        spools = dict.fromkeys(split.body["spool"] for split in planned.splits)
        found = [table for spool in spools if (table := self._spools.table(spool))]
        return list({table.name: table for table in found}.values())

    def acknowledge(self, planned: Planned) -> None:
        """Remove what was written down for a committed batch, and move the tags along."""
        found = places(planned.position)
        self._spools.remove([(split.body["spool"], split.body["part"]) for split in planned.splits], _open(found))
        for name, place in found.items():
            self._protect(name, place)

    def stop(self) -> None:
        """Nothing is held open that could lose anything."""

    def _open_tables(self) -> None:
        planner = None
        reloads = self._settings.on_lost_position == "reload"
        for one in self._settings.tables:
            lake = self._lake_of(self._settings.catalog_of(one))
            planner = planner or Planner(lake.spark)
            load = partial(lake.load_java, one.table_name)
            self._tables[one.table_name] = Followed(planner, one, load, reloads, self._log)

    def _look(self) -> None:
        for table in self._tables.values():
            table.look()
        self._looked = monotonic()

    def _begin(self, found: Position | None) -> None:
        """Fix where tables begin that have no place yet: the same in every later start."""
        file = self._folder / "begun.json"
        self._begun = places(durable.read(file))
        new = self._tables.keys() - self._begun.keys() - places(found).keys()
        if not new:
            return
        self._begun |= {name: table.begin() for name, table in self._tables.items() if name in new}
        durable.make_folder(self._folder)
        durable.replace(file, position(self._begun))

    def _places(self, found: Position | None) -> dict[str, Place]:
        """Return the place of each table, behind what is known to change no row, and not lost."""
        known = self._begun | places(found)
        result = {}
        for name, table in self._tables.items():
            place = known[name]
            behind, ahead = self._passed.get(name, (place, place))
            ahead = ahead if behind == place else place
            result[name] = ahead if ahead.open else table.here(ahead)
            self._passed[name] = place, result[name]
        return result

    def _waiting(self, found: Position | None) -> int:
        total = 0
        for name, place in self._places(found).items():
            if place.open:
                total += sum(part.size_bytes for part in self._spools.parts(place.open.spool, place.open.part)) or 1
            else:
                total += self._tables[name].waiting_bytes(place)
        return total

    def _plan(self, found: Position | None, max_bytes: int) -> Planned | None:
        at = self._places(found)
        splits: list[Split] = []
        made: set[str] = set()
        used: frozenset[str] = frozenset()
        try:
            self._gather(at, splits, made, max_bytes)
            used = _spools(splits) | _open(at)
        finally:
            self._spools.drop(made - used)
        if not splits:
            self._passed |= {name: (self._passed[name][0], place) for name, place in at.items()}
            return None
        more = tuple(name for name, place in at.items() if self._has_more(name, place))
        return Planned(splits, position({**places(found), **at}), more)

    def _gather(self, at: dict[str, Place], splits: list[Split], made: set[str], max_bytes: int) -> None:
        """Move places on, and hand out what comes next, until there is enough; `made` are the spools written for it."""
        left = max_bytes
        for _ in range(_SPOOLS):
            name = self._due(at) if left > 0 else None
            if name is None:
                return
            if not at[name].open:
                step = self._tables[name].due(at[name], max_bytes)
                assert step is not None
                at[name] = self._tables[name].write(self._spools, at[name], step, max_bytes)
                made |= _open({name: at[name]})
            if not self._is_alike(at[name], splits):
                return  # the schema has changed: another batch
            at[name], taken = self._take(at[name], left)
            splits += taken
            left -= sum(split.size_bytes for split in taken)

    def _due(self, at: Mapping[str, Place]) -> str | None:
        """Name the table to go on with: one that is open, then one that is being loaded, then the earliest commit."""
        best = None
        for name, place in at.items():
            if place.open:
                return name
            step = self._tables[name].due(place)
            rank = None if step is None else (not step.is_full, step.snapshot.committed_ms)
            if rank is not None and (best is None or rank < best[0]):
                best = rank, name
        return best[1] if best else None

    def _is_alike(self, place: Place, splits: list[Split]) -> bool:
        """Whether rows of an open spool have the schema that others of its table have in the batch."""
        mine = self._spools.table(place.open.spool) if place.open else None
        others = map(self._spools.table, _spools(splits))
        return mine is None or all(other is None or other.name != mine.name or other == mine for other in others)

    def _take(self, place: Place, max_bytes: int) -> tuple[Place, list[Split]]:
        """Hand out files of a spool, at least one of them."""
        if place.open is None:
            return place, []
        splits: list[Split] = []
        for part in self._spools.parts(place.open.spool, place.open.part):
            if splits and max_bytes <= 0:
                last = splits[-1].body["part"]
                return replace(place, open=replace(place.open, part=last)), splits
            splits.append(Split({"spool": part.spool, "part": part.name}, part.size_bytes))
            max_bytes -= part.size_bytes
        return place.closed(), splits

    def _has_more(self, name: str, place: Place) -> bool:
        return place.open is not None or self._tables[name].due(place) is not None

    def _protect(self, name: str, place: Place) -> None:
        if self._protection and name in self._tables:
            self._protection.keep(name, self._tables[name].load, place.needs)


def _spools(splits: Sequence[Split]) -> frozenset[str]:
    return frozenset(split.body["spool"] for split in splits)


def _open(found: Mapping[str, Place]) -> frozenset[str]:
    return frozenset(place.open.spool for place in found.values() if place.open)

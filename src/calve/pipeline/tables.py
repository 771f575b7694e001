"""The tables of all sinks of a pipeline, and what is done to several of them at once; runs on the driver."""

from __future__ import annotations

import traceback
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from calve.catalog.catalog import Catalog
from calve.columns.infer import Inferred
from calve.commit.compare import Comparison
from calve.credentials import in_short
from calve.errors import CalveError, InvariantError, UnprocessableError
from calve.record.receipt import Misfit
from calve.record.target import BranchRef, TableRef, beside
from calve.record.written import StagedFiles
from calve.sinks.sink import CommitSettings, Sink, SinkTables
from calve.sources.source import SourceTable
from calve.stop_point import fail_if
from calve.table.completeness import Completeness
from calve.table.gate import CommitGate
from calve.table.limits import MaintenanceLimits
from calve.table.loaded import Table

__all__ = ["PipelineTables"]

_POOL = 8
_AT_ONCE = CommitSettings(0.0, 0)
"""Where no sink has anything to commit."""


class PipelineTables:
    """The tables of the sinks whose tasks stage files.

    Args:
        sinks: All sinks of the pipeline.

    Attributes:
        by_sink: The tables, by the sink's number.
        catalogs: All catalogs, by the key that receipts carry.
        commits: When staged files are committed: as the most impatient sink says.
    """

    def __init__(self, sinks: Sequence[Sink]) -> None:
        self.by_sink: dict[int, SinkTables] = {
            number: sink.tables for number, sink in enumerate(sinks) if sink.tables is not None
        }
        self._sinks = len(sinks)
        self.catalogs: Mapping[str, Catalog] = {
            key: catalog for tables in self for key, catalog in tables.catalogs.items()
        }
        self.commits = _AT_ONCE
        if self.by_sink:
            self.commits = CommitSettings(
                min(tables.commits.interval_seconds for tables in self),
                min(tables.commits.size_bytes for tables in self),
                tuple(interval for tables in self for interval in tables.commits.intervals),
                tuple(holds for tables in self for holds in tables.commits.by_watermark),
                min(tables.commits.most_per_second for tables in self),
            )
        self.always_shuffles = any(tables.always_shuffles for tables in self)
        self.max_open_writers = min((tables.max_open_writers for tables in self), default=1)

    def __iter__(self) -> Iterator[SinkTables]:
        return iter(self.by_sink.values())

    @property
    def key_fields(self) -> frozenset[str]:
        """The top-level fields that may be in the key of a known table."""
        return frozenset[str]().union(*(tables.key_fields for tables in self))

    def wrote(self, names: Iterable[str]) -> None:
        """Note the tables that earlier runs have written."""
        for tables in self:
            tables.wrote(names)

    def refresh(self, catalog: str, table: str, loaded: Table | None = None) -> None:
        """Set a table to its state after a commit, or load it again."""
        for tables in self:
            tables.refresh(catalog, table, loaded)

    def equality_delete_limit(self, catalog: str, table: str) -> int:
        """Return how many rows of equality deletes a table may have, by the strictest of its sinks; 0: any number."""
        limits = [tables.equality_delete_limit for tables in self if tables.has(catalog, table)]
        return min((limit for limit in limits if limit), default=0)

    def keeps_row_ids(self, catalog: str, table: str) -> bool:
        """Return whether rows of a table keep their ids when they are replaced."""
        return any(tables.keeps_row_ids for tables in self if tables.has(catalog, table))

    def may_index_keys(self, catalog: str, table: str) -> bool:
        """Return whether all sinks of a table allow an index of its keys."""
        return all(tables.may_index_keys for tables in self if tables.has(catalog, table))

    def gate(self, target: BranchRef) -> CommitGate | None:
        """Return when commits of a branch are published to `main`; None: never."""
        return next((tables.gate(target.table) for tables in self if tables.may_write(target)), None)

    def limits(self, catalog: str, table: str) -> MaintenanceLimits | None:
        """Return when a table needs maintenance; None: it is left alone, because one of its sinks says so."""
        limits = [tables.limits(table) for tables in self if tables.maintains(catalog, table)]
        return None if None in limits else next(iter(limits), None)

    def sinks_of(self, target: BranchRef) -> frozenset[TableRef]:
        """Return the sinks that may write a branch of a table, or what is compared with it, with the table's name."""
        written = target._replace(branch=beside(target.branch))
        return frozenset(
            TableRef(number, target.table) for number, tables in self.by_sink.items() if tables.may_write(written)
        )

    def sinks_named(self, table: str) -> list[int]:
        """Return the numbers of the sinks that may have a table of this name; without a name all of them."""
        others = {number for number, tables in self.by_sink.items() if table and tables.static not in (None, table)}
        return [number for number in range(self._sinks) if number not in others]

    def completeness(self, target: BranchRef) -> Completeness:
        """Return how it is decided through which time a table is complete: as its first sink with event times says."""
        rules = [tables.completeness(target.table) for tables in self if tables.may_write(target)]
        return next((rule for rule in rules if rule.event_time), rules[0] if rules else Completeness())

    def advance(self, target: BranchRef, micros: int) -> bool:
        """Record through which time the staged batches complete a table; return whether a partition is now complete."""
        completed = [tables.advance(target.table, micros) for tables in self if tables.may_write(target)]
        return any(completed)

    def lacking(self, sources: Sequence[Sequence[SourceTable]]) -> list[Misfit]:
        """Return the targets that get all rows of some source tables, and are not known yet.

        Args:
            sources: The source tables as each sink gets their rows.
        """
        return [
            Misfit(TableRef(number, name), None)
            for number, tables in self.by_sink.items()
            for name in tables.lacking(sources[number])
        ]

    def own_targets(self, sources: Sequence[SourceTable], kept: Sequence[SourceTable]) -> tuple[list[BranchRef], bool]:
        """Return the targets that have rows of some source tables alone, and whether these are all of their rows.

        Args:
            sources: The source tables.
            kept: The other tables of the source.
        """
        shared = {target for tables in self for target in tables.targets_of(kept)}
        targets = [tables.targets_of([source]) for tables in self for source in sources]
        is_complete = all(refs and not shared.intersection(refs) for refs in targets)
        return [ref for refs in targets for ref in refs if ref not in shared], is_complete

    def comparison(self, source: SourceTable, target: BranchRef) -> Comparison | str | None:
        """Return how a target is compared with a source table, or why it cannot be; None: there is nothing to compare.

        Raises:
            CalveError: A catalog does not answer.
        """
        answers = [answer for tables in self if (answer := tables.comparison(source, target))]
        return next((answer for answer in answers if isinstance(answer, str)), answers[0] if answers else None)

    def inspect(self, staged: Sequence[StagedFiles]) -> None:
        """Note the tables of a batch; warn of times in its files that numbers of another unit may have become."""
        names = {entry.table for entry in staged}
        for tables in self:
            tables.use(names)
            tables.check_times(staged)

    @property
    def static(self) -> set[TableRef]:
        """The only tables of the sinks that have one."""
        return {TableRef(number, tables.static) for number, tables in self.by_sink.items() if tables.static is not None}

    def find(self, targets: Iterable[TableRef]) -> tuple[int, int]:
        """Load tables side by side; return how many of them exist, and how many do not.

        Raises:
            CalveError: A catalog does not answer.
        """
        with ThreadPoolExecutor(_POOL) as pool:
            searches = [pool.submit(self.by_sink[sink].find, table) for sink, table in targets]
            try:
                existing = sum(search.result() for search in searches)
            except CalveError:
                pool.shutdown(cancel_futures=True)  # a catalog that does not answer is not asked for each table
                raise
        return existing, len(searches) - existing

    def fit(self, misfits: Sequence[Misfit]) -> None:
        """Create or evolve tables side by side.

        Raises:
            UnprocessableError: A table failed in a way that nobody foresaw; its events may be the reason.
        """
        with ThreadPoolExecutor(_POOL) as pool:
            for outcome in [pool.submit(self._fit, *misfit.target, misfit.inferred) for misfit in misfits]:
                outcome.result()

    def _fit(self, sink: int, table: str, inferred: Inferred | None) -> None:
        step = "create or evolve the table"
        try:
            fail_if("driver.fit", lambda: [inferred])
            self.by_sink[sink].fit(table, inferred)
        except InvariantError as error:
            evidence = getattr(error, "evidence", "") or traceback.format_exc()
            raise UnprocessableError(
                error.message, step=error.step or step, target=table, sink=sink, evidence=evidence
            ) from error
        except CalveError:
            raise
        except Exception as error:
            message, evidence = in_short(error), traceback.format_exc()
            raise UnprocessableError(message, step=step, target=table, sink=sink, evidence=evidence) from error

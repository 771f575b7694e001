"""Between two batches: empties the targets of tables that are loaded again, and compares those that were read again."""

from __future__ import annotations

from collections.abc import Iterable

from calve.commit.compare import ApartLostError, compare, other_writers
from calve.commit.fence import clear
from calve.commit.mark import CommitTarget, Mark
from calve.ledger.ledger import Ledger
from calve.observe.humanize import listed, many
from calve.observe.log import Log
from calve.pipeline.committer import Committer
from calve.pipeline.tables import PipelineTables
from calve.record.target import BranchRef, apart
from calve.sources.reloads import CanReload, Compares, Comparing
from calve.sources.source import Source, SourceTable
from calve.stop_point import stop_at

__all__ = ["Reloading"]

_SHOWN = 3


class Reloading:
    """The tables that the source of a pipeline reads again.

    Args:
        source: The pipeline's source.
        tables: Its tables.
        ledger: Its ledger.
        committer: Commits what is written.
        log: The pipeline's.
    """

    def __init__(self, source: Source, tables: PipelineTables, ledger: Ledger, committer: Committer, log: Log) -> None:
        self._source = source
        self._tables = tables
        self._ledger = ledger
        self._committer = committer
        self._log = log

    def step(self) -> bool:
        """Do what the source waits for; return whether it waited. May be repeated after a crash.

        Raises:
            CalveError: A target cannot be changed.
        """
        source = self._source
        if isinstance(source, CanReload) and source.tables_to_empty is not None:
            self._clear(source)
            return True
        comparing = source.comparing if isinstance(source, Compares) else None
        if comparing is not None and comparing.to_load is not None:
            self._set_apart(comparing)
            return True
        if comparing is not None and comparing.to_compare is not None:
            self._compare(comparing)
            return True
        return False

    def _clear(self, source: CanReload) -> None:
        """Remove all rows of targets, after everything from before is committed."""
        self._committer.commit_all()
        targets, is_complete = self._tables.own_targets(source.tables_to_empty or [], source.to_keep)
        names = self._empty(targets)
        self._log.warning(f"removed all rows of {many(len(names), 'table')}, which are loaded again", tables=names)
        stop_at("pipeline.after-clear")
        source.emptied(is_complete)

    def _set_apart(self, comparing: Comparing) -> None:
        """Empty the branches into which tables are loaded, after everything from before is committed."""
        self._committer.commit_all()
        tables = comparing.to_load or []
        targets, is_complete = self._tables.own_targets(tables, comparing.to_keep)
        fault = "" if is_complete else "its target has rows of other tables, or depends on the rows"
        for table in tables:
            fault = fault or self._fault(table, targets)
        if not fault:
            self._empty(target._replace(branch=apart(self._ledger.pipeline, target.branch)) for target in targets)
        stop_at("pipeline.after-apart")
        comparing.load(fault)

    def _fault(self, table: SourceTable, targets: Iterable[BranchRef]) -> str:
        """Return why a table cannot be compared with its targets; empty: it can."""
        for target in targets:
            how, place = self._tables.comparison(table, target), CommitTarget(target.table, "", target.branch)
            others = other_writers(self._tables.catalogs[target.catalog], place, Mark.of(self._ledger))
            rows = f"it has rows of other pipelines ({listed(others, _SHOWN)})" if others else ""
            if fault := how if isinstance(how, str) else rows:
                return f"its target {target.table} cannot be compared with it: {fault}"
        return ""

    def _compare(self, comparing: Comparing) -> None:
        """Give targets the rows that were loaded apart, after all of these are committed."""
        self._committer.commit_all()
        fault = ""
        for table in comparing.to_compare or []:
            for target in self._tables.own_targets([table], comparing.to_keep)[0]:
                fault = fault or self._apply(table, target)
        stop_at("pipeline.after-compare")
        comparing.end(fault)

    def _apply(self, table: SourceTable, target: BranchRef) -> str:
        """Compare a table with one of its targets; return why it cannot be."""
        how = self._tables.comparison(table, target)
        if isinstance(how, str) or how is None:
            return how or ""
        place = CommitTarget(target.table, "", target.branch, how.write_mode, gate=self._tables.gate(target))
        try:
            differences = compare(self._tables.catalogs[target.catalog], place, Mark.of(self._ledger), how)
        except ApartLostError as error:
            return str(error)
        if differences is not None:
            self._log.info(f"{target.table} was compared with {table.name}: {differences}", table=target.table)
        self._tables.refresh(target.catalog, target.table)
        return ""

    def _empty(self, targets: Iterable[BranchRef]) -> list[str]:
        """Remove all rows of those that exist, and return their tables."""
        names = []
        for target in dict.fromkeys(targets):
            catalog = self._tables.catalogs[target.catalog]
            if catalog.load(target.table) is not None:
                place = CommitTarget(target.table, "", target.branch, gate=self._tables.gate(target))
                clear(catalog, place, Mark.of(self._ledger))
                self._tables.refresh(target.catalog, target.table)
                names.append(target.table)
        return names

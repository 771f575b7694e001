"""An Iceberg sink's part of a job: how it writes in a task, and what a dry run shows."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, replace

import pyarrow as pa

from calve.compiled.library import load
from calve.event.columns import EVENT, ORDER
from calve.event.reject import rejects_table
from calve.record.figures import figures_of_rows
from calve.record.target import apart
from calve.sinks.iceberg.draft import needed_fields
from calve.sinks.iceberg.task_tables import TaskTables
from calve.sinks.iceberg.writer import TableWriter, rejects_of_absent
from calve.sinks.job import EventPreview, Work
from calve.table.gate import Judge
from calve.table.loaded import Absent, Draft, Table

__all__ = ["TableJob"]


@dataclass(frozen=True)
class TableJob(TaskTables):
    """A sink's part of a job that stages files, which the driver commits to tables."""

    @property
    def needs(self) -> frozenset[str]:
        """The order of changes, and the texts that dead letters of partial updates have."""
        return frozenset({ORDER} if self.any_changes else ()) | frozenset({EVENT} if self.keep else ())

    @property
    def is_ordered(self) -> bool:
        """Rows that are only appended have no order."""
        return self.any_changes

    @property
    def self_validating_tables(self) -> frozenset[str]:
        """Conversion to rows checks, but not fields that are left out, and only the core can leave events for later."""
        read = self.route.table.fields or ()
        if not all(name in self.fields for name in read) or load() is None:
            return frozenset()
        appended = (name for name, table in self.tables.items() if isinstance(table, Table))
        return frozenset(name for name in appended if not (self.of(name).changes or self.compares_rows(name)))

    @property
    def may_shuffle(self) -> bool:
        """Whether there are partitions, or several tables."""
        tables = [table for table in self.tables.values() if isinstance(table, Table)]
        is_divided = len(tables) != 1 or bool(json.loads(tables[0].spec_json).get("fields"))
        return self.shuffle_below_bytes > 0 and (is_divided or self.dead_letters.table is not None)

    def apart(self, pipeline: str) -> TableJob:
        """Return the same job for the branches that are compared with those of its tables."""
        own = [(pattern, {**values, "branch": apart(pipeline, values["branch"])}) for pattern, values in self.own]
        return replace(self, branch=apart(pipeline, self.branch), own=tuple(own))

    def writer(self, work: Work) -> TableWriter:
        """Make what converts events and stages files in a task."""
        return TableWriter(self, work)

    def preview(self, table: str, events: pa.Table) -> EventPreview:
        """Return what conversion makes of events."""
        target = self.tables.get(table)
        if target is None or isinstance(target, Draft):
            if not self.infers:
                return EventPreview(rejects_table([]), is_misfit=True)
            needed = needed_fields(self, table, events, target.table if isinstance(target, Draft) else None)
            is_misfit = needed.inferred is not None
            return EventPreview(needed.rejects, self.catalog, is_misfit, needed.inferred, is_absent=not is_misfit)
        if isinstance(target, Absent):
            return EventPreview(rejects_of_absent(target, events), is_absent=True)
        converted = self.converter(target).convert(self.with_batch(events))
        is_misfit = converted.unknown is not None
        return EventPreview(
            converted.rejects,
            self.catalog,
            is_misfit,
            converted.unknown,
            nulled=converted.nulled,
            ignored=converted.ignored,
            failed_rules=converted.failed_rules,
            verdicts=self._verdicts(target, converted.rows),
        )

    def _verdicts(self, table: Table, rows: pa.Table) -> dict[str, str]:
        """Return what the rules of `publish` say of rows."""
        gate = self.of(table.identifier).gate
        if gate is None:
            return {}
        rules = Judge(gate).add(figures_of_rows(gate, table.schema, rows, int(time.time() * 1000)))
        return {rule.rule: f"{rule.word}: {rule.text}" for rule in rules}

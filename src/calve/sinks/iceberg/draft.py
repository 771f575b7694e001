"""Finds the columns of a new table: only events that will be written decide them; runs on executors and on the driver.

A task drafts the table with columns for all fields, converts its events to the draft, and reports the fields of those
that are not rejected. Where the fields of several tasks compete for a name or a place, the driver drafts the table, and
the tasks look at their events again.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.schema import Schema
from pyiceberg.types import NestedField, StringType

from calve.columns.declared_types import ColumnTypes
from calve.columns.evolve import is_contended
from calve.columns.fields import Fields
from calve.columns.infer import Inferred, UnknownColumns, infer, may_be_refused
from calve.errors import CalveError
from calve.event.columns import OPERATION
from calve.event.operation import Operation
from calve.event.reject import Code, rejects_table
from calve.reduce.key import Key, identified
from calve.sinks.iceberg.inferred import fitted
from calve.sinks.iceberg.metadata_columns import NONE, MetadataColumns
from calve.table.loaded import INFERRED, Table

if TYPE_CHECKING:
    from calve.sinks.iceberg.job import TableJob
    from calve.sinks.iceberg.settings import IcebergSettings

__all__ = ["DraftRules", "Needed", "needed_fields"]

_UNPARTITIONED = '{"spec-id":0,"fields":[]}'


@dataclass(frozen=True)
class DraftRules:
    """What the settings say of tables that are created from events.

    Attributes:
        types: The declared types of columns.
        case_insensitive: Whether fields that differ by case only share a column.
        identifier_columns: The key.
        partition_fields: The partitions.
        event_time: The column that is the event time.
        metadata: The columns that get metadata.
        declared: Patterns of tables whose columns are declared.
        evolves: Whether events with a field that cannot become a column are rejected.
    """

    types: ColumnTypes = field(default_factory=ColumnTypes)
    case_insensitive: bool = False
    identifier_columns: tuple[str, ...] = ()
    partition_fields: tuple[object, ...] = ()
    event_time: str | None = None
    metadata: MetadataColumns = NONE
    declared: tuple[str, ...] = ()
    evolves: bool = False

    @staticmethod
    def of(settings: IcebergSettings, metadata: MetadataColumns) -> DraftRules:
        """Return the rules of a sink."""
        return DraftRules(
            settings.inferred_types,
            settings.case_insensitive,
            tuple(settings.identifier_columns),
            tuple(settings.partition_by),
            settings.event_time,
            metadata,
            tuple(each.tables for each in settings.schemas),
            settings.schema_evolution,
        )

    @property
    def may_reject(self) -> bool:
        """Whether an event can be rejected although its fields have the columns that were inferred from them."""
        return bool(self.types.types or self.identifier_columns or self.partition_fields or self.event_time)

    def is_declared(self, name: str) -> bool:
        """Return whether events do not decide the columns of a table."""
        return any(fnmatchcase(name, pattern) for pattern in self.declared)

    def is_contended(self, inferred: Inferred) -> bool:
        """Return whether fields compete for a name or a place."""
        return is_contended(inferred.root, self.types, self.case_insensitive)

    def contended(self, name: str, inferred: Inferred) -> Table | None:
        """Return the draft of a table whose fields compete, so that not all of their events can be written."""
        return self.draft(name, inferred) if self.evolves and self.is_contended(inferred) else None

    def draft(self, name: str, inferred: Inferred) -> Table | None:
        """Return the table with columns for all fields; None if it cannot be created."""
        schema = inferred.to_schema(types=self.types, case_insensitive=self.case_insensitive)
        if not schema.fields:
            return None
        schema = self.metadata.complete(schema)
        missing = [key for key in self.identifier_columns if "." not in key and key not in schema.column_names]
        ids = range(schema.highest_field_id + 1, 2**31)
        fields = [
            NestedField(number, key, StringType(), required=False) for number, key in zip(ids, missing, strict=False)
        ]
        try:
            schema = fitted(Schema(*schema.fields, *fields), self, self.types)
            schema = identified(schema, self.identifier_columns) if self.identifier_columns else schema
        except CalveError:
            return None
        marks = {} if inferred.is_declared else INFERRED
        return Table(name, "", "", schema.model_dump_json(), _UNPARTITIONED, properties=dict(marks))


class Needed(NamedTuple):
    """The fields that a new table needs.

    Attributes:
        inferred: Those of all events that are not rejected; None if every event is.
        rejects: The other events (`REJECTS`); they are rejected again when the table is there.
    """

    inferred: Inferred | None
    rejects: pa.Table


def needed_fields(job: TableJob, name: str, events: pa.Table, draft: Table | None) -> Needed:
    """Return the fields that a new table needs for events that can be written.

    Args:
        job: The sink's part of the job.
        name: The table.
        events: Events that are objects.
        draft: The driver's draft of the table; None: one is made of these events.
    """
    inferred = infer(events, job.fields)
    if draft is None and (job.rules.is_declared(name) or not _may_reject(job, events, inferred)):
        return Needed(inferred, rejects_table([]))
    rejects = _rejects(job, events, draft, draft or job.rules.draft(name, inferred), inferred)
    deletes = _deletes(events)
    if not len(rejects) and not deletes.any():
        return Needed(inferred, rejects)
    good = np.ones(len(events), bool)
    good[rejects["row"].to_numpy()] = False
    if not good.any():
        return Needed(None, rejects)
    found = infer(events.filter(pa.array(good & ~deletes)), job.fields)
    keys = frozenset(key.partition(".")[0] for key in job.identifier_columns)
    return Needed(found.merge(infer(events.filter(pa.array(good & deletes)), Fields(include=keys))), rejects)


def _rejects(job: TableJob, events: pa.Table, given: Table | None, draft: Table | None, inferred: Inferred) -> pa.Table:
    """Return the events that cannot be written.

    Which of several competing fields gets a column is decided by the fields of all tasks, in the driver's draft.
    """
    if draft is None or (job.changes and not Key(draft, job.identifier_columns)):
        return rejects_table([])
    if given:
        return job.converter(draft).convert(job.with_batch(events)).rejects
    rejects = replace(job, evolves=False).converter(draft).convert(job.with_batch(events)).rejects
    rejects = rejects.filter(pc.not_equal(rejects["code"], Code.NO_MATCHING_FIELDS.value))
    if not job.evolves or not job.rules.is_contended(inferred):
        return rejects
    alone = rejects_table(UnknownColumns(Schema(), job.options(draft)).find(events).rejects)
    return pa.concat_tables([rejects, alone.filter(pc.invert(pc.is_in(alone["row"], rejects["row"].combine_chunks())))])


def _may_reject(job: TableJob, events: pa.Table, inferred: Inferred) -> bool:
    rules = job.rules
    if job.changes or rules.may_reject or may_be_refused(events, inferred, rules.case_insensitive):
        return True
    return rules.is_contended(inferred)


def _deletes(events: pa.Table) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    if OPERATION not in events.column_names:
        return np.zeros(len(events), bool)
    deletes: np.ndarray[tuple[int], np.dtype[np.bool_]] = pc.equal(
        events[OPERATION], pa.scalar(int(Operation.DELETE), pa.int8())
    ).to_numpy()
    return deletes

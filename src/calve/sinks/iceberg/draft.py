"""Finds the columns of a new table: only events that will be written decide them; runs on executors and on the driver.

A task drafts the table with columns for all fields, converts its events to the draft, and reports the fields of those
that are not rejected. Where the fields of several tasks compete for a name or a place, the driver drafts the table, and
the tasks look at their events again.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.schema import Schema

from calve.columns.fields import Fields
from calve.columns.infer import Inferred, UnknownColumns, infer, may_be_refused
from calve.event.columns import KEY, OPERATION
from calve.event.envelope.schema import field_of
from calve.event.operation import Operation
from calve.event.reject import Code, rejects_table
from calve.event.typed import with_text
from calve.reduce.key import Key
from calve.sinks.iceberg.task_tables import TaskTables
from calve.table.loaded import Table

__all__ = ["Needed", "needed_fields"]


class Needed(NamedTuple):
    """The fields that a new table needs.

    Attributes:
        inferred: Those of all events that are not rejected; None if every event is.
        rejects: The other events (`REJECTS`); they are rejected again when the table is there.
    """

    inferred: Inferred | None
    rejects: pa.Table


def needed_fields(job: TaskTables, name: str, events: pa.Table, draft: Table | None) -> Needed:
    """Return the fields that a new table needs for events that can be written.

    Args:
        job: The sink's part of the job.
        name: The table.
        events: Events that are objects.
        draft: The driver's draft of the table; None: one is made of these events.
    """
    job = job.of(name)
    key = _key(events) if job.from_key else ""
    job = job.with_key([field.name for field in field_of(key).fields]) if key else job
    needed = _needed(job, name, events, draft)
    return needed._replace(inferred=needed.inferred.with_key(key)) if key and needed.inferred else needed


def _key(events: pa.Table) -> str:
    """Return the columns of the key of the first record that has some (`event.columns.KEY`); empty without one."""
    schemas = events[KEY].drop_null()[:1].to_pylist() if KEY in events.column_names else []
    return schemas[0] if schemas else ""


def _needed(job: TaskTables, name: str, events: pa.Table, draft: Table | None) -> Needed:
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
    fields_of_rows = infer(events.filter(pa.array(good & ~deletes)), job.fields)
    keys = frozenset(key.partition(".")[0] for key in job.identifier_columns)
    of_deletes = Fields(include=keys) if keys else job.fields  # a row without a key is deleted by all of its fields
    return Needed(fields_of_rows.merge(infer(events.filter(pa.array(good & deletes)), of_deletes)), rejects)


def _rejects(
    job: TaskTables, events: pa.Table, given: Table | None, draft: Table | None, inferred: Inferred
) -> pa.Table:
    """Return the events that cannot be written.

    Which of several competing fields gets a column is decided by the fields of all tasks, in the driver's draft.
    """
    if draft is None or (
        job.changes and not job.has_full_rows(draft.identifier) and not Key(draft, job.identifier_columns)
    ):
        return rejects_table([])
    if given:
        return job.converter(draft).convert(job.with_batch(events)).rejects
    rejects = replace(job, evolves=False).converter(draft).convert(job.with_batch(events)).rejects
    rejects = rejects.filter(pc.not_equal(rejects["code"], Code.NO_MATCHING_FIELDS.value))
    if not job.evolves or job.rules.overflow or not job.rules.is_contended(inferred):
        return rejects
    alone = rejects_table(UnknownColumns(Schema(), job.options(draft)).find(with_text(events)).rejects)
    return pa.concat_tables([rejects, alone.filter(pc.invert(pc.is_in(alone["row"], rejects["row"].combine_chunks())))])


def _may_reject(job: TaskTables, events: pa.Table, inferred: Inferred) -> bool:
    rules = job.rules
    if job.changes or job.row_rules or rules.may_reject or may_be_refused(events, inferred, rules.case_insensitive):
        return True
    return rules.is_contended(inferred)


def _deletes(events: pa.Table) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    if OPERATION not in events.column_names:
        return np.zeros(len(events), bool)
    deletes: np.ndarray[tuple[int], np.dtype[np.bool_]] = pc.equal(
        events[OPERATION], pa.scalar(int(Operation.DELETE), pa.int8())
    ).to_numpy()
    return deletes

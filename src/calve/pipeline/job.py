"""What the driver sends to the tasks of one batch, and the receipts that come back.

A receipt is one JSON object per task: its number, the files it wrote and the rejects it set aside, by table; the
misfits, which are the tables that are missing or lack a column; or the error that ended it. Receipts are data, never
rows.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from calve.convert.column_types import ColumnTypes
from calve.convert.converter import Converter, ConvertOptions
from calve.convert.fields import ALL_FIELDS, Fields
from calve.convert.infer import Inferred
from calve.convert.table import Absent, Table
from calve.event.envelope.decoder import Envelopes
from calve.pipeline.isolation import WHOLE, Isolation
from calve.reduce.key import Key
from calve.reduce.reducer import Reducer
from calve.route.route import SinkRoute
from calve.sources.source import Reader
from calve.write.dead_letters import DeadLetterPlace
from calve.write.writer import Written

if TYPE_CHECKING:
    from calve.sinks.opensearch.documents import Writing

__all__ = [
    "DELETES",
    "LETTERS",
    "PARTIAL",
    "SEEN",
    "STEPS",
    "DocumentJob",
    "Job",
    "Misfit",
    "SinkJob",
    "Target",
    "merge_misfits",
]

Target = tuple[int, str]
"""A table of a pipeline: the number of its sink, and its identifier."""
SEEN = ("events", "bytes", "unrouted", "passed_over", "core_failures")
"""What a receipt counts of the events that its task read."""
STEPS = ("read", "decode", "route", "convert", "write")
"""What a receipt has seconds of."""
DELETES, PARTIAL, LETTERS = ("deletes",), ("partial",), ("dead letters",)
"""What a writer's key has after the target, where it is not for the rows of a table."""


@dataclass(frozen=True)
class SinkJob:
    """A sink's part of a job that writes files, which the driver commits to tables.

    Attributes:
        label: The sink's name in dead letters.
        catalog: The catalog's key, which says where a table's files must be committed.
        tables: Every table that is known so far.
        branch: The branch of these tables that gets the events.
        fields: The fields of an event that are written; routes, table names and dead letters know them all.
        event_time: The column that says when an event happened.
        changes: Whether rows are updated and deleted by key, not only appended.
        identifier_columns: The key; empty means the table's identifier fields.
        upsert: An INSERT replaces an older row of the same key.
        write_mode: How deletes reach a table when they are committed.
        keep: An UPDATE leaves columns as they are that its event lacks.
        on_type_mismatch: As in the settings; None: as the table's columns came to be.
        column_types: The types that the settings give to columns, which are then not inferred.
        gathers_bytes: Parts of partitions that are smaller are handed on, and written together.
    """

    label: str
    catalog: str
    route: SinkRoute
    tables: dict[str, Table | Absent]
    dead_letters: DeadLetterPlace
    branch: str = "main"
    fields: Fields = ALL_FIELDS
    event_time: str | None = None
    infers: bool = False
    evolves: bool = False
    on_type_mismatch: Literal["null", "dlq"] | None = None
    column_types: ColumnTypes = field(default_factory=ColumnTypes)
    timestamp_unit: Literal["s", "ms", "us", "ns", "auto"] = "ms"
    timestamp_formats: tuple[str, ...] = ()
    case_insensitive: bool = False
    changes: bool = False
    identifier_columns: tuple[str, ...] = ()
    upsert: bool = False
    write_mode: str = "equality-delete"
    keep: bool = False
    write_properties: dict[str, str] = field(default_factory=dict)
    gathers_bytes: int = 0

    def options(self, table: Table) -> ConvertOptions:
        """Return how events are converted for a table."""
        return ConvertOptions(
            look_for_unknown=self.evolves,
            on_type_mismatch=self.on_type_mismatch or ("dlq" if table.is_inferred else "null"),
            timestamp_unit=self.timestamp_unit,
            timestamp_formats=self.timestamp_formats,
            declared=frozenset() if self.on_type_mismatch else self._declared(table),
            case_insensitive=self.case_insensitive,
            fields=self.fields,
            count_ignored=not self.evolves,
        )

    def _declared(self, table: Table) -> frozenset[str]:
        return frozenset(each.name for each in table.schema.fields if self.column_types.of((each.name,)))

    def converter(self, table: Table) -> Converter | Reducer:
        """Make what turns the events of a table into rows, or into changes of rows."""
        options = self.options(table)
        if not self.changes:
            return Converter(table, options)
        return Reducer(table, Key(table, self.identifier_columns), options, self.upsert, self.keep)


@dataclass(frozen=True)
class DocumentJob:
    """A sink's part of a job that writes documents as it goes, with nothing left to commit.

    Attributes:
        label: The sink's name in dead letters.
        writing: How documents are written.
        fields: The fields of an event that are written.
    """

    label: str
    route: SinkRoute
    dead_letters: DeadLetterPlace
    writing: Writing
    fields: Fields = ALL_FIELDS


@dataclass(frozen=True)
class Job:
    """One pass over a batch; pickled into its tasks.

    Attributes:
        run: Makes file names unique: pipeline, state and batch.
        origin: The metadata attributes that tell where an event came from, as far as its source is divided.
        moment: When the batch was begun, as the ledger has it (`Planned.moment`).
        places: By task: its splits' numbers in the batch's plan.
        splits: How many splits the batch has.
        isolation: Which of the batch's events are read, and which are left out as dead letters.
        number: The pass: 0, then 1 and more for the tables that had misfits.
        gatherers: How many tasks write what the others hand on; 0: these write all of it themselves.
        only: What to write in this pass: tables by the number of the task that could not write them; None for all.
        envelopes: How events are decoded that are envelopes of a change stream; None: they are the rows themselves.
    """

    pipeline: str
    run: str
    reader: Reader
    sinks: tuple[SinkJob | DocumentJob, ...]
    max_open_writers: int
    origin: tuple[str, ...] = ()
    number: int = 0
    gatherers: int = 0
    only: Mapping[int, frozenset[Target]] | None = None
    moment: int = 0
    places: Sequence[Sequence[int]] = ()
    splits: int = 0
    isolation: Isolation = WHOLE
    envelopes: Envelopes | None = None

    @property
    def has_documents(self) -> bool:
        """Whether a sink writes documents, which needs the order of events."""
        return any(isinstance(sink, DocumentJob) for sink in self.sinks)

    @property
    def limits(self) -> list[int]:
        """By sink: parts of less bytes are handed on."""
        return [sink.gathers_bytes if isinstance(sink, SinkJob) else 0 for sink in self.sinks]

    def _table_sink(self, key: tuple[Any, ...]) -> SinkJob:
        sink = self.sinks[key[0]]
        assert isinstance(sink, SinkJob)
        return sink

    def place(self, key: tuple[Any, ...]) -> tuple[Table, dict[str, str]]:
        """Give the table of a writer's key, and its properties."""
        sink = self._table_sink(key)
        table = sink.dead_letters.table if key[2:] == LETTERS else sink.tables[key[1]]
        assert isinstance(table, Table)
        return table, {**table.properties, **({} if key[2:] == LETTERS else sink.write_properties)}

    def receipt(self, key: tuple[Any, ...], one: Written) -> dict[str, Any]:
        """Say what was written under a key."""
        sink = self._table_sink(key)
        lost = {"lost": self._lost(key)} if key[2:] == PARTIAL else {}
        return {
            **lost,
            "catalog": sink.catalog,
            "table": key[1],
            "branch": "main" if key[2:] == LETTERS else sink.branch,
            "uuid": one.table.uuid,
            "write_mode": "equality-delete" if key[2:] == LETTERS else sink.write_mode,
            "files": one.files,
            "rows": 0 if key[2:] == DELETES else one.rows,
            "bytes": one.size_bytes,
        }

    def _lost(self, key: tuple[Any, ...]) -> dict[str, str]:
        """Say where the dead letters of a table go that only its commit knows of; all tasks of a batch say the same."""
        sink = self._table_sink(key)
        name = f"{self.run}-{key[0]}-{zlib.crc32(key[1].encode()):08x}-at-commit.ndjson"
        return {"path": f"{sink.dead_letters.location}/{name}", "sink": sink.label}


@dataclass(frozen=True)
class Misfit:
    """A table that the events do not fit: it is unknown, or fields have no column. `inferred` says what they need."""

    target: Target
    inferred: Inferred | None

    def to_json(self) -> dict[str, Any]:
        """Give the misfit as JSON values."""
        return {"target": list(self.target), "inferred": self.inferred.to_json() if self.inferred else None}

    @staticmethod
    def from_json(data: dict[str, Any]) -> Misfit:
        """Read what `to_json` gave."""
        sink, table = data["target"]
        return Misfit((sink, table), Inferred.from_json(data["inferred"]) if data["inferred"] else None)


def merge_misfits(receipts: Iterable[dict[str, Any]]) -> list[Misfit]:
    """Join the misfits of all tasks by table; the order of tasks decides the order of new columns."""
    merged: dict[Target, Misfit] = {}
    for receipt in receipts:
        for misfit in map(Misfit.from_json, receipt["misfits"]):
            known = merged.get(misfit.target)
            if known is None or known.inferred is None:
                merged[misfit.target] = misfit
            elif misfit.inferred is not None:
                merged[misfit.target] = Misfit(misfit.target, known.inferred.merge(misfit.inferred))
    return list(merged.values())

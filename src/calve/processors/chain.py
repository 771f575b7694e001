"""Runs the processors of a pipeline over the events of a task."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from calve.arrays import Mask, RowNumbers
from calve.event.columns import EVENT, JSON, MALFORMED, ORIGINAL, PART, ROW, SCHEMA, TYPED
from calve.event.envelope.schema import field_of
from calve.event.envelope.shape import OPERATION_ATTRIBUTE
from calve.event.reject import REJECTS, rejects_table
from calve.event.typed import is_typed, joined, with_text
from calve.event.validate_json import validated, whole_array
from calve.expression.scope import TAGS
from calve.processors.chain_progress import BegunEvents, ChainOutcome
from calve.processors.declared_rows import declared_after
from calve.processors.effects import Effects, known_effects
from calve.processors.evaluation import Expression
from calve.processors.event_batch import EventBatch
from calve.processors.expressions import Compiler
from calve.processors.garbage import without_collection
from calve.processors.key_filter import KeyFilter, KeyMemory
from calve.processors.program import CoreProgram, ProgramResult
from calve.processors.step import ProcessorSettings, ProcessorStep
from calve.processors.typed_program import TypedProgram
from calve.settings.pipeline import Plugin

__all__ = ["Chain", "Processed", "Processors", "compiled"]

_NUMBER = "_number"
"""int64, only where a batch is divided: the position of an event in it."""
_ROWS = 1024
"""The most events that are processed together: they stay in the processor's cache."""


@dataclass(frozen=True)
class Processors:
    """The processors of a pipeline; pickled into the tasks.

    Attributes:
        entries: Name, key path and settings of each, in order.
        expressions: Their compiled expressions, by kind and text.
        sets: The metadata attributes that they may set, `TAGS` among them.
        splits: Whether a processor may split events.
        effects: What they do to columns; None: that is not known.
        pipeline: The fed pipeline that has them; empty: the first one.
        memory: The keys that they remember, without files; None: they remember none.
    """

    entries: tuple[tuple[str, str, ProcessorSettings], ...]
    expressions: Mapping[tuple[str, str], Expression] = field(default_factory=dict)
    sets: tuple[str, ...] = ()
    splits: bool = False
    effects: Effects | None = None
    pipeline: str = ""
    memory: KeyMemory | None = None

    @property
    def metadata(self) -> frozenset[str]:
        """The metadata attributes of the source that they read."""
        return frozenset(
            name for expression in self.expressions.values() for name in expression.metadata if name not in self.sets
        )


def compiled(plugins: Sequence[Plugin], metadata: Collection[str], pipeline: str = "") -> Processors | None:
    """Compile the processors of a pipeline; None without any.

    Args:
        plugins: As parsed.
        metadata: The metadata attributes of events.
        pipeline: The fed pipeline that has them; empty: the first one.

    Raises:
        SettingsError: An expression is invalid.
    """
    if not plugins:
        return None
    named = (name for plugin in plugins for name in getattr(plugin.value, "attributes", ()))
    has_tags = any(getattr(plugin.value, "tags", ()) for plugin in plugins)
    sets = tuple(dict.fromkeys([*([TAGS] if has_tags else []), *named]))
    compiler = Compiler([*metadata, *sets])
    steps = [step for plugin in plugins for step in plugin.value.steps(compiler)]
    entries = tuple(
        (plugin.name, plugin.path, plugin.value.shipped() if hasattr(plugin.value, "shipped") else plugin.value)
        for plugin in plugins
    )
    splits = any(getattr(step, "splits", False) for step in steps)
    memories = [plugin.value.memory for plugin in plugins if hasattr(plugin.value, "memory")]
    memory = KeyMemory(*map(max, zip(*memories, strict=True))) if memories else None
    return Processors(entries, compiler.known, sets, splits, known_effects(steps), pipeline, memory)


class Processed(NamedTuple):
    """A batch after its processors.

    Attributes:
        rows: The columns of the input with the new `event`, and `_original`, without `malformed`; the metadata
            attributes and `event_part` that a processor can set.
        malformed: Events of the input that are no JSON objects (`REJECTS`).
        failed: Events that a processor could not process (`REJECTS`); their positions are those in `failed_rows`.
        failed_rows: The events of `failed` as they were read.
        dropped: How many events were dropped.
        added: How many more events there are, because events were split.
    """

    rows: pa.Table
    malformed: pa.Table
    failed: pa.Table
    failed_rows: pa.Table
    dropped: int
    added: int


class Chain:
    """The processors of one task.

    Args:
        processors: As compiled on the driver.
        begun_tenths: When the batch was begun, in tenths of a second since the epoch.
        depth: How many other chains have processed the events.
        key_filter: Remembers the keys of the batch; None: no event is a duplicate.
    """

    def __init__(
        self, processors: Processors, begun_tenths: int, depth: int = 0, key_filter: KeyFilter | None = None
    ) -> None:
        compiler = Compiler((), processors.expressions, begun_tenths, key_filter)
        self._begun_tenths = begun_tenths
        self._key_filter = key_filter
        self._processors = processors
        self._depth = depth
        within = f"{processors.pipeline}: " if processors.pipeline else ""
        self.labels = [f"{within}{path.partition('.')[0]} {name}" for name, path, _ in processors.entries]
        self._set_steps([list(value.steps(compiler)) for _, _, value in processors.entries])
        self._idle_steps: dict[str | None, frozenset[int]] = {}
        self._shorter: dict[frozenset[int], Chain] = {}

    def _set_steps(self, steps: list[list[ProcessorStep]]) -> None:
        self._steps = steps
        self._program = CoreProgram(steps)
        self._columns = TypedProgram([step for of_processor in steps for step in of_processor])
        self._needs_order = any(getattr(step, "needs_order", False) for of_processor in steps for step in of_processor)

    @property
    def needs_text(self) -> bool:
        """Whether typed rows must become texts before they are processed."""
        return not self._columns.is_known or self._processors.effects is None

    def run(self, events: pa.Table) -> Processed:
        """Process a batch with the column `event` (and perhaps `malformed`, and `_original` of decoded values)."""
        parts = self._parts(events)
        if len(parts) == 1:
            return parts[0][0]._process(events)
        rows, malformed, failed, failed_rows = [], [], [], list[pa.Table]()
        dropped = added = 0
        for chain, numbers in parts:
            at = pa.array(numbers)
            processed = chain._process(events.take(at).append_column(_NUMBER, at))
            rows.append(processed.rows)
            malformed.append(processed.malformed.set_column(0, "row", at.take(processed.malformed["row"])))
            first = pa.scalar(sum(len(table) for table in failed_rows))
            failed.append(processed.failed.set_column(0, "row", pc.add(processed.failed["row"], first)))
            failed_rows.append(processed.failed_rows.drop_columns([_NUMBER]))
            dropped, added = dropped + processed.dropped, added + processed.added
        every = joined(rows).combine_chunks()
        every = every.take(pa.array(np.argsort(every[_NUMBER].to_numpy(), kind="stable"))).drop_columns([_NUMBER])
        rejects = pa.concat_tables(malformed), pa.concat_tables(failed)
        return Processed(every, *rejects, joined(failed_rows), dropped, added)

    def _parts(self, events: pa.Table) -> list[tuple[Chain, RowNumbers]]:
        """Return the chains for the events, and which events each has: updates are not filled (`Effects.idle`)."""
        effects, every = self._processors.effects, np.arange(len(events))
        if effects is None or not {SCHEMA, OPERATION_ATTRIBUTE} <= {*events.column_names}:
            return [(self, every)]
        schemas = whole_array(events[SCHEMA].unify_dictionaries())
        idle = [self._idle(effects, text) for text in schemas.dictionary.to_pylist()]
        if self._needs_order or not any(idle) or not len(events):
            return [(self, every)]
        is_update = pc.fill_null(pc.equal(events[OPERATION_ATTRIBUTE], "update"), False).to_numpy()
        codes = np.where(is_update, pc.fill_null(schemas.indices, len(idle)).to_numpy(), len(idle))
        steps = [*idle, frozenset[int]()]
        numbers: dict[frozenset[int], list[RowNumbers]] = {}
        for code in np.unique(codes).tolist():
            numbers.setdefault(steps[code], []).append(np.flatnonzero(codes == code))
        return [(self._without(left_out), np.sort(np.concatenate(rows))) for left_out, rows in numbers.items()]

    def _idle(self, effects: Effects, schema: str | None) -> frozenset[int]:
        if schema not in self._idle_steps:
            names = [] if schema is None else [field.name for field in field_of(schema).fields]
            self._idle_steps[schema] = effects.idle(names)
        return self._idle_steps[schema]

    def _without(self, left_out: frozenset[int]) -> Chain:
        """Return the chain without some of its steps, by their numbers."""
        if left_out and left_out not in self._shorter:
            shorter, numbers = copy.copy(self), itertools.count()
            steps = [[step for step in steps if next(numbers) not in left_out] for steps in self._steps]
            shorter._set_steps(steps)
            self._shorter[left_out] = shorter
        return self._shorter[left_out] if left_out else self

    def _process(self, events: pa.Table) -> Processed:
        if is_typed(events):
            if (processed := self._of_columns(events)) is not None:
                return processed
            events = with_text(events)
        events = events.drop_columns([name for name in (JSON, ROW) if name in events.column_names])
        done = None if PART in events.column_names else self._program.run(whole_array(events[EVENT]))
        remaining = np.ones(len(events), bool) if done is None else done.left | _has_reason(events)
        if self._needs_order and done is not None and remaining.any():
            done, remaining = None, np.ones(len(events), bool)
        outcome, malformed = ChainOutcome(), REJECTS.empty_table()
        if done is not None:
            outcome.dropped += int(np.count_nonzero(done.dropped & ~remaining))
            self._go_on(events, done, ~(done.dropped | remaining), outcome)
        if done is None or remaining.any():
            numbers = np.flatnonzero(remaining)
            checked = validated(events if remaining.all() else events.take(pa.array(numbers)))
            malformed = checked.rejects.set_column(0, "row", pa.array(numbers[checked.rejects["row"].to_numpy()]))
            self._work(BegunEvents(checked.rows, checked.rows, numbers[checked.rows[ROW].to_numpy()]), outcome)
        lost = rejects_table(failed._replace(row=row) for row, failed in enumerate(outcome.failed))
        return Processed(
            outcome.rows(), malformed, lost, pa.concat_tables(outcome.failed_rows), outcome.dropped, outcome.added
        )

    def _of_columns(self, events: pa.Table) -> Processed | None:
        """Process typed rows by their columns; None if their texts must be processed."""
        typed = (
            None
            if self.needs_text or _has_reason(events) is not False
            else self._columns.run(whole_array(events[TYPED]))
        )
        if typed is None:
            return None
        rows, originals = self._without_working(events), events[TYPED]
        rows = rows.set_column(rows.column_names.index(TYPED), TYPED, typed)
        rows = rows if ORIGINAL in rows.column_names else rows.append_column(ORIGINAL, originals)
        rows = self._with_attributes(rows)
        return Processed(rows, REJECTS.empty_table(), rejects_table(()), rows.slice(0, 0), 0, 0)

    def _go_on(self, events: pa.Table, done: ProgramResult, chosen: Mask, outcome: ChainOutcome) -> None:
        """Process the chosen events, with which the program is done, by the other processors."""
        numbers, texts = np.flatnonzero(chosen), done.texts
        if not chosen.all():
            events, texts = events.take(pa.array(numbers)), texts.take(pa.array(numbers))
        if self._program.processors < len(self._steps):
            at = events.column_names.index(EVENT)
            now = events.set_column(at, EVENT, texts).append_column(JSON, texts.cast(pa.string()))
            touched = done.changed[numbers].tobytes()
            return self._work(BegunEvents(events, now, numbers, self._program.processors, touched), outcome)
        return self._end(events, texts, numbers, outcome)

    def _end(self, events: pa.Table, texts: pa.Array, numbers: RowNumbers, outcome: ChainOutcome) -> None:
        """Add events with which all processors are done, without a failure."""
        rows = self._with_attributes(self._without_working(events))
        outcome.add(_with_texts(rows, texts), numbers)
        outcome.failed_rows.append(rows.slice(0, 0))

    def _without_duplicates(self, begun: BegunEvents, outcome: ChainOutcome) -> BegunEvents:
        """Run the next processors as long as they do nothing but drop duplicates, of all events at once."""
        for steps in self._steps[begun.processors :] if PART not in begun.events.column_names else ():
            find = getattr(steps[0], "duplicates", None) if len(steps) == 1 else None
            duplicates = find(whole_array(begun.now[JSON])) if find else None
            if duplicates is None:
                break
            outcome.dropped += int(np.count_nonzero(duplicates))
            begun = begun.after(~duplicates)
        return begun

    def _work(self, begun: BegunEvents, outcome: ChainOutcome) -> None:
        """Process events by the steps in Python."""
        begun = self._without_duplicates(begun, outcome)
        if begun.processors == len(self._steps):
            self._end(begun.events, whole_array(begun.now[EVENT]), begun.numbers, outcome)
        else:
            self._work_in_parts(begun, outcome)

    def _work_in_parts(self, begun: BegunEvents, outcome: ChainOutcome) -> None:
        with without_collection():
            for start in range(0, max(len(begun.events), 1), _ROWS):
                part = begun.events.slice(start, _ROWS)
                working = self._batch(begun.now.slice(start, _ROWS), begun.touched[start : start + _ROWS])
                self._run_from(begun.processors, working)
                texts, alive = working.result()
                rows = self._rows(part, working, alive)
                outcome.add(_with_texts(rows, texts), begun.numbers[start:][[working.origins[row] for row in alive]])
                outcome.failed_rows.append(self._rows(part, working, [reject.row for reject in working.rejects]))
                outcome.failed += working.rejects
                outcome.dropped += working.dropped
                outcome.added += working.added

    def copy(self) -> Chain:
        """Return an equal chain that has seen no event, to show what it does."""
        key_filter = KeyFilter(self._key_filter.memory, self._key_filter.now) if self._key_filter else None
        return Chain(self._processors, self._begun_tenths, self._depth, key_filter)

    def each(self, events: pa.Table) -> Iterator[tuple[str, EventBatch]]:
        """Process valid events with `json`, and yield after each processor its label and the events, to show them."""
        working = self._batch(events)
        for label, steps in zip(self.labels, self._steps, strict=True):
            self._run(working, label, steps)
            yield label, working

    def _run_from(self, first: int, working: EventBatch) -> None:
        for label, steps in zip(self.labels[first:], self._steps[first:], strict=True):
            if working.alive:
                self._run(working, label, steps)
        working.end()

    def _run(self, working: EventBatch, label: str, steps: Sequence[ProcessorStep]) -> None:
        working.label = label
        for step in steps:
            step.run(working, working.alive)
            working.end_step()

    def _rows(self, rows: pa.Table, working: EventBatch, chosen: Sequence[int]) -> pa.Table:
        """Return the input's columns for rows, with the original events, their tags and parts."""
        origins = [working.origins[row] for row in chosen]
        kept = self._without_working(rows)
        kept = kept if origins == list(range(len(rows))) else kept.take(pa.array(origins, pa.int64()))
        kept = working.with_metadata(kept, chosen, self._processors.sets)
        if self._processors.splits or PART in rows.column_names:
            kept = kept.append_column(PART, pa.array([working.part(row) for row in chosen], pa.string()))
        return kept

    def _batch(self, rows: pa.Table, touched: bytes | None = None) -> EventBatch:
        return EventBatch(rows, touched, self._depth, self._processors.sets)

    def _with_attributes(self, rows: pa.Table) -> pa.Table:
        """Return rows with the attributes that processors may set; nobody has set those that are not there."""
        for name in self._processors.sets:
            if name not in rows.column_names:
                rows = rows.append_column(name, pa.nulls(len(rows), pa.string()))
        return rows

    def _without_working(self, rows: pa.Table) -> pa.Table:
        """Return the columns that processed events keep."""
        kept = rows.drop_columns([name for name in (JSON, ROW, MALFORMED, PART) if name in rows.column_names])
        if SCHEMA in kept.column_names and kept[SCHEMA].null_count < len(kept):  # it is not that of the new events
            declared = _declared(kept[SCHEMA], self._processors.effects)
            kept = kept.set_column(kept.column_names.index(SCHEMA), SCHEMA, declared)
        return kept


def _declared(schemas: pa.ChunkedArray, effects: Effects | None) -> pa.DictionaryArray:
    """Return the schemas of processed events, from those of the events; null if they are not known."""
    if effects is None:
        return pa.DictionaryArray.from_arrays(pa.nulls(len(schemas), pa.int32()), pa.array([], pa.string()))
    column = whole_array(schemas.unify_dictionaries())
    texts = pa.array([declared_after(effects, text) for text in column.dictionary.to_pylist()], pa.string())
    return pa.DictionaryArray.from_arrays(column.indices, texts)


def _with_texts(rows: pa.Table, texts: pa.Array) -> pa.Table:
    """Return events with their new texts, and the original ones in a column of their own."""
    at, originals = rows.column_names.index(EVENT), rows[EVENT]
    rows = rows.set_column(at, EVENT, pa.chunked_array([texts], pa.binary()))
    return rows if ORIGINAL in rows.column_names else rows.append_column(ORIGINAL, originals)


def _has_reason(events: pa.Table) -> Mask | bool:
    """Return which events the source rejects."""
    if MALFORMED not in events.column_names or events[MALFORMED].null_count == len(events):
        return False
    has_reason: Mask = pc.is_valid(events[MALFORMED]).to_numpy()
    return has_reason

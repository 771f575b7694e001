"""A part of a batch while processors change it: one event in each row, opened only when a processor needs it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from calve.compiled import events as core
from calve.event.columns import EVENT, JSON, PART
from calve.event.reject import Code, Reject, cut
from calve.event.validate_json import HALF_SURROGATE, half_surrogates
from calve.expression.scope import TAGS
from calve.processors.evaluation import Evaluation
from calve.processors.fields import Event, decode_event, encode
from calve.structs import decode

__all__ = ["EventBatch"]


class EventBatch:
    """Some events, in rows.

    Args:
        rows: The events, with `json` and metadata; perhaps with `event_part`.
        touched: For each event whether it was changed before.
        depth: How many other chains have processed the events.
        sets: The metadata attributes that processors may set: earlier chains may have set them.

    Attributes:
        alive: The rows that have not been dropped or rejected, ascending.
        touched: For each row whether its event was changed.
        origins: For each row the position of its event in the input.
        parts: For each row which part of the input's event it is for this chain, as in `0.2`; None: the whole.
        tags: The tags of rows that have some.
        attributes: By name, the text of a metadata attribute for rows to which a processor has given it.
        rejects: Events that failed, by their position in the input.
        dropped: How many events were dropped.
        added: How many more events there are, because events were split.
        label: The current processor, for messages.
    """

    def __init__(
        self, rows: pa.Table, touched: bytes | None = None, depth: int = 0, sets: Collection[str] = ()
    ) -> None:
        self._rows = rows
        count = len(rows)
        self.alive = list(range(count))
        self.touched = bytearray(touched or count)
        self.origins = list(range(count))
        self.parts: list[str | None] = [None] * count
        texts_by_name = {name: _texts(rows, name) for name in {TAGS, *sets} & {*rows.column_names}}
        self.tags = {row: decode(text, list[str]) for row, text in texts_by_name.pop(TAGS, {}).items()}
        self.attributes = texts_by_name
        self.rejects: list[Reject] = []
        self.dropped = 0
        self.added = 0
        self.label = ""
        self._events: list[Event | None] = [None] * count
        self._json: pa.Array = _array(rows[JSON])
        self._texts: list[bytes] | None = None
        self._is_original = True
        self._depth = depth
        self._given = _given(rows)
        self._wanted: list[list[int] | None] = [_wanted(parts[depth : depth + 1]) for parts in self._given]
        self._failed: set[int] = set()

    def opened(self, rows: Sequence[int]) -> list[Event | None]:
        """Return the list of all events, with those of some rows decoded."""
        events, texts = self._events, self._all_texts()
        if self._is_original and len(rows) == len(events):
            self._is_original = False
            self._events = events = list(map(decode_event, texts))
            return events
        self._is_original = False
        for row in rows:
            if events[row] is None:
                events[row] = decode_event(texts[self.origins[row]])
        return events

    def selected(self, when: Evaluation | None, rows: Sequence[int]) -> Sequence[int]:
        """Return the rows for which a condition is true."""
        if when is None or not rows:
            return rows
        return [row for row, is_true in zip(rows, self.evaluate(when, rows), strict=True) if is_true]

    def evaluate(self, evaluation: Evaluation, rows: Sequence[int]) -> list[Any]:
        """Return the values of an expression for some rows."""
        if not rows:
            return []
        expression = evaluation.expression
        if not expression.is_pure:
            return evaluation.of_events(self._table(rows))
        fields = expression.fields or ()
        if self._is_original and (scanned := core.pick(self._json, fields)):
            values = evaluation.of_fields(scanned[1].to_pylist())
            numbers = scanned[0].to_numpy()
            if len(values) and (numbers >= 0).all():
                chosen = numbers if len(rows) == len(numbers) else numbers[np.asarray(rows)]
                return [values[number] for number in chosen.tolist()]
        events = self.opened(rows)
        picked = [_picked(events[row], fields) for row in rows]
        return evaluation.of_fields(picked)

    def evaluate_elements(self, evaluation: Evaluation, elements: Sequence[tuple[int, Event]]) -> list[Any]:
        """Return the values of an expression for objects inside of events, each with the metadata of its row."""
        expression = evaluation.expression
        if not elements:
            return []
        if expression.is_pure:
            return evaluation.of_fields([_picked(element, expression.fields or ()) for _, element in elements])
        texts = [encode(element).decode() for _, element in elements]
        return evaluation.of_events(self._table([row for row, _ in elements], texts))

    def picked(self, rows: Sequence[int], fields: Sequence[str]) -> list[str]:
        """Return some fields of some rows, as the text of an object for each; it may repeat none."""
        scanned = core.pick(self._json, fields) if self._is_original else None
        if scanned is None:
            events = self.opened(rows)
            return [_picked(events[row], fields) for row in rows]
        numbers, texts = scanned[0].to_pylist(), scanned[1].to_pylist()
        odd = [row for row in rows if numbers[row] < 0]
        events = self.opened(odd) if odd else []
        return [texts[numbers[row]] if numbers[row] >= 0 else _picked(events[row], fields) for row in rows]

    def drop(self, rows: Sequence[int]) -> None:
        """Remove rows: no sink gets them."""
        self.dropped += len(rows)
        self._remove(set(rows))

    def fail(self, row: int, reason: str, field: str, tags: Sequence[str] = ()) -> None:
        """Tag an event that a processor cannot process, or remove it as a dead letter."""
        if tags:
            self.tags[row] = list(dict.fromkeys([*self.tags.get(row, ()), *tags]))
            return
        self._failed.add(row)
        self.rejects.append(Reject(row, Code.PROCESSOR_FAILED, field, f"{self.label}: {cut(reason)}"))

    def end_step(self) -> None:
        """Remove the rows that the last step rejected."""
        if self._failed:
            self._remove(self._failed)
            self._failed = set()

    def split(self, parts_by_row: Mapping[int, list[Event]]) -> None:
        """Replace rows by several, in order; of an event that is replayed only its part stays."""
        if not parts_by_row:
            return
        count = len(self._events)
        order: list[int] = []
        for row in self.alive:
            children = parts_by_row.get(row)
            if children is None:
                order.append(row)
                continue
            path, wanted = self.parts[row], self._wanted[row]
            start = len(self._events)
            for number, child in enumerate(children):
                if wanted and number != wanted[0]:
                    continue
                self._append(row, child, f"{number}" if path is None else f"{path}.{number}")
            if wanted and start == len(self._events):
                order.append(row)
            order += range(start, len(self._events))
            self.added += len(self._events) - start - 1 if start < len(self._events) else 0
        self.alive = order
        assert count <= len(self._events)

    def part(self, row: int) -> str | None:
        """Return which part of the original event a row is, also if it is not divided yet."""
        path = [text for text in (self.parts[row], ".".join(map(str, self._wanted[row] or ()))) if text]
        given = self._given[self.origins[row]]
        parts = [*given[: self._depth], *[""] * (self._depth - len(given)), ".".join(path), *given[self._depth + 1 :]]
        return "/".join(parts).rstrip("/") or None

    def end(self) -> None:
        """Reject changed rows with half a surrogate pair, which nobody can write, and parts that no processor made."""
        if fields := half_surrogates(self._rows):
            for row in self.alive:
                if self.touched[row] and self._events[row] is not None and self.origins[row] in fields:
                    self.fail(row, HALF_SURROGATE, fields[self.origins[row]])
            self.end_step()
        if any(self._wanted):
            self.label = "replay"
            for row in self.alive:
                if self._wanted[row]:
                    self.fail(row, "the processors do not split this event into as many parts as before", "")
            self.end_step()

    def result(self) -> tuple[pa.Array, list[int]]:
        """Return the texts of the remaining events (binary), and their rows, in order."""
        rows = self.alive
        if not any(self.touched):
            originals = _array(self._rows[EVENT])
            if len(rows) == len(originals) == len(self._events):
                return originals, rows
            return originals.take(pa.array([self.origins[row] for row in rows], pa.int64())), rows
        originals, events, touched = _array(self._rows[EVENT]), self._events, self.touched
        if all(touched) and None not in events:
            return pa.array([encode(events[row]) for row in rows], pa.binary()), rows
        texts = originals.to_pylist()
        encoded = [
            encode(events[row]) if touched[row] and events[row] is not None else texts[self.origins[row]]
            for row in rows
        ]
        return pa.array(encoded, pa.binary()), rows

    def with_metadata(self, table: pa.Table, rows: Sequence[int], names: Collection[str]) -> pa.Table:
        """Return a table with a row for each of some rows, and columns of text with what processors have set.

        Args:
            table: The table; columns of these names are replaced.
            rows: The rows.
            names: Names of attributes, or `TAGS`: a JSON list. An event without it has null.
        """
        table = table.drop_columns([name for name in names if name in table.column_names])
        for name in names:
            texts = self.attributes.get(name, {})
            if name == TAGS:
                texts = {row: encode(self.tags[row]).decode() for row in rows if row in self.tags}
            table = table.append_column(name, pa.array([texts.get(row) for row in rows], pa.string()))
        return table

    def json_text(self, row: int) -> str:
        """Return the event of a row as it is now."""
        event = self._events[row]
        is_changed = event is not None and self.touched[row]
        return (encode(event) if is_changed else self._all_texts()[self.origins[row]]).decode()

    def _append(self, row: int, event: Event, path: str) -> None:
        wanted = self._wanted[row]
        self._events.append(event)
        self.touched.append(1)
        self.origins.append(self.origins[row])
        self.parts.append(path)
        self._wanted.append(wanted[1:] if wanted else wanted)
        if row in self.tags:
            self.tags[len(self._events) - 1] = list(self.tags[row])
        for texts_by_row in self.attributes.values():
            if row in texts_by_row:
                texts_by_row[len(self._events) - 1] = texts_by_row[row]

    def _remove(self, rows: set[int]) -> None:
        if rows:
            self.alive = [row for row in self.alive if row not in rows]

    def _all_texts(self) -> list[bytes]:
        if self._texts is None:
            self._texts = self._json.cast(pa.binary()).to_pylist()
        return self._texts

    def _table(self, rows: Sequence[int], texts: Sequence[str] | None = None) -> pa.Table:
        """Return events as they are now, or texts in their place, with their metadata."""
        table = self._rows.take(pa.array([self.origins[row] for row in rows], pa.int64()))
        column = pa.array([self.json_text(row) for row in rows] if texts is None else texts, pa.string())
        table = table.set_column(table.column_names.index(JSON), JSON, column)
        return self.with_metadata(table, rows, [TAGS, *self.attributes])


def _picked(event: Event | None, fields: Sequence[str]) -> str:
    assert event is not None
    return encode({name: event[name] for name in fields if name in event}).decode()


def _array(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _texts(rows: pa.Table, name: str) -> dict[int, str]:
    return {row: text for row, text in enumerate(rows[name].to_pylist()) if text is not None}


def _given(rows: pa.Table) -> Sequence[Sequence[str]]:
    """Return for each event which part it is, or which is replayed, by chain; none: the whole."""
    if PART not in rows.column_names or rows[PART].null_count == len(rows):
        return [()] * len(rows)
    return [() if text is None else text.split("/") for text in pc.cast(rows[PART], pa.string()).to_pylist()]


def _wanted(part: Sequence[str]) -> list[int] | None:
    """Return which part of an event a chain is to replay; None: all."""
    return [int(number) for number in part[0].split(".") if number.isdecimal()] if part else None

"""Compares what a round left with what an oracle says: a plain reader of JSON and a dictionary."""

from __future__ import annotations

import base64
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from calve.event.column_names import COLUMN_LIMIT
from fuzz.event import Event, as_text, is_routed, operation, parse, table_name
from fuzz.rows import differences, fits, key_of, shown
from fuzz.setups import Sink
from fuzz.tables import Found

QUARANTINE = "UNPROCESSABLE"


class Finding(NamedTuple):
    """Something that must not happen.

    Attributes:
        kind: `stop`, `bug`, `quarantine`, `hang`, `count`, `marker`, `value` or `reader`.
        what: What was seen, the same words for the same fault.
        text: All about it.
    """

    kind: str
    what: str
    text: str


@dataclass
class Verdict:
    """What a check found, and what it counted."""

    findings: list[Finding] = field(default_factory=list)
    rows: int = 0
    codes: Counter[str] = field(default_factory=Counter)

    def add(self, kind: str, what: str, text: str) -> None:
        """Note a finding."""
        self.findings.append(Finding(kind, what, text))


class Round:
    """The events of a round, and its dead letters by sink.

    Args:
        batches: The events that were accepted, batch by batch, in the source's order.
        labels: The sinks' names in dead letters, in their order.
    """

    def __init__(self, batches: Sequence[Sequence[Event]], labels: Sequence[str]) -> None:
        self.events = [event for batch in batches for event in batch]
        self.verdict = Verdict()
        self._labels = labels
        self._refused: set[int] = set()
        self._dead: dict[str, set[int]] = {label: set() for label in labels}

    def take(self, letters: Sequence[Mapping[str, Any]], exact: bool) -> None:
        """Find the event of each dead letter, and complain about those that have none, or two.

        Args:
            letters: As they were read.
            exact: Whether they have the very text that was sent.
        """
        places = _Places(self.events, exact)
        for letter in letters:
            code, label = letter["code"], letter["sink"]
            self.verdict.codes[code] += 1
            if code == QUARANTINE:
                self.verdict.add("quarantine", letter["reason"], shown(letter["event"]))
            whole = code == "MALFORMED" and not letter["table"]
            taken = self._refused if whole else self._dead[label]
            number = places.find(letter, taken, whole)
            if number is None:
                self.verdict.add(
                    "count", "a dead letter is of no event, or its second", f"{label}: {shown(dict(letter), 900)}"
                )
                continue
            taken.add(number)
            sound = self.events[number].value is not None and not letter["reason"].startswith("nested")
            if code == "MALFORMED" and sound:
                self.verdict.add("value", "MALFORMED, but it is JSON", f"{letter['reason']}: {self._text(number)}")
        for number, event in enumerate(self.events):
            if event.value is None and number not in self._refused | self._dead[self._labels[0]]:
                self.verdict.add("count", "no JSON object, and no dead letter", self._text(number))

    def check(self, sink: Sink, label: str, tables: Sequence[Found], markers: Sequence[str]) -> None:
        """Compare the tables of a sink with the events that it should have."""
        for table in tables:
            self.verdict.rows += len(table.rows or ())
            for fault in table.faults:
                self.verdict.add("reader", shown(fault, 120), f"{table.name}: {fault}")
        if any(table.rows is None for table in tables):
            return
        meant = [
            number
            for number, event in enumerate(self.events)
            if event.value is not None and number not in self._refused and is_routed(event.seen, sink.route)
        ]
        alive = [number for number in meant if number not in self._dead[label]]
        rows = [row for table in tables for row in table.rows or ()]
        malformed = {number for number, event in enumerate(self.events) if event.value is None}
        for number in self._dead[label] - set(meant) - malformed:
            self.verdict.add("count", "a sink rejected what is not meant for it", f"{label}: {self._text(number)}")
        for marker in markers if sink.route != "_default" and sink.route != "only_b" else ():
            is_there = any(row.get("id") == marker for row in rows)
            if not is_there and not sink.changes and not self._is_misfit(sink, label, tables, marker):
                self.verdict.add("marker", "an ordinary event is missing", f"{marker} in {label}")
        if sink.changes:
            self._check_state(sink, label, alive, tables)
            return
        self._check_ids(label, Counter(self.events[number].id for number in alive), rows)
        self._check_values(sink, tables, {self.events[number].id: self.events[number] for number in alive})

    def _is_misfit(self, sink: Sink, label: str, tables: Sequence[Found], marker: str) -> bool:
        """Return whether an ordinary event is rightly a dead letter: odd events before it decided what the table is.

        They decided a column's type, or they filled the table with columns, and a field of the event has none.
        """
        dead = [self.events[number] for number in self._dead[label] if self.events[number].id == marker]
        known = {table.name: table.schema for table in tables}
        return any(
            (schema := known.get(table_name(sink, event.seen)))
            and (
                not fits(sink, schema.as_struct(), event.value or {})
                or (
                    len(schema.field_ids) >= COLUMN_LIMIT and not set(schema.column_names).issuperset(event.value or ())
                )
            )
            for event in dead
        )

    def _check_ids(self, label: str, wanted: Counter[str | None], rows: Sequence[Mapping[str, Any]]) -> None:
        got = Counter(row.get("id") for row in rows)
        if missing := wanted - got:
            shown = [self._of(name) for name in list(missing)[:3]]
            self.verdict.add("count", "events are neither row nor letter", f"{label}: {sum(missing.values())}: {shown}")
        if extra := got - wanted:
            shown = [self._of(name) for name in list(extra)[:3]]
            self.verdict.add(
                "count", "rows are of no event, or of a letter", f"{label}: {sum(extra.values())}: {shown}"
            )

    def _check_values(self, sink: Sink, tables: Sequence[Found], by_id: Mapping[str | None, Event]) -> None:
        often = Counter(event.id for event in self.events)
        for table in tables:
            for row in table.rows or ():
                event = by_id.get(row.get("id"))
                if event and event.id is not None and often[event.id] == 1 and event.value:
                    self._compare(sink, table, row, event.value)

    def _compare(self, sink: Sink, table: Found, row: Mapping[str, Any], event: Mapping[str, Any]) -> None:
        for what, text in differences(sink, table.schema.as_struct(), row, event):
            self.verdict.add("value", what, f"{table.name}: {text} in {shown(dict(event), 600)}")

    def _check_state(self, sink: Sink, label: str, alive: Sequence[int], tables: Sequence[Found]) -> None:
        """Apply the events to a dictionary by table and key, and compare."""
        keys = {table.name: table.schema.find_type("k") for table in tables if "k" in table.schema.column_names}
        state: dict[tuple[str, Any], list[dict[str, Any]]] = defaultdict(list)
        vague: set[tuple[str, Any]] = set()
        for number in alive:
            event, seen = self.events[number].value or {}, self.events[number].seen
            name = table_name(sink, seen)
            word = operation(seen) if sink.options.get("operation") else "insert"
            if not word or (name not in keys and word == "delete"):
                continue
            key = key_of(event, keys.get(name))
            if key is None:
                self.verdict.add("count", "neither key nor letter", f"{label}: {self._text(number)}")
                continue
            _apply(sink, state[name, key], word, event)
            if len(state[name, key]) > 1:
                vague.add((name, key))
        by_place: dict[tuple[str, Any], list[tuple[Found, dict[str, Any]]]] = defaultdict(list)
        for table in tables:
            for row in table.rows or ():
                by_place[table.name, repr(row.get("k"))].append((table, row))
        for place in {*state, *by_place} - vague:
            self._compare_place(sink, place, state.get(place, []), by_place.get(place, []))

    def _compare_place(
        self, sink: Sink, place: tuple[str, Any], wanted: list[dict[str, Any]], got: list[tuple[Found, dict[str, Any]]]
    ) -> None:
        ids = [as_text(event.get("id")) for event in wanted]
        found = [row.get("id") for _, row in got]
        are_texts = all(isinstance(each, str | None) for each in found)  # else an odd event decided the column's type
        if len(ids) != len(found) or (are_texts and Counter(ids) != Counter(found)):
            self.verdict.add("count", "a key has other rows", f"{place} has {found} and should have {ids}")
        elif len(got) == 1:
            self._compare(sink, *got[0], wanted[0])

    def _text(self, number: int) -> str:
        return shown(self.events[number].text.decode(errors="backslashreplace"), 600)

    def _of(self, name: str | None) -> str:
        found = [number for number, event in enumerate(self.events) if event.id == name]
        return self._text(found[0]) if found else f"id {name!r}"


class _Places:
    """Finds events by their text; where it is not `exact`, because they were no JSON, also by their value."""

    def __init__(self, events: Sequence[Event], exact: bool) -> None:
        self._exact = exact
        self._by_text: dict[bytes, list[int]] = defaultdict(list)
        self._by_value: dict[str, list[int]] = defaultdict(list)
        for number, event in enumerate(events):
            self._by_text[event.text].append(number)
            self._by_value[repr(event.value)].append(number)

    def find(self, letter: Mapping[str, Any], taken: set[int], whole: bool) -> int | None:
        text = letter["event"] or ""
        found = base64.b64decode(text) if letter.get("event_encoding") == "base64" else text.encode()
        if self._exact or found in self._by_text:
            return next((number for number in self._by_text[found] if number not in taken), None)
        return next((number for number in self._by_value[repr(parse(found))] if number not in taken), None)


def _apply(sink: Sink, rows: list[dict[str, Any]], word: str, event: dict[str, Any]) -> None:
    if word == "insert" and not sink.options.get("upsert"):
        rows.append(event)
        return
    old = rows[-1] if rows and word == "update" and sink.options.get("partial_updates") == "keep" else {}
    rows[:] = [] if word == "delete" else [{**old, **event}]

"""Compares what a round left with what an oracle says: a plain reader of JSON and a dictionary."""

from __future__ import annotations

import base64
import contextlib
import json
import math
import re
import struct
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Context, Decimal
from typing import Any, NamedTuple

from pyiceberg import types as iceberg

from convert import reference
from convert.reference import NotCoercible, Text
from fuzz.setups import ROUTES, Sink
from fuzz.tables import Found

DEEP = 20_000
"""Python's own limit is lower, and events are nested deeper."""
WIDE = Context(prec=100)
HUGE = re.compile(r"[0-9][eE][-+]?[0-9]{5}")
"""A number that the reference would write out in full."""
WORDS = {"insert": ("", "index", "insert", "create", "c", "i", "r"), "update": ("update", "u", "update_after")}
WORDS |= {"delete": ("delete", "d"), "": ("update_before",)}
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
class Event:
    """An event that was sent: its text, and its value as the oracle reads it; None: it is no JSON object.

    Columns get the last value of a key that is repeated, and expressions the `first` (docs/decisions/0007).
    """

    text: bytes
    value: dict[str, Any] | None = field(init=False)
    first: dict[str, Any] = field(init=False)

    def __post_init__(self) -> None:
        with deeply():
            self.value = parse(self.text)
            self.first = parse(self.text, lambda pairs: dict(reversed(pairs))) or {}

    @property
    def id(self) -> str | None:
        """Return the text of its `id` as a string column has it."""
        return as_text((self.value or {}).get("id"))


def parse(text: bytes, of_pairs: Callable[[list[tuple[str, Any]]], Any] = dict) -> dict[str, Any] | None:
    """Read an event; numbers keep their text."""
    exact: dict[str, Any] = {"parse_int": Text, "parse_float": Text, "parse_constant": reference.no_constant}
    try:
        value = json.loads(text.decode(), object_pairs_hook=of_pairs, **exact)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


@contextlib.contextmanager
def deeply() -> Iterator[None]:
    """Let functions call themselves as often as events are deep, and numbers have as many digits as they like."""
    before, digits = sys.getrecursionlimit(), sys.get_int_max_str_digits()
    sys.setrecursionlimit(DEEP)
    sys.set_int_max_str_digits(0)
    try:
        yield
    finally:
        sys.setrecursionlimit(before)
        sys.set_int_max_str_digits(digits)


def as_text(value: Any) -> str | None:
    """Return what a string column makes of a value; None where it has no text."""
    try:
        return None if value is None else str(reference.one(value, iceberg.StringType(), False))
    except NotCoercible:
        return None


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
                self.verdict.add("quarantine", letter["reason"], _shown(letter["event"]))
            whole = code == "MALFORMED" and not letter["table"]
            taken = self._refused if whole else self._dead[label]
            number = places.find(letter, taken, whole)
            if number is None:
                self.verdict.add(
                    "count", "a dead letter is of no event, or its second", f"{label}: {_shown(dict(letter), 900)}"
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
                self.verdict.add("reader", _shown(fault, 120), f"{table.name}: {fault}")
        if any(table.rows is None for table in tables):
            return
        meant = [
            number
            for number, event in enumerate(self.events)
            if event.value is not None and number not in self._refused and is_routed(event.first, sink.route)
        ]
        alive = [number for number in meant if number not in self._dead[label]]
        rows = [row for table in tables for row in table.rows or ()]
        malformed = {number for number, event in enumerate(self.events) if event.value is None}
        for number in self._dead[label] - set(meant) - malformed:
            self.verdict.add("count", "a sink rejected what is not meant for it", f"{label}: {self._text(number)}")
        for marker in markers if sink.route != "_default" and sink.route != "only_b" else ():
            if not any(row.get("id") == marker for row in rows) and not sink.changes:
                self.verdict.add("marker", "an ordinary event is missing", f"{marker} in {label}")
        if sink.changes:
            self._check_state(sink, label, alive, tables)
            return
        self._check_ids(label, Counter(self.events[number].id for number in alive), rows)
        self._check_values(sink, tables, {self.events[number].id: self.events[number] for number in alive})

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
            self.verdict.add("value", what, f"{table.name}: {text} in {_shown(dict(event), 600)}")

    def _check_state(self, sink: Sink, label: str, alive: Sequence[int], tables: Sequence[Found]) -> None:
        """Apply the events to a dictionary by table and key, and compare."""
        keys = {table.name: table.schema.find_type("k") for table in tables if "k" in table.schema.column_names}
        state: dict[tuple[str, Any], list[dict[str, Any]]] = defaultdict(list)
        vague: set[tuple[str, Any]] = set()
        for number in alive:
            event, first = self.events[number].value or {}, self.events[number].first
            name = table_name(sink, first)
            word = operation(first) if sink.options.get("operation") else "insert"
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
        if Counter(ids) != Counter(row.get("id") for _, row in got):
            found = [row.get("id") for _, row in got]
            self.verdict.add("count", "a key has other rows", f"{place} has {found} and should have {ids}")
        elif len(got) == 1:
            self._compare(sink, *got[0], wanted[0])

    def _text(self, number: int) -> str:
        return _shown(self.events[number].text.decode(errors="backslashreplace"), 600)

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


def is_routed(event: Mapping[str, Any], route: str) -> bool:
    """Return whether an event is meant for a sink of a route; empty: of none."""
    kind = event.get("kind")
    match = {name: kind == condition[-2] and not isinstance(kind, Text) for name, condition in ROUTES.items()}
    return not route or (not any(match.values()) if route == "_default" else match[route])


def table_name(sink: Sink, event: Mapping[str, Any]) -> str:
    """Return the table that an event goes to."""
    return str(sink.options["table_identifier"]).replace("${/kind}", str(event.get("kind")))


def operation(event: Mapping[str, Any]) -> str:
    """Return what an event does to its row; empty: nothing."""
    word = (as_text(event.get("op")) or "").lower()
    return next((name for name, words in WORDS.items() if word in words), "")


def key_of(event: Mapping[str, Any], kind: iceberg.IcebergType | None) -> str | None:
    """Return an event's key as its column has it, printed; None: it has none."""
    value = event.get("k")
    if value is None or kind is None:
        return None
    try:
        found = reference.one(value, kind, False)
    except NotCoercible:
        return None
    return repr(_decimal(found, kind) if isinstance(kind, iceberg.DecimalType) else found)


def _apply(sink: Sink, rows: list[dict[str, Any]], word: str, event: dict[str, Any]) -> None:
    if word == "insert" and not sink.options.get("upsert"):
        rows.append(event)
        return
    old = rows[-1] if rows and word == "update" and sink.options.get("partial_updates") == "keep" else {}
    rows[:] = [] if word == "delete" else [{**old, **event}]


def _decimal(scaled: int, kind: iceberg.DecimalType) -> Decimal:
    return Decimal(scaled).scaleb(-kind.scale, WIDE)


def differences(
    sink: Sink, kind: iceberg.StructType, row: Mapping[str, Any], event: Mapping[str, Any]
) -> Iterator[tuple[str, str]]:
    """Yield how a row differs from its event, and what of the event is nowhere: in few words, and with the values."""
    insensitive = bool(sink.options.get("case_insensitive"))
    event = {
        name: value
        for name, value in event.items()
        if name not in sink.exclude and (not sink.include or name in sink.include)
    }
    event = reference.renamed(event, [each.name for each in kind.fields], insensitive)
    for each in kind.fields:
        value, got = event.get(each.name), row.get(each.name)
        if value is None:  # PyIceberg 0.12 reads a list of structs that is null as an empty one
            if (
                got not in (None, [])
                and sink.options.get("partial_updates") != "keep"
                and str(each.field_type) != "variant"
            ):
                yield "is not NULL where nothing was", f"{each.name} is {_shown(got)}"
            continue
        yield from _difference(sink, each, value, got)
    if sink.options["schema_evolution"]:
        for path in missing(kind, event, insensitive):
            yield "a field has no column", path


def _difference(sink: Sink, each: iceberg.NestedField, value: Any, got: Any) -> Iterator[tuple[str, str]]:
    kind = each.field_type
    if str(kind) == "variant" or (not isinstance(kind, iceberg.StringType) and HUGE.search(reference.write(value))):
        return
    try:
        want = reference.one(value, kind, bool(sink.options.get("case_insensitive")))
    except NotCoercible:
        if got is not None:
            yield f"a value that is no {_kind(kind)} became one", f"{each.name} is {_shown(got)}, from {_shown(value)}"
        elif sink.rejects_misfits:
            yield "NULL, and its event is no dead letter", f"{each.name}, {_shown(value)} as {kind}"
        return
    if not same(got, want, kind) and not (each.name in sink.floats and same(got, narrow(want), kind)):
        how = "NULL" if got is None else "another value"
        yield f"a {_kind(kind)} is {how}", f"{each.name} is {_shown(got)} and should be {_shown(want)}, {kind}"


def _kind(kind: iceberg.IcebergType) -> str:
    return re.split(r"[\[<(]", str(kind))[0]


def missing(kind: iceberg.IcebergType, value: Any, insensitive: bool, path: str = "") -> Iterator[str]:
    """Yield the fields with a value that a table has no column for."""
    if isinstance(kind, iceberg.ListType) and isinstance(value, list):
        for item in value:
            yield from missing(kind.element_type, item, insensitive, f"{path}.element")
    elif isinstance(kind, iceberg.StructType) and isinstance(value, dict):
        columns = {each.name: each.field_type for each in kind.fields}
        for name, item in reference.renamed(value, list(columns), insensitive).items():
            if name in columns:
                yield from missing(columns[name], item, insensitive, f"{path}.{name}")
            elif carries(item):
                yield f"{path}.{name}"


def carries(value: Any) -> bool:
    """Return whether a value holds anything but nulls."""
    if isinstance(value, dict):
        return any(map(carries, value.values()))
    return any(map(carries, value)) if isinstance(value, list) else value is not None


def narrow(value: Any) -> Any:
    """Return what a float column made of a number before it became a double."""
    return struct.unpack("f", struct.pack("f", value))[0] if abs(value) < 3e38 else value


def same(got: Any, want: Any, kind: iceberg.IcebergType) -> bool:
    """Return whether a column's value is the one that the reference gives."""
    if got is None or want is None:
        return got is None and want is None
    match kind:
        case iceberg.StructType():
            return all(same(got[each.name], want[each.name], each.field_type) for each in kind.fields)
        case iceberg.ListType():
            return len(got) == len(want) and all(same(*pair, kind.element_type) for pair in zip(got, want))
        case iceberg.MapType():
            pairs = [sorted(each, key=lambda pair: repr(_plain(pair[0], kind.key_type))) for each in (got, want)]
            return len(got) == len(want) and all(
                same(one[0], other[0], kind.key_type) and same(one[1], other[1], kind.value_type)
                for one, other in zip(*pairs)
            )
        case iceberg.DoubleType() | iceberg.FloatType():
            return bool(got == want) or (math.isnan(got) and math.isnan(want))
    return bool(_plain(got, kind) == _plain(want, kind))


def _plain(value: Any, kind: iceberg.IcebergType) -> Any:
    if isinstance(kind, iceberg.DecimalType):
        return value if isinstance(value, Decimal) else _decimal(value, kind)
    if isinstance(kind, iceberg.UUIDType) and isinstance(value, str):
        return bytes.fromhex(value.replace("-", ""))
    return value


def _shown(value: Any, most: int = 200) -> str:
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= most else f"{text[: most // 2]} … {text[-most // 2 :]}"

"""An event as the oracle reads it: its value, what expressions see of it, and what it does to its row."""

from __future__ import annotations

import contextlib
import json
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import duckdb
from pyiceberg import types as iceberg

from convert import reference
from convert.reference import NotCoercible, Text
from fuzz.setups import ROUTES, Sink

DEEP = 20_000
"""Python's own limit is lower, and events are nested deeper."""
WORDS = {"insert": ("", "index", "insert", "create", "c", "i", "r"), "update": ("update", "u", "update_after")}
WORDS |= {"delete": ("delete", "d"), "": ("update_before",)}
HALF = re.compile("[\ud800-\udfff]")


@dataclass
class Event:
    """An event that was sent: its text, and its value as columns get it; None: it is no JSON object.

    Routes, `${…}` and the operation are decided by `seen`.
    """

    text: bytes
    value: dict[str, Any] | None = field(init=False)
    seen: dict[str, Any] = field(init=False)

    def __post_init__(self) -> None:
        with deeply():
            self.value = parse(self.text)
            self.seen = {} if self.value is None else seen_by_expressions(self.value)

    @property
    def id(self) -> str | None:
        """Return the text of its `id` as a string column has it."""
        return as_text((self.value or {}).get("id"))


def seen_by_expressions(value: dict[str, Any]) -> dict[str, Any]:
    """Return an event with the values that expressions read: half a surrogate pair is a replacement character there."""
    return {name: HALF.sub("\ufffd", each) if type(each) is str else each for name, each in value.items()}


def parse(text: bytes) -> dict[str, Any] | None:
    """Read an event; numbers keep their text."""
    exact: dict[str, Any] = {"parse_int": Text, "parse_float": Text, "parse_constant": reference.no_constant}
    try:
        value = json.loads(text.decode(), **exact)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def parse_quietly(event: bytes) -> dict[str, Any] | None:
    """Return what `parse` does, for events that are nested as deep as they like."""
    with deeply():
        return parse(event)


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


def is_routed(event: Mapping[str, Any], route: str) -> bool:
    """Return whether an event is meant for a sink of a route; empty: of none."""
    kind = event.get("kind")
    match = {name: kind == condition[-2] and not isinstance(kind, Text) for name, condition in ROUTES.items()}
    return not route or (not any(match.values()) if route == "_default" else match[route])


def table_name(sink: Sink, event: Mapping[str, Any]) -> str:
    """Return the table that an event goes to."""
    return str(sink.options["table_identifier"]).replace("${/kind}", _in_name(event.get("kind")) or "")


def _in_name(value: Any) -> str | None:
    """Return the text of a value within a name: numbers with a fraction or an exponent are DuckDB's."""
    if isinstance(value, Text) and not value.lstrip("-").isdigit():
        [(text,)] = duckdb.execute("SELECT ?::JSON ->> '$'", [str(value)]).fetchall()
        return str(text)
    return as_text(value)


def operation(event: Mapping[str, Any]) -> str:
    """Return what an event does to its row; empty: nothing."""
    word = (as_text(event.get("op")) or "").lower()
    return next((name for name, words in WORDS.items() if word in words), "")

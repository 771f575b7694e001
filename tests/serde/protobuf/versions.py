"""Three versions of a schema in turn, written by Protobuf's own library, and the rows that their events become."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Any

from serde.protobuf.official import message_class

PLACE = 'syntax = "proto3"; package shop; message Place { string city = 1; optional int32 zip = 2; }'
VERSIONS = (
    'syntax = "proto3"; package shop; message Order { int32 id = 1; string customer = 2; float weight = 3; }',
    'syntax = "proto3"; package shop; import "google/protobuf/timestamp.proto"; enum Color { NONE = 0; RED = 1; }'
    "message Order { int64 id = 1; string customer = 2; reserved 3; google.protobuf.Timestamp at = 4; Color color = 5; }",
    'syntax = "proto3"; package shop; import "place.proto"; import "google/protobuf/wrappers.proto"; message First {}'
    "message Order { message Line { uint64 item = 1; repeated sint32 sizes = 2; }  int64 id = 1; string customer = 2;"
    "double weight = 6; Place place = 7; repeated Line lines = 8; map<string, int32> counts = 9;"
    "oneof payment { string card = 10; uint32 invoice = 11; } google.protobuf.DoubleValue discount = 12; }",
)
INDEXES = (b"\0", b"\0", b"\2\2")
"""Of the message in each version: the first, and then the second."""
_FIELDS = (
    ("id", "customer", "weight"),
    ("id", "customer", "at", "color"),
    ("id", "customer", "weight", "place", "lines", "counts", "card", "invoice", "discount"),
)
COLUMNS = dict.fromkeys(name for names in _FIELDS for name in names)


def row(number: int) -> dict[str, Any]:
    """Return the row of an event, with the fields of its version."""
    version, is_odd = number % 3, number % 2 == 1
    found = {
        "id": number if version == 0 else number + (1 << 40),
        "customer": f"kundé-{number}",
        "weight": number * 0.25,
        "at": dt.datetime(2026, 1, 1, tzinfo=dt.UTC) + dt.timedelta(microseconds=number) if is_odd else None,
        "color": "RED" if is_odd else "NONE",
        "place": {"city": f"c{number % 7}", "zip": None if is_odd else 0},
        "lines": [{"item": Decimal(2**64 - 1 - one), "sizes": [-one, one]} for one in range(number % 4)],
        "counts": {f"k{one}": one for one in range(number % 3)},
        "card": "visa" if is_odd else None,
        "invoice": None if is_odd else number,
        "discount": 0.0 if is_odd else None,
    }
    return COLUMNS | {name: found[name] for name in _FIELDS[version]}


def events(ids: Sequence[int], count: int) -> Iterator[bytes]:
    """Yield the values of events with the schemas of these ids, in the registry's wire format."""
    files = {"place.proto": PLACE}
    kinds = [message_class({**files, f"v{at}.proto": text}, "shop.Order") for at, text in enumerate(VERSIONS)]
    for number in range(count):
        version, values = number % 3, row(number)
        message: Any = kinds[version](id=values["id"], customer=values["customer"])
        if version != 1:
            message.weight = values["weight"]
        else:
            message.color = values["color"]
        if values["at"]:
            message.at.FromDatetime(values["at"])
        if version == 2:
            _fill(message, values)
        yield b"\0" + ids[version].to_bytes(4, "big") + INDEXES[version] + message.SerializeToString()


def _fill(message: Any, values: dict[str, Any]) -> None:
    message.place.city = values["place"]["city"]
    if values["place"]["zip"] is not None:
        message.place.zip = values["place"]["zip"]
    for line in values["lines"]:
        message.lines.add(item=int(line["item"]), sizes=line["sizes"])
    message.counts.update(values["counts"])
    for name in ("card", "invoice"):
        if values[name] is not None:
            setattr(message, name, values[name])
    if values["discount"] is not None:
        message.discount.value = values["discount"]


def poison(first: int) -> dict[bytes, str]:
    """Return values that are no messages of the schema with an id, and their reasons."""
    header = b"\0" + first.to_bytes(4, "big")
    return {
        header + b"\0\x0a\x01x": "field id: the wire type 2 instead of that of int32",
        header + b"\0\x12\x02\xff\xff": "field customer: a text that is not UTF-8",
        header + b"\0\x12\x7fx": "a value that ends too early",
        header + b"\2\x10\x08\1": "The schema has no message with the indexes [8]",
        header: "the indexes of its message are broken: a number without an end",
    }

"""The events of `bench.registry` as messages of Protobuf, of several versions of a schema in turn."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from serde.protobuf.official import message_class
from services.registry import framed

__all__ = ["as_protobuf", "message_schema"]

_FIELDS = (
    "int64 id", "google.protobuf.Timestamp at", "int64 user", "string name", "Country country", "double score",
    "int64 price", "bool ok", "optional string note", "repeated string tags",
)  # fmt: skip
_COUNTRIES = {"NO": 0, "SE": 1, "DK": 2}
_FIRST = b"\0"
"""The indexes of the first message of a file."""


def message_schema(fields: int) -> str:
    """Return a version of the schema with so many fields."""
    declared = "".join(f"{field} = {number};" for number, field in enumerate(_FIELDS[:fields], 1))
    values = "".join(f"{name} = {number};" for name, number in _COUNTRIES.items())
    imports = 'syntax = "proto3"; import "google/protobuf/timestamp.proto";'
    return f"{imports} message Event {{ {declared} }} enum Country {{ {values} }}"


def as_protobuf(
    count: int, ids: Sequence[int], fields: Sequence[int], event: Callable[[int], dict[str, Any]]
) -> Iterator[bytes]:
    """Yield events, the versions in turn; prices are whole cents."""
    kinds = [message_class({"event.proto": message_schema(each)}, "Event") for each in fields]
    for number in range(count):
        version, values = number % len(fields), event(number)
        seconds, micros = divmod(values["at"], 1_000_000)
        values |= {
            "at": {"seconds": seconds, "nanos": micros * 1000},
            "country": _COUNTRIES[values["country"]],
            "price": int(values["price"] * 100),
        }
        names = kinds[version].DESCRIPTOR.fields_by_name
        message = kinds[version](**{name: values[name] for name in names if values[name] is not None})
        yield framed(ids[version], _FIRST + message.SerializeToString())

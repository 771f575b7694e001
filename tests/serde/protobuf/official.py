"""Protobuf's own compiler and library, as oracles."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
from google.protobuf import (
    descriptor_pb2,
    descriptor_pool,
    empty_pb2,  # noqa: F401
    json_format,
    message_factory,
    struct_pb2,  # noqa: F401
    timestamp_pb2,  # noqa: F401
    wrappers_pb2,  # noqa: F401
)
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from grpc_tools import protoc

WELL_KNOWN = Path(protoc.__file__).parent / "_proto"


def compiled(files: Mapping[str, str]) -> dict[str, descriptor_pb2.FileDescriptorProto]:
    """Compile files by path with protoc; return these and all that they import."""
    with tempfile.TemporaryDirectory() as folder:
        for path, text in files.items():
            file = Path(folder, path)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        out = Path(folder, "out")
        arguments = [f"-I{folder}", f"-I{WELL_KNOWN}", "--include_imports", f"-o{out}", *files]
        assert protoc.main(["protoc", *arguments]) == 0
        found = descriptor_pb2.FileDescriptorSet.FromString(out.read_bytes())
    return {file.name: file for file in found.file}


def message_class(files: Mapping[str, str], name: str) -> type[Message]:
    """Return the class of a message by its full name."""
    pool = descriptor_pool.DescriptorPool()
    for file in compiled(files).values():
        pool.Add(file)
    found: type[Message] = message_factory.GetMessageClass(pool.FindMessageTypeByName(name))
    return found


def values(message: Message) -> dict[str, Any]:
    """Return what a row must have for a message, with Protobuf's own words: presence, defaults, JSON."""
    return {field.name: _value(message, field) for field in message.DESCRIPTOR.fields}


def _value(message: Message, field: FieldDescriptor) -> Any:
    if field.message_type and field.message_type.GetOptions().map_entry:
        key, item = (field.message_type.fields_by_name[name] for name in ("key", "value"))
        pairs = getattr(message, field.name)
        return {_plain(key, each): _plain(item, pairs[each]) for each in pairs}
    value = getattr(message, field.name)
    if field.is_repeated:
        return [_plain(field, each) for each in value]
    if field.has_presence and not message.HasField(field.name) and not field.has_default_value:
        return None
    return _plain(field, value)


def _plain(field: FieldDescriptor, value: Any) -> Any:
    if field.enum_type:
        name = field.enum_type.values_by_number.get(value)
        return str(value) if name is None else next(v.name for v in field.enum_type.values if v.number == value)
    if not field.message_type:
        return value
    name = field.message_type.full_name
    if name == "google.protobuf.Timestamp":
        return _shortest(value.ToJsonString(), "Z")
    if name == "google.protobuf.Duration":
        return f"PT{_shortest(value.ToJsonString(), 's')[:-1]}S"
    if name in ("google.protobuf.Struct", "google.protobuf.Value", "google.protobuf.ListValue"):
        return Json(json_format.MessageToDict(value))
    if name.startswith("google.protobuf.") and name.endswith("Value"):
        return value.value
    return values(value) if field.message_type.fields else "{}"


def _shortest(text: str, end: str) -> str:
    """Return a text with a fraction without zeros at its end."""
    digits = text.removesuffix(end)
    return (digits.rstrip("0").rstrip(".") if "." in digits else digits) + end


class Json(NamedTuple):
    """A value that is equal to JSON texts of it."""

    value: Any


def same(found: Any, expected: Any) -> bool:
    """Compare a value of a row with one of `values`: NaN is NaN, zeros have their sign, timestamps are texts."""
    match expected:
        case Json():
            return bool(json.loads(found) == expected.value)
        case dict():
            return set(found) == set(expected) and all(same(found[name], expected[name]) for name in expected)
        case list():
            return len(found) == len(expected) and all(map(same, found, expected))
        case float():
            return repr(found) == repr(expected)
    if isinstance(found, datetime):
        found = _shortest(found.replace(tzinfo=None).isoformat() + "Z", "Z")
    return type(found) in (type(expected), Decimal) and bool(found == expected)


def rows_of(rows: pa.StructArray) -> list[dict[str, Any]]:
    """Return rows for `same`."""
    return rows.to_pylist(maps_as_pydicts="strict")  # type: ignore[no-any-return]

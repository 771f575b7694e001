"""Random messages of any type, and what is done to their bytes."""

from __future__ import annotations

import random
import struct
from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

_INTEGERS = {
    FieldDescriptor.CPPTYPE_INT32: (-(2**31), 2**31 - 1),
    FieldDescriptor.CPPTYPE_INT64: (-(2**63), 2**63 - 1),
    FieldDescriptor.CPPTYPE_UINT32: (0, 2**32 - 1),
    FieldDescriptor.CPPTYPE_UINT64: (0, 2**64 - 1),
}
_FLOATS = [0.0, -0.0, 1.5, -1e300, 5e-324, float("inf"), float("-inf"), float("nan"), 1e16, 123456789.125]
_JSON_NUMBERS = [0.0, -0.0, 1.5, -1e300, 5e-324, 1e15, 999999999999999.0, 1e16, 1e-5, 0.0001, 0.1, -7.0, 1.7e308]
_TEXTS = ["", "a", "é😀", '"\\\n\x01\x7f', "NULL", "x" * 300]


def random_message(rnd: random.Random, kind: type[Message], share: float = 0.3) -> Message:
    """Return a message with this share of its fields."""
    message = kind()
    _fill(rnd, message, share)
    return message


def _fill(rnd: random.Random, message: Message, share: float) -> None:
    name = message.DESCRIPTOR.full_name
    if name in ("google.protobuf.Timestamp", "google.protobuf.Duration"):
        _fill_time(rnd, message, is_duration=name.endswith("Duration"))
        return
    if name == "google.protobuf.Value":
        _fill_value(rnd, message, 0)
        return
    for field in message.DESCRIPTOR.fields:
        if rnd.random() < share:
            _fill_field(rnd, message, field, share)


def _fill_field(rnd: random.Random, message: Message, field: FieldDescriptor, share: float) -> None:
    value = getattr(message, field.name)
    if field.message_type and field.message_type.GetOptions().map_entry:
        key, item = (field.message_type.fields_by_name[name] for name in ("key", "value"))
        for _ in range(rnd.randrange(5)):
            if item.message_type:
                _fill(rnd, value[_scalar(rnd, key)], share)
            else:
                value[_scalar(rnd, key)] = _scalar(rnd, item)
    elif field.is_repeated:
        for _ in range(rnd.randrange(4)):
            if field.message_type:
                _fill(rnd, value.add(), share)
            else:
                value.append(_scalar(rnd, field))
    elif field.message_type:
        value.SetInParent()
        _fill(rnd, value, share)
    else:
        setattr(message, field.name, _scalar(rnd, field))


def _scalar(rnd: random.Random, field: FieldDescriptor) -> Any:
    if field.cpp_type in _INTEGERS:
        low, high = _INTEGERS[field.cpp_type]
        return rnd.choice([low, high, 0, 1, rnd.randint(low, high), max(low, -1), rnd.randrange(300)])
    if field.cpp_type == FieldDescriptor.CPPTYPE_FLOAT:
        return struct.unpack("<f", struct.pack("<f", rnd.choice([0.1, -0.0, 3e38, 1e-45, float("inf"), float("nan")])))[
            0
        ]
    if field.cpp_type == FieldDescriptor.CPPTYPE_DOUBLE:
        return rnd.choice([*_FLOATS, rnd.uniform(-1e6, 1e6)])
    if field.cpp_type == FieldDescriptor.CPPTYPE_BOOL:
        return rnd.random() < 0.5
    if field.enum_type:
        known = [value.number for value in field.enum_type.values]
        return rnd.choice(known if field.enum_type.is_closed else [*known, 77, -5])
    if field.type == FieldDescriptor.TYPE_BYTES:
        return rnd.randbytes(rnd.randrange(6))
    return rnd.choice(_TEXTS)


def _fill_time(rnd: random.Random, message: Any, is_duration: bool) -> None:
    most = 315_576_000_000 if is_duration else 253_402_300_799
    least = -most if is_duration else -62_135_596_800
    message.seconds = rnd.choice([0, least, most - 1, rnd.randint(least, most - 1), rnd.randrange(2**31), -1])
    message.nanos = rnd.choice([0, 500_000_000, 123_456_000, rnd.randrange(10**6) * 1000])
    if rnd.random() < 0.1:
        message.nanos = rnd.choice([1, 999_999_999, 123_456_789])
    if is_duration and message.seconds < 0:
        message.nanos = -message.nanos


def _fill_value(rnd: random.Random, message: Any, depth: int) -> None:
    match rnd.randrange(6 if depth < 3 else 4):
        case 0:
            message.null_value = 0
        case 1:
            message.number_value = rnd.choice(_JSON_NUMBERS)
        case 2:
            message.string_value = rnd.choice(_TEXTS)
        case 3:
            message.bool_value = rnd.random() < 0.5
        case 4:
            message.struct_value.SetInParent()
            for _ in range(rnd.randrange(3)):
                _fill_value(rnd, message.struct_value.fields[rnd.choice(_TEXTS)], depth + 1)
        case _:
            message.list_value.SetInParent()
            for _ in range(rnd.randrange(3)):
                _fill_value(rnd, message.list_value.values.add(), depth + 1)


def mutated(rnd: random.Random, message: bytes, other: bytes) -> bytes:
    """Return bytes with a few changes: other bytes, missing ones, parts of another message."""
    found = bytearray(message)
    for _ in range(rnd.randrange(1, 4)):
        at = rnd.randrange(len(found) + 1)
        match rnd.randrange(5):
            case 0:
                found[at : at + 1] = bytes([rnd.randrange(256)])
            case 1:
                del found[at : at + rnd.randrange(1, 8)]
            case 2:
                start = rnd.randrange(len(other) + 1)
                found[at:at] = other[start : start + rnd.randrange(12)]
            case 3:
                found[at:at] = rnd.choice(
                    [b"\xff" * 9 + b"\x01", b"\x80" * 10, b"\x0b", b"\x0c", b"\xa3\x06\x08\x01\xa4\x06"]
                )
            case _:
                del found[at:]
    return bytes(found)

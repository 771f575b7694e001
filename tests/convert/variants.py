"""Reads variants by the Parquet specification ("Variant Binary Encoding"); shares no code with what is tested."""

from __future__ import annotations

import itertools
import struct
from decimal import Decimal
from typing import Any

__all__ = ["decode", "names_of"]


def number(data: bytes, at: int, size: int, signed: bool = False) -> int:
    assert at + size <= len(data)
    return int.from_bytes(data[at : at + size], "little", signed=signed)


def names_of(metadata: bytes) -> list[str]:
    header = metadata[0]
    assert header & 15 == 1
    size = (header >> 6) + 1
    count = number(metadata, 1, size)
    offsets = [number(metadata, 1 + size * (1 + place), size) for place in range(count + 1)]
    start = 1 + size * (count + 2)
    assert offsets[0] == 0
    assert start + offsets[-1] == len(metadata)
    texts = [metadata[start + low : start + high] for low, high in itertools.pairwise(offsets)]
    assert header >> 4 & 1
    assert texts == sorted(set(texts))
    return [text.decode() for text in texts]


def decode(metadata: bytes, value: bytes) -> Any:
    """Give the value: integers as `int`, decimals as `Decimal` with their scale, doubles as `float`."""
    found, end = _value(value, 0, names_of(metadata))
    assert end == len(value), "nothing may follow"
    return found


def _value(data: bytes, at: int, names: list[str]) -> tuple[Any, int]:
    kind, header = data[at] & 3, data[at] >> 2
    if kind == 1:
        return data[at + 1 : at + 1 + header].decode(), at + 1 + header
    if kind == 2:
        return _object(data, at + 1, header, names)
    if kind == 3:
        return _array(data, at + 1, header, names)
    return _primitive(data, at + 1, header)


def _primitive(data: bytes, at: int, kind: int) -> tuple[Any, int]:
    if kind < 3:
        return (None, True, False)[kind], at
    if kind < 7:
        size = 1 << kind - 3
        return number(data, at, size, signed=True), at + size
    if kind == 7:
        return struct.unpack_from("<d", data, at)[0], at + 8
    if kind in (8, 9, 10):
        size, digits = {8: (4, 9), 9: (8, 18), 10: (16, 38)}[kind]
        scale, unscaled = data[at], number(data, at + 1, size, signed=True)
        assert scale <= digits
        assert len(str(abs(unscaled))) <= digits
        return Decimal((unscaled < 0, tuple(map(int, str(abs(unscaled)))), -scale)), at + 1 + size
    assert kind == 16, kind
    end = at + 4 + number(data, at, 4)
    return data[at + 4 : end].decode(), end


def _object(data: bytes, at: int, header: int, names: list[str]) -> tuple[dict[str, Any], int]:
    size, id_size, count_size = (header & 3) + 1, (header >> 2 & 3) + 1, 4 if header >> 4 else 1
    count = number(data, at, count_size)
    at += count_size
    keys = [names[number(data, at + place * id_size, id_size)] for place in range(count)]
    assert [key.encode() for key in keys] == sorted({key.encode() for key in keys})
    items, end = _items(data, at + count * id_size, size, count, names)
    return dict(zip(keys, items, strict=True)), end


def _array(data: bytes, at: int, header: int, names: list[str]) -> tuple[list[Any], int]:
    count_size = 4 if header >> 2 else 1
    return _items(data, at + count_size, (header & 3) + 1, number(data, at, count_size), names)


def _items(data: bytes, at: int, size: int, count: int, names: list[str]) -> tuple[list[Any], int]:
    offsets = [number(data, at + place * size, size) for place in range(count + 1)]
    start = at + (count + 1) * size
    items = []
    for low, high in itertools.pairwise(offsets):
        item, end = _value(data, start + low, names)
        assert end == start + high
        items.append(item)
    return items, start + offsets[-1]

"""Converts rows of PostgreSQL's texts to structs; an array that is no list keeps its text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from calve.sources.database.table import Column, depth_of
from calve.sources.database.values import converted
from calve.sources.postgres.protocol.arrays import NotFlatError, elements, nested

__all__ = ["typed_rows"]


def typed_rows(columns: Sequence[Column], texts: Sequence[pa.Array]) -> Iterator[tuple[int, pa.StructArray]]:
    """Yield rows as structs, and the position of the first row of each piece.

    Most often there is one piece. Rows with an array that is no list are pieces of their own.

    Args:
        columns: The columns.
        texts: Their values as strings, all equally long.
    """
    names = [column.field_name for column in columns]
    arrays: list[pa.Array] = []
    odd: dict[int, list[int]] = {}
    for index, (column, values) in enumerate(zip(columns, texts, strict=True)):
        if not column.kind.startswith("list<"):
            arrays.append(converted(column.kind, values))
            continue
        lists, not_flat = _lists(column.kind, values)
        arrays.append(lists)
        for row in not_flat:
            odd.setdefault(row, []).append(index)
    at, end = 0, len(texts[0])
    for row in sorted(odd):
        if row > at:
            yield at, _rows(arrays, names, at, row)
        kept = [texts[index] if index in odd[row] else values for index, values in enumerate(arrays)]
        yield row, _rows(kept, names, row, row + 1)
        at = row + 1
    if at < end:
        yield at, _rows(arrays, names, at, end)


def _rows(columns: Sequence[pa.Array], names: Sequence[str], start: int, end: int) -> pa.StructArray:
    return pa.StructArray.from_arrays([column.slice(start, end - start) for column in columns], list(names))


def _lists(kind: str, texts: pa.Array) -> tuple[pa.Array, list[int]]:
    """Return lists, and the positions of arrays that are no such lists (NULL for now)."""
    depth, inner = depth_of(kind)
    if depth > 1:
        return _nested(depth, inner, texts)
    offsets, values, odd = [0], list[str | None](), list[int]()
    for row, text in enumerate(texts.to_pylist()):
        try:
            values += elements(text) if text is not None else ()
        except NotFlatError:
            odd.append(row)
        offsets.append(len(values))
    leaves = converted(inner, pa.array(values, pa.string()))
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), leaves, mask=texts.is_null()), odd


def _nested(depth: int, kind: str, texts: pa.Array) -> tuple[pa.Array, list[int]]:
    values, odd = [], list[int]()
    for row, text in enumerate(texts.to_pylist()):
        try:
            values.append(None if text is None else nested(text, depth))
        except NotFlatError:
            values.append(None)
            odd.append(row)
    of_texts = pa.string()
    for _ in range(depth):
        of_texts = pa.list_(of_texts)
    return _with_leaves(pa.array(values, of_texts), kind), odd


def _with_leaves(lists: pa.Array, kind: str) -> pa.Array:
    """Convert the texts in lists of lists; those of a new array begin at its first element."""
    if not pa.types.is_list(lists.type):
        return converted(kind, lists)
    inner = _with_leaves(lists.values, kind)
    return pa.ListArray.from_arrays(lists.offsets, inner, mask=lists.is_null())

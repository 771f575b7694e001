"""Which texts of some events are date-times, at any depth: tested for all events of one structure at once."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from calve.convert.kinds import MICROSECONDS, TIMESTAMP
from calve.convert.node import Kind, Node
from calve.convert.select import literal
from calve.event import duck
from calve.event.columns import JSON

__all__ = ["Group", "refined"]

Path = tuple[str | None, ...]
"""The names of the fields that lead to a value, None into the elements of a list."""
_MOMENTS = (Kind.MOMENT, Kind.NANOS)
_BY_CODE = (Kind.NULL, Kind.MOMENT, Kind.NANOS, Kind.STRING)


class Group(NamedTuple):
    """Events of one structure.

    Attributes:
        node: The structure; every text is of kind `string`.
        first: What the first of the events holds, exactly.
        rows: The positions of the events.
    """

    node: Node
    first: Node
    rows: npt.NDArray[np.int64]


def refined(groups: Sequence[Group], texts: pa.Array, is_wanted: Callable[[Path], bool]) -> list[Node]:
    """Return the groups' structures with the kinds of all their texts.

    Where the first event of a group has no date-time, no other one of the group matters.

    Args:
        groups: The groups.
        texts: All events.
        is_wanted: Whether the kind of the texts at a path matters.
    """
    found = [{path: kind for path, kind in _moments(each.first, ()) if is_wanted(path)} for each in groups]
    asked = [number for number, paths in enumerate(found) if paths and len(groups[number].rows) > 1]
    if asked:
        rows = np.sort(np.concatenate([groups[number].rows for number in asked]))
        paths = list(dict.fromkeys(path for number in asked for path in found[number]))
        codes = _codes(texts.take(pa.array(rows)), paths)
        for number in asked:
            mine = np.searchsorted(rows, groups[number].rows)
            found[number] = {path: _BY_CODE[codes[path][mine].max()] for path in found[number]}
    return [_with(each.node, kinds, ()) for each, kinds in zip(groups, found, strict=True)]


def _moments(node: Node, path: Path) -> Iterable[tuple[Path, Kind]]:
    if node.kind in _MOMENTS:
        yield path, node.kind
    for name, below in node.fields.items():
        yield from _moments(below, (*path, None if node.kind is Kind.LIST else name))


def _with(node: Node, kinds: dict[Path, Kind], path: Path) -> Node:
    """Return a structure with other kinds at some paths."""
    if path in kinds and node.kind is Kind.STRING:
        return Node(kinds[path])
    if not node.fields or not kinds:
        return node
    below = {
        name: _with(each, kinds, (*path, None if node.kind is Kind.LIST else name))
        for name, each in node.fields.items()
    }
    return Node(node.kind, below)


def _codes(texts: pa.Array, paths: list[Path]) -> dict[Path, npt.NDArray[np.int64]]:
    """Return by path, per event, the number in `_BY_CODE` of the kind that all its texts there have together."""
    columns = [
        f"coalesce({_code(f'json_transform(json, {literal(json.dumps(_spec(path)))})', path)}, 0) AS c{number}"
        for number, path in enumerate(paths)
    ]
    found = duck.run(f"SELECT {', '.join(columns)} FROM events", events=pa.table({JSON: texts}))
    return {path: duck.whole(found[f"c{number}"]).to_numpy() for number, path in enumerate(paths)}


def _spec(path: Path) -> Any:
    if not path:
        return "VARCHAR"
    return [_spec(path[1:])] if path[0] is None else {path[0]: _spec(path[1:])}


def _code(value: str, path: Path) -> str:
    if not path:
        return (
            f"CASE WHEN {value} IS NULL THEN 0 WHEN regexp_full_match({value}, {literal(MICROSECONDS)}) THEN 1"
            f" WHEN regexp_full_match({value}, {literal(TIMESTAMP)}) THEN 2 ELSE 3 END"
        )
    if path[0] is None:
        name = f"e{len(path)}"
        return f"list_max(list_transform({value}, lambda {name}: {_code(name, path[1:])}))"
    return _code(f"struct_extract({value}, {literal(path[0])})", path[1:])

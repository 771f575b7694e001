"""Applies the changes of a JSON value that a partial update has instead of the new value.

https://dev.mysql.com/doc/dev/mysql-server/latest/classJson__diff.html
"""

from __future__ import annotations

import json
import re
from typing import Any

from calve.sources.mysql.protocol.json_binary import Members, Value, parsed, text_of
from calve.sources.mysql.protocol.wire import read_length

__all__ = ["patched"]

_REPLACE, _INSERT, _REMOVE = range(3)
_LEG = re.compile(r"""\.(?P<plain>[^."\[]+)|\."(?P<quoted>(?:[^"\\]|\\.)*)"|\[(?P<index>\d+)\]""")


def patched(old: bytes, changes: bytes) -> str:
    """Return the text of a value after changes.

    Args:
        old: The value before, as the log has it.
        changes: One after the other: what is done, the path, and the new value.

    Raises:
        ValueError: They do not fit the value.
    """
    value, at = parsed(old), 0
    while at < len(changes):
        operation = changes[at]
        path, at = _bytes(changes, at + 1)
        data, at = _bytes(changes, at) if operation != _REMOVE else (b"", at)
        value = _changed(value, operation, _legs(path.decode()), data)
    return text_of(value)


def _bytes(data: bytes, at: int) -> tuple[bytes, int]:
    size, at = read_length(data, at)
    return data[at : at + size], at + size


def _legs(path: str) -> list[str | int]:
    legs: list[str | int] = []
    at = 1  # after $
    while at < len(path):
        leg = _LEG.match(path, at)
        if leg is None:
            raise ValueError(f"a path in a JSON value is not understood: {path}")
        at = leg.end()
        if leg["index"] is not None:
            legs.append(int(leg["index"]))
        else:
            legs.append(leg["plain"] if leg["plain"] is not None else _unquoted(leg["quoted"]))
    return legs


def _unquoted(text: str) -> str:
    unquoted: str = json.loads(f'"{text}"')
    return unquoted


def _changed(value: Value, operation: int, legs: list[str | int], data: bytes) -> Value:
    if not legs:
        return parsed(data)
    try:
        parent: Any = value
        for leg in legs[:-1]:
            place = _index(parent, leg)
            parent = parent[place][1] if isinstance(parent, Members) else parent[place]
        if isinstance(parent, Members):
            _change_member(parent, operation, str(legs[-1]), data)
        else:
            _change_element(parent, operation, int(legs[-1]), data)
    except (ValueError, IndexError, TypeError) as error:
        raise ValueError(f"a partial update does not fit the JSON value before it: {error!r}") from error
    return value


def _index(container: Members | list[Any], leg: str | int) -> int:
    """Return where a key or an element is."""
    return [key for key, _ in container].index(str(leg)) if isinstance(container, Members) else int(leg)


def _change_member(parent: Members, operation: int, key: str, data: bytes) -> None:
    if operation != _INSERT:
        del parent[_index(parent, key)]
    if operation != _REMOVE:
        parent.append((key, parsed(data)))
        parent.sort(key=lambda member: (len(member[0].encode()), member[0].encode()))  # MySQL's order


def _change_element(parent: list[Any], operation: int, at: int, data: bytes) -> None:
    if operation == _INSERT:
        parent.insert(at, parsed(data))
    elif operation == _REPLACE:
        parent[at] = parsed(data)
    else:
        del parent[at]

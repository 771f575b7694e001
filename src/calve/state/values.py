"""Values in the files of the state, as JSON."""

from __future__ import annotations

import json
from typing import Any, TypeVar

import msgspec

from calve import structs
from calve.errors import InvariantError
from calve.state.folder import StateFolder

__all__ = ["decoded", "encoded", "read", "read_as"]

T = TypeVar("T")


def encoded(value: Any) -> bytes:
    """Return a value as the content of a file. A name that is no Unicode, such as that of a file, is kept."""
    if isinstance(value, msgspec.Struct):
        return msgspec.json.encode(value)
    return json.dumps(value, separators=(",", ":")).encode()


def decoded(name: str, content: bytes, kind: Any = Any) -> Any:
    """Return the value in a file.

    Args:
        name: The location of the file, for the error.
        content: Its content.
        kind: The type of the value.

    Raises:
        InvariantError: It is damaged, which no crash of ours can bring about.
    """
    try:
        return json.loads(content) if kind is Any else structs.decode(content, kind)
    except ValueError as error:
        raise InvariantError(
            f"{name} is damaged: {error}",
            step="ledger",
            target=name,
            hint="Bring it back from a backup; going on without it could lose or double events",
        ) from error


def read(folder: StateFolder, name: str) -> Any | None:
    """Return the value in a file, or None if there is no such file.

    Raises:
        InvariantError: It is damaged.
    """
    stored = folder.get(name)
    return None if stored is None else decoded(f"{folder}/{name}", stored.content)


def read_as(folder: StateFolder, name: str, kind: type[T]) -> T | None:
    """Return the value in a file as a value of a type, or None if there is no such file.

    Raises:
        InvariantError: It is damaged.
    """
    stored = folder.get(name)
    value: T | None = None if stored is None else decoded(f"{folder}/{name}", stored.content, kind)
    return value

"""The files in which tasks of this machine hand messages on to tasks of a second function.

Runs in the workers, so it imports nothing of Spark: that would take a worker a fifth of a second.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO, Any

from calve.engine.fork_server import attempt

__all__ = ["Second", "hand_on", "take"]

_LENGTH_BYTES = 8
First = Callable[[Iterator[Any]], Iterator[tuple[int, bytes]]]
Second = Callable[[int, Iterable[tuple[int, bytes]]], Iterator[Any]]


def hand_on(first: First, folder: Path, numbered: Iterable[tuple[int, Any]]) -> Iterator[Any]:
    """Write the messages of a task into a file for each task that gets some; yield nothing.

    The folder of a task appears when it is complete, as a task that lost its worker runs again.
    """
    for number, item in numbered:
        unfinished = folder / f".{number}-{attempt()}"
        unfinished.mkdir()
        _write(unfinished, first(iter([item])))
        unfinished.rename(folder / f"{number}")
    yield from ()


def take(second: Second, folder: Path, numbers: Iterable[int]) -> Iterator[Any]:
    """Call the second function with the messages of a task; yield what it yields."""
    for number in numbers:
        yield from second(number, _messages(folder, number))


def _write(folder: Path, messages: Iterable[tuple[int, bytes]]) -> None:
    files: dict[int, IO[bytes]] = {}
    with contextlib.ExitStack() as stack:
        for receiver, message in messages:
            if receiver not in files:
                files[receiver] = stack.enter_context((folder / f"{receiver}").open("wb"))
            files[receiver].write(len(message).to_bytes(_LENGTH_BYTES) + message)


def _messages(folder: Path, receiver: int) -> Iterator[tuple[int, bytes]]:
    for path in folder.glob(f"[0-9]*/{receiver}"):
        with path.open("rb") as file:
            while length := file.read(_LENGTH_BYTES):
                yield receiver, file.read(int.from_bytes(length))

"""Functions of tasks, in a module that imports nothing of Spark."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator


def handed_on(items: Iterable[int]) -> Iterator[tuple[int, bytes]]:
    yield from ((0, b"%d" % item) for item in items)


def modules(number: int, messages: Iterable[tuple[int, bytes]]) -> Iterator[tuple[int, frozenset[str]]]:
    """Yield each message with the modules that its worker has imported."""
    yield from ((int(message), frozenset(sys.modules)) for _, message in messages)

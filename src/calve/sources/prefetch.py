"""Prefetches: another thread reads the next batch while the current one is converted and written."""

from __future__ import annotations

import itertools
import queue
import threading
from collections.abc import Generator, Iterable
from typing import Any, TypeVar

__all__ = ["prefetch"]

T = TypeVar("T")
_DEPTH = 2
_DONE = object()


def prefetch(parts: Iterable[Iterable[T]]) -> Generator[T, None, None]:
    """Yield the items of the parts, in order, prefetching up to two items.

    An error of the parts is raised here, at its position. Closing the iterator ends the thread.
    """
    items: queue.Queue[Any] = queue.Queue(_DEPTH)
    ended = threading.Event()

    def put(item: Any) -> None:
        while not ended.is_set():
            try:
                items.put(item, timeout=0.1)
                return
            except queue.Full:
                continue

    def fetch() -> None:
        try:
            for item in itertools.chain.from_iterable(parts):
                put((item, None))
                if ended.is_set():
                    return
            put((_DONE, None))
        except BaseException as error:  # the consumer raises it
            put((_DONE, error))

    thread = threading.Thread(target=fetch, name="read-ahead", daemon=True)
    thread.start()
    try:
        while True:
            item, error = items.get()
            if error is not None:
                raise error
            if item is _DONE:
                return
            yield item
    finally:
        ended.set()
        thread.join()

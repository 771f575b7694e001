"""A thread that calls a function periodically until it is closed."""

from __future__ import annotations

import threading
from collections.abc import Callable

__all__ = ["Ticker"]


class Ticker:
    """Calls `tick` every `seconds`, never twice at once, and a last time in `close`."""

    def __init__(self, name: str, seconds: float, tick: Callable[[], None]) -> None:
        self._seconds = seconds
        self._tick = tick
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop, and tick once more, so that the final state is seen."""
        if not self._closed.is_set():
            self._closed.set()
            self._thread.join()
            self._tick()

    def _run(self) -> None:
        while not self._closed.wait(self._seconds):
            self._tick()

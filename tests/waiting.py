"""Waiting for a condition, with a bound: what tests do instead of sleeping."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable


def wait_for(condition: Callable[[], bool], seconds: float = 20.0) -> None:
    pause = threading.Event()
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "the condition did not come true"
        pause.wait(0.01)

"""Retries a commit while other writers are faster or the catalog's answer is lost; bounded, with jitter."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TypeVar

from calve.errors import CommitConflictError, CommitUnknownError
from calve.network.backoff import delay

__all__ = ["Retries", "retried"]

_TRIES = 12
_FIRST_WAIT_SECONDS = 0.05
_LONGEST_WAIT_SECONDS = 3.0
_PREFIX = "commit.retry."

Result = TypeVar("Result")


class Retries:
    """How often and how long a commit is tried: Calve's own numbers, or those of the table.

    Attributes:
        tries: The number of tries.
        first_wait_seconds: The wait after the first one.
        longest_wait_seconds: The longest wait.
        total_seconds: After so much time there is no further try; None: no limit.
        conflicts: How often another writer was faster so far.
        repeats: How often there was another try so far, also because an answer was lost.
    """

    def __init__(self, tries: int = _TRIES) -> None:
        self.tries = tries
        self.first_wait_seconds = _FIRST_WAIT_SECONDS
        self.longest_wait_seconds = _LONGEST_WAIT_SECONDS
        self.total_seconds: float | None = None
        self.conflicts = 0
        self.repeats = 0

    def follow(self, properties: Mapping[str, str]) -> None:
        """Use a table's `commit.retry.*`, as Iceberg documents them; what is not set, or no number, stays as it is."""
        numbers: dict[str, int] = {}
        for name in ("num-retries", "min-wait-ms", "max-wait-ms", "total-timeout-ms"):
            with suppress(ValueError):
                numbers[name] = max(0, int(properties.get(_PREFIX + name, "")))
        self.tries = numbers.get("num-retries", self.tries - 1) + 1
        self.first_wait_seconds = numbers.get("min-wait-ms", self.first_wait_seconds * 1000) / 1000
        self.longest_wait_seconds = numbers.get("max-wait-ms", self.longest_wait_seconds * 1000) / 1000
        if "total-timeout-ms" in numbers:
            self.total_seconds = numbers["total-timeout-ms"] / 1000


def retried(action: Callable[[], Result], retries: Retries | None = None) -> Result:
    """Call `action`, which must load the table each time, until no other writer is faster and the catalog answers.

    Args:
        action: It may change `retries`, when it has seen the table.
        retries: How often and how long.

    Raises:
        CommitConflictError: Other writers were faster every time.
        CommitUnknownError: The last try got no answer.
    """
    retries, earlier, began = retries or Retries(), 0, time.monotonic()
    while True:
        try:
            return action()
        except (CommitConflictError, CommitUnknownError) as error:
            retries.conflicts += isinstance(error, CommitConflictError)
            wait = delay(earlier, retries.first_wait_seconds, retries.longest_wait_seconds)
            earlier += 1
            is_late = retries.total_seconds is not None and time.monotonic() + wait - began > retries.total_seconds
            if earlier >= retries.tries or is_late:
                raise
            retries.repeats += 1
            time.sleep(wait)

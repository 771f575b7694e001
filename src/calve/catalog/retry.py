"""Retries a commit while other writers are faster or the catalog's answer is lost; bounded, with jitter."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from calve.errors import CommitConflictError, CommitUnknownError
from calve.network.backoff import delay

__all__ = ["TRIES", "retried"]

TRIES = 12
_FIRST_WAIT_SECONDS = 0.05
_LONGEST_WAIT_SECONDS = 3.0

Result = TypeVar("Result")


def retried(action: Callable[[], Result], tries: int = TRIES) -> Result:
    """Call `action`, which must load the table each time, until no other writer is faster and the catalog answers.

    Raises:
        CommitConflictError: Other writers were faster every time.
        CommitUnknownError: The last try got no answer.
    """
    for earlier in range(tries):
        try:
            return action()
        except (CommitConflictError, CommitUnknownError):
            if earlier == tries - 1:
                raise
            time.sleep(delay(earlier, _FIRST_WAIT_SECONDS, _LONGEST_WAIT_SECONDS))
    raise AssertionError("at least one try")

"""Tries a commit again while other writers are faster or the catalog's answer is lost; bounded, with jitter."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from calve.backoff import delay
from calve.errors import CommitConflictError, CommitUnknownError

__all__ = ["TRIES", "retried"]

TRIES = 12
_FIRST_WAIT_SECONDS = 0.05
_LONGEST_WAIT_SECONDS = 3.0

Result = TypeVar("Result")


def retried(action: Callable[[], Result], tries: int = TRIES) -> Result:
    """Call `action`, which looks at the table anew each time, until it is neither overtaken nor unanswered.

    Raises:
        CommitConflictError: Other writers were faster every time.
        CommitUnknownError: The last answer never came.
    """
    for earlier in range(tries):
        try:
            return action()
        except (CommitConflictError, CommitUnknownError):
            if earlier == tries - 1:
                raise
            time.sleep(delay(earlier, _FIRST_WAIT_SECONDS, _LONGEST_WAIT_SECONDS))
    raise AssertionError("at least one try")

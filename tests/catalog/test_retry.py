from __future__ import annotations

import pytest

from calve.catalog.retry import Retries, retried
from calve.errors import CommitConflictError, CommitError, CommitUnknownError, SinkUnavailableError


def failing(errors: list[Exception]) -> str:
    if errors:
        raise errors.pop(0)
    return "done"


def test_conflicts_and_lost_answers_are_tried_again() -> None:
    errors: list[Exception] = [CommitConflictError("faster"), CommitUnknownError("silence")]
    retries = Retries()
    assert retried(lambda: failing(errors), retries) == "done"
    assert (retries.conflicts, retries.repeats) == (1, 2)


def test_the_last_error_is_raised_when_the_tries_are_used_up() -> None:
    errors: list[Exception] = [CommitConflictError(f"faster {number}") for number in range(5)]
    retries = Retries(3)
    with pytest.raises(CommitConflictError, match="faster 2"):
        retried(lambda: failing(errors), retries)
    assert (retries.conflicts, retries.repeats) == (3, 2)


@pytest.mark.parametrize("error", [CommitError("refused"), SinkUnavailableError("down")])
def test_other_errors_are_left_to_the_caller(error: Exception) -> None:
    errors = [error]
    with pytest.raises(type(error)):
        retried(lambda: failing(errors))


def test_a_table_says_how_often_and_how_long() -> None:
    retries = Retries()
    retries.follow({"commit.retry.num-retries": "1", "commit.retry.min-wait-ms": "1", "commit.retry.max-wait-ms": "x"})
    assert (retries.tries, retries.first_wait_seconds, retries.longest_wait_seconds) == (2, 0.001, 3.0)
    errors: list[Exception] = [CommitConflictError(f"faster {number}") for number in range(5)]
    with pytest.raises(CommitConflictError, match="faster 1"):
        retried(lambda: failing(errors), retries)


def test_no_try_begins_after_the_total_time() -> None:
    retries = Retries()
    retries.follow({"commit.retry.total-timeout-ms": "0"})
    errors: list[Exception] = [CommitConflictError(f"faster {number}") for number in range(5)]
    with pytest.raises(CommitConflictError, match="faster 0"):
        retried(lambda: failing(errors), retries)

from __future__ import annotations

import pytest

from calve.catalog.retry import retried
from calve.errors import CommitConflictError, CommitError, CommitUnknownError, SinkUnavailableError


def failing(errors: list[Exception]) -> str:
    if errors:
        raise errors.pop(0)
    return "done"


def test_conflicts_and_lost_answers_are_tried_again() -> None:
    errors: list[Exception] = [CommitConflictError("faster"), CommitUnknownError("silence")]
    assert retried(lambda: failing(errors)) == "done"


def test_the_last_error_is_raised_when_the_tries_are_used_up() -> None:
    errors: list[Exception] = [CommitConflictError(f"faster {number}") for number in range(5)]
    with pytest.raises(CommitConflictError, match="faster 2"):
        retried(lambda: failing(errors), tries=3)


@pytest.mark.parametrize("error", [CommitError("refused"), SinkUnavailableError("down")])
def test_other_errors_are_left_to_the_caller(error: Exception) -> None:
    errors = [error]
    with pytest.raises(type(error)):
        retried(lambda: failing(errors))

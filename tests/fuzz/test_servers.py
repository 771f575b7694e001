"""The first rounds of `make fuzz FUZZ=--servers`."""

from __future__ import annotations

from pathlib import Path

import pytest

from fuzz.server_clients import CLIENTS
from fuzz.server_play import of, wrong


@pytest.mark.parametrize("kind", CLIENTS)
def test_a_client_of_a_hostile_server_ends_with_a_clear_error_in_bounded_time_and_memory(
    kind: str, tmp_path: Path
) -> None:
    counts, findings = of("suite", 0, tmp_path / "round", (kind,))
    assert findings == []
    assert counts["errors"] > counts["attacks"] / 2


def test_the_oracle_sees_hangs_unclear_errors_and_memory() -> None:
    ended = {"error": "x", "is_clear": True, "grown_kb": 1}
    assert wrong("sqs", "a bomb", ended, 1) == []
    for bad in (
        "it does not end",
        {**ended, "is_clear": False},
        {**ended, "grown_kb": 1 << 30},
        {**ended, "error": ""},
    ):
        assert wrong("sqs", "a bomb", bad, 1)

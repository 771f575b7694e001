"""What `calve maintain` refuses, in one sentence and before Spark starts."""

from __future__ import annotations

import pytest


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["db.t", "--older-than", "24h"], "three days"),
        (["db.t", "--only", "orphans", "--older-than", "0s"], "--force"),
        (["db.t"], "./lakehouse"),
        (["db.t", "--only", "expire", "--older-than", "1h"], "./lakehouse"),
        (["db.t", "--older-than", "soon"], "durations are written"),
        (["db.t", "--only", "vacuum"], "convert"),
        (["db.t", "--catalog", "rest"], "KEY=VALUE"),
        ([], "TABLE"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_a_way_out(shell, arguments, told) -> None:
    done = shell("maintain", *arguments)
    assert done.exit_code == 2
    assert told in done.stderr
    assert "Traceback" not in done.stderr

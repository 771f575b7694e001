"""A table that a source follows, without Spark."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from calve.changes.plan import UnreadFileError
from calve.observe.log import Log
from calve.sources.iceberg.followed import FollowedTable


@pytest.mark.parametrize("fails", [1, 2])
def test_a_step_that_spark_cannot_read_is_read_once_more_by_iceberg(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, fails: int
) -> None:
    settings: Any = SimpleNamespace(
        table_name="db.t", identifier_columns=[], columns=[], where=None, branch="main", row_id_column=None
    )
    answers = [True, False]
    planner = SimpleNamespace(read_by_iceberg=lambda _: answers.pop(0))
    errors = [UnreadFileError("encoding RLE", step="changes")] * fails
    written: Any = object()

    def write(*_: object) -> Any:
        if errors:
            raise errors.pop()
        return written

    table = FollowedTable(planner, settings, lambda: None, False, Log("p"))  # type: ignore[arg-type]
    monkeypatch.setattr(table, "_write", write)
    nothing: Any = None
    if fails == 1:
        assert table.write(nothing, nothing, nothing, 1) is written
    else:
        with pytest.raises(UnreadFileError):
            table.write(nothing, nothing, nothing, 1)
    assert "Spark cannot read a file of it (encoding RLE)" in caplog.text

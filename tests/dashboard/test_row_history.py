"""The rows of tables over an hour: a point for each change, bounded in number, kept over restarts."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from calve.dashboard.row_history import MOST_OF_PIPELINE, MOST_TABLES, RowHistory
from calve.observe.report import PipelineReport, TableReport

AT = 1_800_000_000.0


def report(name: str = "p", **rows: int) -> PipelineReport:
    committed = datetime(2026, 11, 22, tzinfo=UTC)
    return PipelineReport(
        name, tables={table: TableReport(count, last_commit=committed) for table, count in rows.items()}
    )


def test_a_point_is_added_when_the_rows_are_others() -> None:
    history = RowHistory(None)
    for second, rows in enumerate((5, 5, 9, 9, 9, 12)):
        history.add([report(t=rows)], AT + second)
    assert history.of("p", "t") == [(AT, 5.0), (AT + 2, 9.0), (AT + 5, 12.0)]
    assert history.of("p", "other") == []


def test_points_before_the_last_hour_are_forgotten_but_for_the_one_where_it_begins() -> None:
    history = RowHistory(None)
    for minute in range(0, 130, 10):
        history.add([report(t=minute)], AT + 60 * minute)
    assert [at - AT for at, _ in history.of("p", "t")] == [60.0 * minute for minute in range(50, 130, 10)]
    history.add([report(t=120)], AT + 60 * 500)
    assert [rows for _, rows in history.of("p", "t")] == [120.0]


def test_a_state_that_begins_anew_begins_a_new_line() -> None:
    history = RowHistory(None)
    history.add([report(t=50)], AT)
    history.add([report(t=3)], AT + 10)
    assert history.of("p", "t") == [(AT + 10, 3.0)]


def test_the_file_is_bounded_and_kept_over_restarts(tmp_path: Path) -> None:
    file = tmp_path / "rows.json"
    history = RowHistory(file)
    reports = [report(f"p{number}", **{f"t{table}": table for table in range(50)}) for number in range(100)]
    history.add(reports, AT)
    history.save()
    kept = RowHistory(file)
    counts = [sum(bool(kept.of(f"p{number}", f"t{table}")) for table in range(50)) for number in range(100)]
    assert sum(counts) == MOST_TABLES
    history.add(reports[:1], AT + 10)
    assert sum(bool(history.of("p0", f"t{table}")) for table in range(50)) == MOST_OF_PIPELINE
    file.write_text("{")
    assert RowHistory(file).of("p0", "t1") == []

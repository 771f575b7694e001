from __future__ import annotations

import logging
from datetime import UTC, datetime
from pathlib import Path

import pytest

from calve.dashboard.chart import charts
from calve.dashboard.history import SPAN_SECONDS, Sample, SampleHistory
from calve.dashboard.model import is_behind
from calve.observe.report import PipelineReport


def report(at: float, events: int = 0, lag: int = 0) -> PipelineReport:
    return PipelineReport("orders", updated=datetime.fromtimestamp(at, UTC), events=events, lag_rows=lag)


def lags(*values: int, step: float = 30.0) -> list[Sample]:
    return [Sample(step * number, 0, value, 0, None) for number, value in enumerate(values)]


def test_an_hour_is_kept_and_no_more(tmp_path: Path) -> None:
    history = SampleHistory(tmp_path / "history.json")
    for at in range(0, 2 * SPAN_SECONDS, 10):
        history.add([report(at, at)], now=at)
    assert [one.at for one in history.of("orders")][:: SPAN_SECONDS // 10] == [3590.0, 7190.0]
    history.save()
    assert (tmp_path / "history.json").stat().st_size < 20_000
    assert SampleHistory(tmp_path / "history.json").of("orders") == history.of("orders")


def test_the_same_report_is_one_sample_and_old_pipelines_are_forgotten() -> None:
    history = SampleHistory(None)
    history.add([report(5)], now=5)
    history.add([report(5)], now=15)
    assert len(history.of("orders")) == 1
    history.add([], now=5 + SPAN_SECONDS + 1)
    assert history.of("orders") == []


def test_the_axis_begins_with_the_data_and_ends_with_an_hour() -> None:
    def path(*samples: Sample, now: float) -> list[str]:
        return charts(samples, now)[1].path.split()

    young = [Sample(1_000.0 + 10 * number, 0, 5, 0, None) for number in range(13)]
    assert [part for part in path(*young, now=1_120.0) if part[0] in "ML"][::12] == ["M0.0", "L600.0"]
    assert charts(young, 1_120.0)[1].begins == "2 min"
    old = [Sample(10.0 * number, 0, 5, 0, None) for number in range(721)]
    assert charts(old, 7_200.0)[1].begins == "60 min"
    assert path(*old, now=7_200.0)[-2] == "L600.0"


def test_values_have_a_grid_of_round_numbers_and_rejects_and_refusals_lines_of_their_own() -> None:
    samples = [Sample(10.0 * number, 100 * number, 3_300, 0, None, 20 * number, number) for number in range(7)]
    found = {chart.title.partition(":")[0]: chart for chart in charts(samples, 60.0)}
    assert [label for _, label in found["Lag"].grid] == ["4,000", "2,000"]
    assert found["Rejected events per second"].now == "2"
    assert found["Refused requests per second"].now == "0.1"
    assert len(charts(lags(1, 2, 3), 60.0)) == 3


def test_samples_of_an_earlier_version_are_read(tmp_path: Path) -> None:
    (tmp_path / "history.json").write_text('{"orders": [[5.0, 1, 2, 3, null]]}')
    assert SampleHistory(tmp_path / "history.json").of("orders") == [Sample(5.0, 1, 2, 3, None, 0, 0)]


def test_a_broken_or_missing_file_is_a_new_beginning(tmp_path: Path) -> None:
    file = tmp_path / "history.json"
    file.write_text('{"orders": [[1,')
    history = SampleHistory(file)
    history.add([report(5)], now=5)
    history.save()
    assert len(SampleHistory(file).of("orders")) == 1


def test_a_file_that_cannot_be_written_is_logged_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "state").write_text("a file")
    history = SampleHistory(tmp_path / "state" / "history.json")
    history.add([report(5)], now=5)
    caplog.clear()
    with caplog.at_level(logging.WARNING, "calve"):
        history.save()
        history.save()
    assert len(caplog.records) == 1
    assert "cannot be written" in caplog.text


def test_no_folder_is_made_for_a_state_without_pipelines(tmp_path: Path) -> None:
    SampleHistory(tmp_path / "none" / "history.json").save()
    assert list(tmp_path.iterdir()) == []


def test_the_rate_is_counted_and_a_gap_interrupts_the_line() -> None:
    samples = [Sample(at, 100 * at, 0, 0, None) for at in (3000, 3010, 3020, 3400, 3410)]
    rate, lag, freshness = charts([*samples, Sample(3420, 0, 0, 0, None)], now=3600.0)
    assert (rate.now, rate.grid[0][1]) == ("0", "100")  # the counts began again: never less than nothing
    assert [rate.path.count(letter) for letter in "ML"] == [2, 2]
    assert lag.summary == "Lag, over the last 10 min: now 0, at most 0"
    assert freshness.path == ""


def test_a_lag_in_bytes_is_shown_as_a_size() -> None:
    samples = [Sample(at, 0, -1, 3 << 20, None) for at in (10, 20)]
    assert [(chart.title, chart.now) for chart in charts(samples, now=30.0)][1] == ("Lag", "3.0 MiB")
    assert charts(samples, 30.0, lag="2.0 MiB")[1].now == "2.0 MiB"


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ((0, 0, 0, 0, 0, 0, 0, 0), False),
        ((1000, 2000, 3000, 4000, 5000, 6000, 7000, 8000), True),
        ((8000, 7000, 6000, 5000, 4000, 3000, 2000, 1000), False),
        ((100, 200, 300, 400, 500, 600, 700, 800), False),
        ((5000, 9000, 5000, 9000, 5000, 9000, 5000, 9000), False),
        ((90_000,) * 8, False),
        ((1000, 9000), False),
    ],
)
def test_a_pipeline_falls_behind_if_its_lag_grows_steadily(values: tuple[int, ...], expected: bool) -> None:
    assert is_behind(lags(*values)) is expected

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from calve.settings import units


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("60s", 60),
        ("60000ms", 60),
        ("60 s", 60),
        ("  60  s ", 60),
        ("0s", 0),
        ("5m", 300),
        ("1h", 3600),
        ("PT15M", 900),
        ("pt5m", 300),
        ("PT0.5S", 0.5),
        ("P1DT1H", 90000),
    ],
)
def test_a_duration_is_read_as_data_prepper_reads_it_and_with_minutes_and_hours(text: str, seconds: float) -> None:
    assert units.duration(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize("text", ["06s", "-1s", "20.345s", "100", "6s1s", "60ms 100s", "100sm", "", "P", "PT", "5 min"])
def test_what_is_no_duration_is_refused_with_the_ways_to_write_one(text: str) -> None:
    with pytest.raises(ValueError, match="durations are written 500ms, 30s, 5m, 1h, 90d or as ISO 8601"):
        units.duration(text)


@pytest.mark.parametrize("text", ["9" * 30 + "h", "P" + "9" * 400 + "D", "9" * 5000 + "s"])
def test_an_endless_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="too long"):
        units.duration(text)


@pytest.mark.parametrize(
    ("text", "size"),
    [("1b", 1), ("1.5kb", 1536), ("64mb", 64 << 20), ("1gb", 1 << 30), ("2 GB", 2 << 30), ("1tb", 1 << 40)],
)
def test_a_size_counts_in_units_of_1024(text: str, size: int) -> None:
    assert units.size(text) == size


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1024", "needs a unit"),
        ("5xb", "xb is not a unit of size"),
        ("-1kb", "sizes are written"),
        ("kb", "sizes are written"),
        ("9" * 400 + "kb", "sizes are written"),
    ],
)
def test_what_is_no_size_is_refused(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        units.size(text)


@given(st.integers(0, 10**12))
def test_a_size_written_is_read_as_itself(value: int) -> None:
    assert units.size(units.size_text(value)) == value


@given(st.integers(0, 10**12))
def test_a_duration_written_is_read_as_itself(milliseconds: int) -> None:
    value = timedelta(milliseconds=milliseconds)
    assert units.duration(units.duration_text(value)) == value

"""`date`: the examples of Data Prepper's documentation, and times that are exact."""

from __future__ import annotations

from typing import Any

import pytest

from calve.settings.problems import SettingsErrors
from processors.chains import plugins, ran

ISO = "yyyy-MM-dd'T'HH:mm:ss.SSSXXX"
APACHE = "dd/MMM/yyyy:HH:mm:ss Z"


def date(*patterns: str, **more: Any) -> dict[str, Any]:
    return {"date": {"match": [{"key": "t", "patterns": list(patterns)}], **more}}


@pytest.mark.parametrize(
    ("pattern", "time", "after"),
    [
        ("epoch_milli", "1678902000123", "2023-03-15T13:40:00.123-04:00"),
        ("epoch_second", "1678902000", "2023-03-15T13:40:00.000-04:00"),
        (ISO, "2023-03-15T14:30:45.123-05:00", "2023-03-15T15:30:45.123-04:00"),
        (APACHE, "15/Mar/2023:14:30:45 -0500", "2023-03-15T15:30:45.000-04:00"),
    ],
)
def test_parse_a_timestamp_to_convert_its_format_and_time_zone(pattern: str, time: str, after: str) -> None:
    processor = date(pattern, destination_timezone="America/New_York", output_format=ISO, locale="en_US")
    assert ran(processor, {"t": time}) == [{"t": time, "@timestamp": after}]


@pytest.mark.parametrize(
    ("time", "after"),
    [
        ("Mar 15 14:30:45", "2026-03-15T21:30:45.000Z"),
        ("Mar  5 14:30:45", "2026-03-05T22:30:45.000Z"),
        ("Jan 5 01:02:03", "2026-01-05T09:02:03.000Z"),
    ],
)
def test_timestamp_formats_with_different_day_spacing_take_the_year_of_the_batch(time: str, after: str) -> None:
    patterns = ("MMM d HH:mm:ss", "MMM  d HH:mm:ss", "MMM dd HH:mm:ss")
    assert ran(date(*patterns, source_timezone="America/Los_Angeles"), {"t": time})[0]["@timestamp"] == after


def test_the_default_timestamp_is_the_time_of_the_batch_which_stays_over_retries() -> None:
    processor = {"date": {"from_time_received": True, "destination": "at"}}
    assert ran(processor, {"a": 1}) == ran(processor, {"a": 1}) == [{"a": 1, "at": "2026-01-09T12:20:00.500Z"}]


@pytest.mark.parametrize(
    ("patterns", "time", "output", "after"),
    [
        (["epoch_nano"], 1678902000123456789, "epoch_nano", 1678902000123456789),
        (["epoch_nano"], "1678902000123456789", "yyyy-MM-dd HH:mm:ss.SSSSSSSSS", "2023-03-15 17:40:00.123456789"),
        (["epoch_micro"], 1678902000123456, "epoch_milli", 1678902000123),
        (["yyyy-MM-dd HH:mm:ss"], "2023-03-15 14:30:45", "EEE, d MMM yyyy hh:mm a", "Wed, 15 Mar 2023 02:30 PM"),
        (["yyyy-MM-dd"], "2023-03-15", "epoch_second", 1678838400),
        (["x", "yyyy"], "2023", "yyyy", "2023"),
        (["yyyy-MM-dd HH:mm VV"], "2023-07-01 12:00 Europe/Berlin", "HH:mm xxx", "10:00 +00:00"),
    ],
)
def test_a_time_is_written_in_the_output_format(patterns: list[str], time: Any, output: str, after: Any) -> None:
    assert ran(date(*patterns, output_format=output), {"t": time})[0]["@timestamp"] == after


@pytest.mark.parametrize("time", ["no time", "2023-13-01", "2023-02-30", None, True, {"a": 1}, "", 12])
def test_an_event_whose_time_matches_no_pattern_stays(time: Any) -> None:
    assert ran(date("yyyy-MM-dd"), {"t": time}, {}) == [{"t": time}, {}]


def test_only_one_unit_takes_a_number() -> None:
    assert ran(date("epoch_second"), {"t": 1678902000123}) == [{"t": 1678902000123}]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"match": [{"key": "t", "patterns": ["yyyy-QQ"]}]}, "cannot be read"),
        ({}, "exactly one of match and from_time_received"),
        ({"from_time_received": True, "output_format": "QQ"}, "cannot be written"),
        ({"from_time_received": True, "source_timezone": "Europe/Nowhere"}, "is unknown"),
        ({"from_time_received": True, "locale": "de_DE"}, "is not supported"),
    ],
)
def test_settings_that_cannot_work_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingsErrors, match=message):
        plugins({"date": options})


@pytest.mark.parametrize(
    ("time", "after"),
    [
        ("2026-03-31T13:17:37.123456789Z", "2026-03-31T13:17:37.123456789Z"),
        ("2026-03-31T13:17:37.123456000Z", "2026-03-31T13:17:37.123456Z"),
        ("2026-03-31T13:17:37.120000000Z", "2026-03-31T13:17:37.120Z"),
    ],
)
def test_the_default_format_loses_no_digit(time: str, after: str) -> None:
    assert ran(date("yyyy-MM-dd'T'HH:mm:ss.SSSSSSSSSX"), {"t": time})[0]["@timestamp"] == after


def test_seconds_may_have_a_fraction() -> None:
    processor = date("epoch_second", output_format="epoch_nano")
    assert ran(processor, {"t": 1646861401.5241024})[0]["@timestamp"] == 1646861401524102400


@pytest.mark.parametrize(("time", "is_read"), [("Fri 10:00", True), ("Thu 10:00", False)])
def test_a_weekday_must_be_that_of_the_day_of_the_batch(time: str, is_read: bool) -> None:
    assert ("@timestamp" in ran(date("EEE HH:mm"), {"t": time})[0]) == is_read


def test_hours_of_half_a_day_without_the_half_are_refused_with_their_place() -> None:
    with pytest.raises(SettingsErrors, match="which half"):
        plugins(date("yyyy-MM-dd hh:mm:ss"))

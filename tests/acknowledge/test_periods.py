"""Which hours, days, months and years are complete."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from calve.acknowledge.periods import MOST_PERIODS, completed, first_period, named, period_at, unit_of
from calve.errors import SettingsError
from calve.table.loaded import Table

UNITS = ("hour", "day", "month", "year")
TIMES = st.datetimes(datetime(1900, 1, 1), datetime(2200, 1, 1), timezones=st.just(UTC))
SCHEMA = '{"type":"struct","schema-id":0,"fields":[{"id":1,"name":"at","type":"timestamptz","required":false}]}'


def micros(time: datetime) -> int:
    return (time - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


def table(*transforms: str) -> Table:
    fields = ",".join(
        f'{{"source-id":1,"field-id":{1000 + number},"name":"p{number}","transform":"{transform}"}}'
        for number, transform in enumerate(transforms)
    )
    return Table("a.b", "u", "l", SCHEMA, f'{{"spec-id":0,"fields":[{fields}]}}')


@given(TIMES, st.sampled_from(UNITS))
def test_a_period_has_the_time_that_it_is_at_and_its_name_names_it(time: datetime, unit) -> None:
    period = period_at(unit, time)
    assert period.start <= time < period.end
    assert period_at(unit, period.end).start == period.end
    assert named(period.name) == period


@given(TIMES, TIMES, st.sampled_from(UNITS))
def test_completed_periods_end_between_both_times_without_a_gap(after: datetime, through: datetime, unit) -> None:
    periods = completed(unit, after, micros(through))
    assert all(after < period.end <= through for period in periods)
    assert all(one.end == next_one.start for one, next_one in itertools.pairwise(periods))
    ends = [period_at(unit, after).end] if period_at(unit, after).end <= through else []
    assert bool(periods) is bool(ends)
    assert len(periods) <= MOST_PERIODS


def test_without_a_time_before_only_the_last_period_counts() -> None:
    assert [period.name for period in completed("day", None, micros(datetime(2026, 3, 1, 5, tzinfo=UTC)))] == [
        "2026-02-28"
    ]


def test_a_table_has_the_unit_of_its_finest_partition_by_the_column() -> None:
    assert unit_of(table("month", "hour"), "at") == "hour"
    assert unit_of(table("bucket[4]"), "at") == unit_of(table("hour"), "other") == unit_of(table(), None) == "day"
    assert first_period(table("month", "day"), "at", [[600, "2020-01-31"], [600, None]]) == named("2020-01-31").start
    assert first_period(table("month"), "at", [[671], [600]]) == named("2020-01").start
    assert first_period(table("year"), "at", [[56]]) == named("2026").start
    assert first_period(table(), "at", [[]]) is None


def test_what_is_no_period_is_refused_with_an_example() -> None:
    with pytest.raises(SettingsError, match="yesterday"):
        named("yesterday")

"""The latest event time of rows, by where they came from, against plain Python."""

from __future__ import annotations

import datetime

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.schema import Schema
from pyiceberg.types import DateType, ListType, LongType, NestedField, StructType, TimestamptzType

from calve.convert.event_time import EventTimes, fault, path

DAY = 86_400_000_000
AT = NestedField(1, "at", TimestamptzType())
SCHEMA = Schema(
    AT,
    NestedField(2, "place", StructType(NestedField(3, "since", DateType()), NestedField(4, "no", LongType()))),
    NestedField(5, "a.b", DateType()),
    NestedField(6, "list", ListType(7, TimestamptzType())),
)


@pytest.mark.parametrize(
    ("column", "found"), [("at", ("at",)), ("place.since", ("place", "since")), ("a.b", ("a.b",)), ("place.no", None)]
)
def test_a_column_is_found_by_its_path(column: str, found: tuple[str, ...] | None) -> None:
    assert path(SCHEMA, column) == found


@pytest.mark.parametrize("column", ["x", "place", "place.x", "place.no", "list", "list.element", "at.x", ""])
def test_what_is_no_time_is_said(column: str) -> None:
    assert fault(SCHEMA, column)
    assert path(SCHEMA, column) is None


row = st.tuples(st.sampled_from("ab"), st.integers(0, 2), st.none() | st.integers(-(10**15), 10**15))


@given(st.lists(st.lists(st.tuples(row, st.booleans()), max_size=20), max_size=4))
def test_each_partition_has_the_latest_time_of_its_good_rows(batches) -> None:
    times, expected = EventTimes(("at",), ("topic", "partition")), {}
    for batch in batches:
        events = pa.table(
            {
                "topic": pa.array([each[0] for each, _ in batch], pa.string()),
                "partition": pa.array([each[1] for each, _ in batch], pa.int32()),
            }
        )
        good = [number for number, (_, is_good) in enumerate(batch) if is_good]
        at = pa.array([batch[number][0][2] for number in good], pa.timestamp("us", "UTC"))
        deletes = [number for number in range(len(batch)) if number not in good]  # they have no row, and come last
        times.add(pa.table({"at": at}), events, pa.array(good + deletes, pa.int64()))
        for topic, partition, time in (batch[number][0] for number in good):
            if time is not None:
                name = f"{topic}/{partition}"
                expected[name] = max(time, expected.get(name, time))
    assert times.latest == expected


@pytest.mark.parametrize(
    ("values", "micros"),
    [
        (pa.array([1_999, -1, None], pa.timestamp("ns")), 1),
        (pa.array([-1], pa.timestamp("ns")), -1),
        (pa.array([7, 5], pa.timestamp("us")), 7),
        (pa.array([datetime.date(1970, 1, 3), datetime.date(1969, 1, 1)]), 2 * DAY),
        (pa.array([2**62], pa.timestamp("us")), 2**62),
    ],
)
def test_every_kind_of_time_becomes_microseconds(values: pa.Array, micros: int) -> None:
    times = EventTimes(("at",))
    times.add(pa.table({"at": values}), pa.table({"event": [b""] * len(values)}), pa.array(range(len(values))))
    assert times.latest == {"": micros}


def test_a_time_in_a_struct_that_is_null_says_nothing() -> None:
    values = pa.array([{"since": datetime.date(1970, 1, 2)}, None], pa.struct({"since": pa.date32()}))
    times = EventTimes(("place", "since"))
    times.add(pa.table({"place": values.slice(1)}), pa.table({"event": [b""]}), pa.array([0]))
    assert times.latest == {}
    times.add(pa.table({"place": values}), pa.table({"event": [b"", b""]}), pa.array([0, 1]))
    assert times.latest == {"": DAY}

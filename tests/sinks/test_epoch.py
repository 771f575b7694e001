import struct

from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField, TimestampNanoType, TimestamptzType

from calve.record.content_file import Bounds
from calve.sinks.iceberg.epoch import read_as_milliseconds
from kit.content_files import data_file

SCHEMA = Schema(
    NestedField(1, "id", LongType()), NestedField(2, "at", TimestamptzType()), NestedField(3, "ns", TimestampNanoType())
)
SECONDS = 1_773_712_800
"""In March 2026."""


def file(lower, upper, field_id=2):
    bounds = [Bounds([1, field_id], ["00" * 8, struct.pack("<q", each).hex().upper()]) for each in (lower, upper)]
    return data_file("a", lower_bounds=bounds[0], upper_bounds=bounds[1])


def test_epoch_seconds_that_were_read_as_milliseconds_are_noticed():
    files = [file(SECONDS * 1000, (SECONDS + 9) * 1000)]
    assert list(read_as_milliseconds(SCHEMA, files)) == ["at"]
    files = [file(SECONDS * 10**6, (SECONDS + 9) * 10**6, field_id=3)]
    assert list(read_as_milliseconds(SCHEMA, files)) == ["ns"]


def test_times_of_today_and_a_column_with_any_other_time_are_not():
    micros = SECONDS * 10**6
    files = [file(micros, micros), file(SECONDS * 1000, micros), file(-5, 9), data_file("a")]
    assert not list(read_as_milliseconds(SCHEMA, files))

"""The figures of typed rows are those of the files that are written of them, and those of SQL."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from typing import Any

import duckdb
import msgspec
import pyarrow as pa
import pytest
from msgspec import structs
from pyiceberg import types as iceberg
from pyiceberg.schema import Schema

from calve.record.content_file import Bounds, Counts
from calve.record.figures import column_fault, figures_of, figures_of_rows
from calve.table.gate import CommitGate, Figures
from kit.content_files import data_file

SCHEMA = Schema(
    iceberg.NestedField(1, "email", iceberg.StringType()),
    iceberg.NestedField(
        2, "place", iceberg.StructType(iceberg.NestedField(3, "city", iceberg.StringType())), required=False
    ),
    iceberg.NestedField(4, "at", iceberg.TimestamptzType()),
    iceberg.NestedField(5, "day", iceberg.DateType()),
    iceberg.NestedField(6, "fine", iceberg.TimestampNanoType()),
    iceberg.NestedField(7, "tags", iceberg.ListType(8, iceberg.StringType())),
    iceberg.NestedField(9, "key", iceberg.UUIDType()),
)
ROWS = pa.table(
    {
        "email": ["a", None, None, "d"],
        "place": [{"city": "Rome"}, None, {"city": None}, {"city": "Oslo"}],
        "at": pa.array([datetime(2026, 1, day) for day in (2, 4, 1, 3)], pa.timestamp("us", "UTC")),
        "day": pa.array([date(2026, 1, 2), None, date(1969, 12, 31), None]),
        "fine": pa.array([1_767_225_600_000_000_999] * 4, pa.timestamp("ns")),
        "tags": [["x"]] * 4,
    }
)


@pytest.mark.parametrize("name", ["email", "place.city"])
def test_nulls_of_rows_are_those_of_sql_and_a_null_struct_has_null_fields(name: str) -> None:
    figures = figures_of_rows(CommitGate(max_null_share={name: 0.1}), SCHEMA, ROWS, 7)
    [[rows, nulls]] = duckdb.sql(f"select count(*), count(*) filter ({name} is null) from ROWS").fetchall()
    assert (figures.rows, figures.nulls, figures.at) == (rows, {name: nulls}, 7)


@pytest.mark.parametrize(
    ("name", "newest"),
    [
        ("at", datetime(2026, 1, 4)),
        ("day", datetime(2026, 1, 3)),  # the end of the day
        ("fine", datetime(2026, 1, 1)),
        ("absent", None),
    ],
)
def test_the_newest_time_of_rows_and_of_a_file_is_the_same(name: str, newest: datetime | None) -> None:
    gate = CommitGate(time_column=name, max_age=timedelta(hours=1))
    micros = None if newest is None else (newest - datetime(1970, 1, 1)) // timedelta(microseconds=1)
    of_rows = figures_of_rows(gate, SCHEMA, ROWS, 0)
    assert (of_rows.newest, of_rows.absent) == (micros, ("absent",) if newest is None else ())
    if newest is not None:
        field_id = SCHEMA.find_field(name).field_id
        value = max(stored(ROWS[name]))
        text = value.to_bytes(4 if name == "day" else 8, "little", signed=True).hex().upper()
        files = [data_file("a", upper_bounds=Bounds([field_id], [text])), data_file("b")]
        assert figures_of(gate, SCHEMA, files, 0, None).newest == micros


def stored(column: Any) -> list[int]:
    return [value for value in column.cast(f"int{column.type.bit_width}").to_pylist() if value is not None]


def test_files_are_counted_together_and_a_file_without_the_column_has_only_nulls() -> None:
    gate = CommitGate(max_null_share={"email": 0.1, "absent": 0.1})
    counted = data_file("a", rows=10, null_value_counts=Counts([1, 3], [2, 9]))
    deletes = structs.replace(data_file("c", rows=50), content="EQUALITY_DELETES")
    figures = figures_of(gate, SCHEMA, [counted, data_file("b", rows=5), deletes], 0, 77)
    assert (figures.rows, figures.nulls, figures.main, figures.absent) == (15, {"email": 7}, 77, ("absent",))


def test_a_column_that_a_file_has_and_does_not_count_has_no_figure() -> None:
    gate = CommitGate(max_null_share={"email": 0.1, "tags": 0.1, "key": 0.1})
    uncounted = data_file("a", rows=10, column_sizes=Counts([1], [80]))
    figures = figures_of(gate, SCHEMA, [uncounted, data_file("b", rows=5)], 0, None)
    assert (figures.nulls, figures.absent) == ({}, ())


@pytest.mark.parametrize("days", [2**31 - 1, -(2**31)])
def test_a_date_that_is_too_far_away_can_be_written_as_json(days: int) -> None:
    text = days.to_bytes(4, "little", signed=True).hex()
    gate = CommitGate(time_column="day", max_age=timedelta(hours=1))
    figures = figures_of(gate, SCHEMA, [data_file("a", upper_bounds=Bounds([5], [text]))], 0, None)
    assert msgspec.json.decode(msgspec.json.encode(figures), type=Figures) == figures


def test_columns_that_files_do_not_count_by_row_are_named() -> None:
    assert column_fault(SCHEMA, "email") == column_fault(SCHEMA, "place.city") == column_fault(SCHEMA, "absent") == ""
    assert column_fault(SCHEMA, "email", is_time=True) == "email is string, and not a date or a timestamp"
    assert "inside a list or a map" in column_fault(SCHEMA, "tags.element")
    assert "name a field inside a struct" in column_fault(SCHEMA, "place")
    assert column_fault(SCHEMA, "key") == "key is uuid, whose NULLs files do not count"

"""What `calve.spark.write` refuses before Spark computes anything; without Spark."""

from __future__ import annotations

import pytest
from pyspark.sql import types

from calve.errors import SettingsError, SourceError
from calve.operate.frames import check_key, frame_pipeline
from calve.sources.spark.frames import check_columns


@pytest.mark.parametrize(
    ("identifiers", "case_insensitive", "is_there"),
    [
        (["id"], False, True),
        (["id", "place.city", "a.b"], False, True),
        (["ID"], False, False),
        (["ID", "PLACE.city"], True, True),
        (["number"], True, False),
        (["city"], False, False),
    ],
)
def test_a_dataframe_must_have_the_columns_that_identify_a_row(
    identifiers: list[str], case_insensitive: bool, is_there: bool
) -> None:
    columns = ["id", "place", "a.b"]
    if is_there:
        check_key(columns, identifiers, case_insensitive)
        return
    with pytest.raises(SettingsError, match=f"has no column {identifiers[0]}") as refused:
        check_key(columns, identifiers, case_insensitive)
    assert (
        refused.value.hint
        == {
            "ID": "It has id; or set case_insensitive=True",
            "number": "It has: id, place, a.b",
            "city": "It has: id, place, a.b",
        }[identifiers[0]]
    )


def test_a_value_that_does_not_fit_is_a_dead_letter_unless_null_is_asked_for() -> None:
    for options, mismatch in (({}, "dlq"), ({"on_type_mismatch": "null"}, "null")):
        [pipeline] = frame_pipeline({}, "shop.orders", options).values()
        assert pipeline["sink"][0]["iceberg"]["on_type_mismatch"] == mismatch


@pytest.mark.parametrize(
    "kind",
    [
        types.MapType(types.NullType(), types.StringType()),
        types.ArrayType(types.MapType(types.NullType(), types.NullType())),
        types.StructType(),
        types.DayTimeIntervalType(),
    ],
)
def test_a_column_that_does_not_reach_python_unchanged_is_refused_by_name(kind: types.DataType) -> None:
    with pytest.raises(SourceError, match="The column v of the DataFrame has the type"):
        check_columns(types.StructType([types.StructField("v", kind)]))

"""What `calve.spark.write` refuses before Spark computes anything; without Spark."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from pyspark.sql import types

import calve.spark
from calve.errors import CommitError, EngineError, SettingsError, SourceError
from calve.operate.frames import check_frame, check_key, frame_pipeline
from calve.sources.spark.frames import check_columns
from calve.sources.spark.source import FrameBatch


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


def test_a_second_dataframe_for_one_batch_of_a_stream_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    properties = {"sql.streaming.queryId": "q", "spark.jobGroup.id": "run 1"}
    session = SimpleNamespace(sparkContext=SimpleNamespace(getLocalProperty=properties.get))
    frame = SimpleNamespace(sparkSession=session, isStreaming=False)
    written: list[int] = []

    def write(settings: object, batch: FrameBatch, state: str) -> None:
        if batch.position["epoch"] == 7:
            raise CommitError("the catalog is down", step="commit", target="shop.all")
        written.append(batch.position["epoch"])

    engine = SimpleNamespace(context=session.sparkContext)
    monkeypatch.setattr("calve.spark.FrameRunner", lambda spark: SimpleNamespace(engine=engine, run=write))

    def sink() -> Callable[..., None]:
        return calve.spark.sink({"orders": {"source": {"spark": {}}, "sink": [{"stdout": {}}]}}, state=tmp_path)

    sink()(frame, 3)
    with pytest.raises(SettingsError, match="called twice for batch 3: the second DataFrame would not be written"):
        sink()(frame, 3)
    sink()(frame, 4)
    for _ in range(2):  # what has failed may be tried again
        with pytest.raises(CommitError, match="is down"):
            sink()(frame, 7)
    properties["spark.jobGroup.id"] = "run 2"  # Spark repeats the batch after a restart of the stream
    sink()(frame, 4)
    assert written == [3, 4, 4]


def test_a_dataframe_whose_jvm_has_ended_is_an_error_that_says_so() -> None:
    class Lost:
        @property
        def sparkSession(self) -> object:  # noqa: N802 - Spark's name
            raise ConnectionRefusedError(111, "Connection refused")

    with pytest.raises(EngineError, match="The JVM of Spark does not answer"):
        check_frame(Lost())

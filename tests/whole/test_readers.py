"""Tables of the embedded catalog in the hands of others: PyIceberg without a JVM, and Spark without Calve."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator

import pytest
from pyiceberg.expressions import BooleanExpression, EqualTo, GreaterThanOrEqual, IsNull, LessThan
from pyiceberg.table import Table
from pyspark.sql import SparkSession

from kit import readers
from kit.running import Calve
from whole import partitioned

from .partitioned import KINDS, Filter

pytestmark = pytest.mark.spark

TEXTS = [[number, partitioned.value("text", number)] for number in range(partitioned.row_count())]
WORDS = {"=": EqualTo, "<": LessThan, ">=": GreaterThanOrEqual}


@pytest.fixture(scope="module")
def parts(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Calve:
    """A table for every transform of every type, all filled from one file."""
    sinks = partitioned.sinks()
    calve = Calve(
        tmp_path_factory.mktemp("parts"),
        json.dumps({"parts": {"source": {"file": {"path": "events.ndjson"}}, "sink": sinks}}),
        spark,
    )
    (calve.folder / "events.ndjson").write_text(partitioned.events())
    assert calve.once() == 0, calve.said()[-2000:]
    assert calve.dead_letters("parts") == []
    return calve


def test_pyiceberg_reads_every_row_without_calve_or_a_jvm(parts: Calve) -> None:
    alone = readers.with_pyiceberg(parts.folder / "lakehouse", "parts.text_truncate")
    assert sorted([row["id"], row["text"]] for row in alone) == TEXTS


def test_pyiceberg_finds_every_row_that_a_filter_names(parts: Calve) -> None:
    catalog = parts.catalog()
    for name, column, transform in partitioned.tables():
        table = catalog.load_table(name)
        assert len(table.spec().fields) == 1
        assert _rows(table) == {number: partitioned.value(column, number) for number in range(partitioned.row_count())}
        for each in _sound_in_pyiceberg(column, transform):
            assert _ids(table, each) == each.ids, (name, each)


def test_spark_without_calve_reads_every_row_and_finds_those_that_a_filter_names(
    parts: Calve, plain_spark: readers.PlainSpark
) -> None:
    asked: list[tuple[str, Filter]] = []
    for turn, (name, column, _) in enumerate(partitioned.tables()):
        if KINDS[column].in_spark:
            asked += [(name, each) for each in partitioned.few_filters(column, turn) if _is_validated_in_spark(each)]
    queries = [f"SELECT id FROM lakehouse.{name} WHERE {each.sql}" for name, each in asked]
    whole = "SELECT id, text FROM lakehouse.parts.text_truncate ORDER BY id"
    texts, *answers = plain_spark(parts.folder / "lakehouse", [whole, *queries])
    assert texts == TEXTS
    for (name, each), rows in zip(asked, answers, strict=True):
        found = [number for [number] in rows if not _is_nan(partitioned.value(each.column, number))]
        assert sorted(found) == each.ids, (name, each)


def _rows(table: Table) -> dict[int, object]:
    """The rows by id, with NaN as the object that the events have."""
    return {
        row["id"]: math.nan if _is_nan(found := row[table.schema().fields[1].name]) else found
        for row in table.scan().to_arrow().to_pylist()
    }


def _ids(table: Table, each: Filter) -> list[int]:
    asked: BooleanExpression = IsNull(each.column) if each.value is None else WORDS[each.word](each.column, each.value)
    return sorted(table.scan(row_filter=asked, selected_fields=("id", each.column)).to_arrow()["id"].to_pylist())


def _sound_in_pyiceberg(column: str, transform: str) -> Iterator[Filter]:
    """PyIceberg 0.12 does not compare UUIDs, takes infinity for no float, and reads a double partition as a float."""
    for each in partitioned.filters(column):
        is_number = isinstance(each.value, float)
        is_wide = is_number and transform == "identity" and KINDS[column].type == "double"
        if KINDS[column].type != "uuid" and not is_wide and not (is_number and math.isinf(each.value)):
            yield each


def _is_validated_in_spark(each: Filter) -> bool:
    """Iceberg 1.12 orders UUIDs as signed numbers."""
    return each.word in ("", "=") or KINDS[each.column].type != "uuid"


def _is_nan(found: object) -> bool:
    """Say whether it is NaN, the largest number in Spark and out of order elsewhere."""
    return isinstance(found, float) and math.isnan(found)

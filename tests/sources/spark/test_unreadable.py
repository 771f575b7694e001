"""Spark loses no value of a file silently: what it cannot read is a text, and what it would leave out is asked for."""

from __future__ import annotations

import csv
import datetime
import json
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from calve.engine import session
from calve.errors import SettingsError, SourceError
from calve.pipeline.plugins import PLUGINS
from calve.settings import parse_text
from calve.sources.source import Split
from calve.sources.spark.formats import java_frame
from calve.sources.spark.reader import UNREADABLE, FrameReader
from calve.sources.spark.settings import SparkSettings
from calve.sources.spark.unreadable import keeps_unreadable, strict_options

YAML = "orders:\n  source: {{spark: {}}}\n  sink: [{{iceberg: {{table_identifier: a.b}}}}]\n"
VALUES = (
    1,
    -7,
    9223372036854775807,
    9223372036854775808,
    1.5,
    0.125,
    1e300,
    "7",
    "",
    "é 😀",
    True,
    None,
    [],
    {},
    [1, "x"],
)
VALUES += (
    {"k": 1},
    {"k": "x"},
    {"k": {"deep": 1}},
    [[1]],
    "2026-02-30",
    "2026-02-28",
    "20260228",
    "NaN",
    "\\N",
    "null",
)
KINDS = {
    "n": "long",
    "i": "int",
    "f": "double",
    "t": "boolean",
    "a": "array<long>",
    "o": "struct<k: long>",
    "s": "string",
    "d": "date",
}
CSV_VALUES = ("1", "-7", "9223372036854775808", "1.5", "", "a,b", 'say "x"', "é", "2026-02-30", " 1", "x;y", "true")


@pytest.mark.parametrize(
    ("settings", "chosen"),
    [
        ({"format": "json"}, {"maxFileAge", "enableDateTimeParsingFallback"}),
        ({"format": "json", "read": "batch"}, {"enableDateTimeParsingFallback"}),
        ({"format": "CSV", "options": {"Header": "True"}, "read": "batch"}, {"columnPruning", "enforceSchema"}),
        ({"format": "csv", "options": {"header": "true", "ENFORCESCHEMA": "true"}, "read": "batch"}, {"columnPruning"}),
        ({"format": "parquet", "read": "batch"}, {"mergeSchema"}),
        ({"format": "org.apache.spark.sql.execution.datasources.orc.OrcFileFormat", "read": "batch"}, {"mergeSchema"}),
    ],
)
def test_what_spark_leaves_out_by_default_is_asked_for(settings: dict[str, Any], chosen: set[str]) -> None:
    assert set(strict_options(SparkSettings(**settings))) == {"ignoreCorruptFiles", "ignoreMissingFiles", *chosen}


def test_options_of_the_user_and_other_formats_are_theirs() -> None:
    options = {"IgnoreCorruptFiles": "true", "ignoreMissingFiles": "true", "maxfileage": "1d"}
    assert strict_options(SparkSettings(format="xml", options=options)) == {}
    assert strict_options(SparkSettings(format="com.example.json.Kinesis")) == {}
    assert strict_options(SparkSettings(format="Kafka")) == {"startingOffsets": "earliest"}, "Spark begins at the end"
    assert strict_options(SparkSettings(format="kafka", options={"StartingTimestamp": "1"})) == {}
    assert strict_options(SparkSettings(format="kafka", read="batch")) == {}
    broken = {"columnNameOfCorruptRecord": "broken"}
    for settings in (
        SparkSettings(format="org.apache.spark.sql.json"),
        SparkSettings(format="org.apache.spark.sql.json.DefaultSource"),
        SparkSettings(format="json", options={"mode": "FAIL_FAST"}),
        SparkSettings(format="json", schema="id long, is_corrupt_record boolean"),
        SparkSettings(format="json", options=broken, schema="id long, broken_at date, _corrupt_record string"),
        SparkSettings(format="csv", options=broken),
    ):
        assert keeps_unreadable(settings), settings
    for settings in (
        SparkSettings(format="json", options={"Mode": "FailFast"}),
        SparkSettings(format="json", options=broken),
        SparkSettings(format="json", options=broken, schema="id long, `broken` string"),
        SparkSettings(format="json", schema="id long, _corrupt_record string"),
        SparkSettings(format="parquet"),
    ):
        assert not keeps_unreadable(settings)


@pytest.mark.parametrize(
    "option",
    [
        "mode: dropMalformed",
        "mode: PERMISSIVE",
        "ignoreCorruptFiles: true",
        "ignoreMissingFiles: 'true'",
        "failOnDataLoss: false",
    ],
)
def test_an_option_that_loses_rows_is_warned_of(option: str) -> None:
    parsed = parse_text(YAML.format(f"{{format: json, schema: id long, options: {{path: in, {option}}}}}"), PLUGINS)
    assert [warning.path for warning in parsed.warnings] == ["orders.source.spark.options"]
    assert "lost without a word" in parsed.warnings[0].message


def test_a_function_that_makes_null_of_what_it_cannot_parse_needs_a_choice() -> None:
    for call in ("from_json(value, 'id long')", "FROM_CSV (value, 'id long')"):
        with pytest.raises(SettingsError, match="makes NULL of what it cannot parse") as error:
            parse_text(YAML.format(f'{{format: kafka, select: ["{call}"]}}'), PLUGINS)
        assert "parse_json" in str(error.value)
    for call in ("from_json(v, 'id long', map('mode', 'FAILFAST'))", "from_json(v, 'id long, _corrupt_record string')"):
        assert not parse_text(YAML.format(f'{{format: kafka, select: ["{call}"]}}'), PLUGINS).warnings


@pytest.mark.parametrize("texts", [[None, None, None], [None, "bad", None], ["a", "b", "c"]])
def test_what_spark_cannot_read_becomes_rejects_and_no_column(tmp_path: Path, texts: list[str | None]) -> None:
    rows = pa.record_batch({"n": [1, 2, 3], UNREADABLE: pa.array(texts, pa.string())})
    (tmp_path / "frame").mkdir()
    with pa.ipc.new_file(tmp_path / "frame" / "part", rows.schema) as file:
        file.write_batch(rows)
    split = Split({"frame": "frame", "part": "part"}, 1)
    batches = list(FrameReader(str(tmp_path), format="json").read(split))
    typed = [row for batch in batches if "_typed" in batch.schema.names for row in batch["_typed"].to_pylist()]
    rejects = [row for batch in batches if "event" in batch.schema.names for row in batch.to_pylist()]
    assert typed == [{"n": n} for n, text in enumerate(texts, 1) if text is None]
    assert [row["event"].decode() for row in rejects] == [text for text in texts if text]
    assert all("Spark cannot read it as json" in row["malformed"] for row in rejects)
    (theirs,) = FrameReader(str(tmp_path)).read(split)
    assert UNREADABLE in theirs["_typed"].to_pylist()[0], "a column of the rows of a user's job"


def frame(read: str = "batch", **settings: Any) -> Any:
    return java_frame(session.start(), SparkSettings(read=read, **settings))


def rows_of(**settings: Any) -> list[dict[str, Any]]:
    return [row.asDict(True) for row in session.start().data_frame(frame(**settings)).collect()]


def lines() -> Iterator[str]:
    for name in KINDS:
        for value in VALUES:
            yield json.dumps({name: value})
            yield json.dumps({"s": "beside", name: value})
    yield from ("not json", '{"n": 1', '"text"', "5", "null", '{"n": 0012}')


def is_same(value: Any, read: Any) -> bool:
    """Return whether a value that Spark has read is that of Python's parser; a text may have that of any value."""
    if isinstance(read, str) and not isinstance(value, str):
        return json.loads(read) == value
    if isinstance(value, dict) and isinstance(read, dict):
        return all(is_same(value.get(key), read[key]) for key in read)
    if isinstance(read, float) and not isinstance(value, bool | None):
        return str(read) == str(float(value))
    if isinstance(read, datetime.date):
        return value == read.isoformat()
    return type(value) is type(read) and value == read


@pytest.mark.spark
def test_each_value_of_a_file_is_as_pythons_parsers_read_it_or_its_text_is_kept(
    spark: SparkSession, tmp_path: Path
) -> None:
    texts = list(lines())
    (tmp_path / "a.json").write_text("\n".join(texts))
    schema = ", ".join(f"{name} {kind}" for name, kind in KINDS.items())
    rows = rows_of(format="json", schema=schema, options={"path": str(tmp_path / "a.json")})
    assert len(rows) == len(texts)
    assert [row[UNREADABLE] for row in rows].count(None) > len(KINDS) * 3
    for text, row in zip(texts, rows, strict=True):
        if (kept := row.pop(UNREADABLE)) is None:
            event = json.loads(text)
            assert all(is_same(event.get(name), value) for name, value in row.items()), (text, row)
        else:
            assert kept == text


@pytest.mark.spark
def test_each_record_of_csv_is_as_pythons_parser_reads_it_or_its_text_is_kept(
    spark: SparkSession, tmp_path: Path
) -> None:
    records = [["1", "2.5", text] for text in CSV_VALUES] + [[text, text, "x"] for text in CSV_VALUES]
    records += [["1"], ["1", "2"], ["1", "2", "x", "more"], ["1", "2", "x", ""]]
    with (tmp_path / "a.csv").open("w") as file:
        csv.writer(file).writerows([["n", "d", "s"], *records])
    options = {"path": str(tmp_path / "a.csv"), "header": "true", "escape": '"'}
    schema = "n long, d decimal(12,3), s string"
    for select in ([], ["s", "n"]):
        rows = rows_of(format="csv", schema=schema, options=options, select=select)
        assert len(rows) == len(records)
        assert [row[UNREADABLE] for row in rows].count(None) > len(CSV_VALUES)
        for record, row in zip(records, rows, strict=True):
            if (kept := row.pop(UNREADABLE)) is None:
                assert len(record) == 3
                assert row["n"] == (int(record[0]) if record[0] else None)
                assert row["s"] == (record[2] or None)
                assert select or row["d"] == (Decimal(record[1]) if record[1] else None)
            else:
                assert next(csv.reader([kept])) == record
    (tmp_path / "b.csv").write_text("s,n,d\n1,2,3\n")
    with pytest.raises(Exception, match="CSV header does not conform"):
        rows_of(format="csv", schema=schema, options=options | {"path": str(tmp_path / "b.csv")})


@pytest.mark.spark
def test_inferred_columns_xml_and_select_keep_what_spark_cannot_read(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"n": 1}\nbroken\n{"n": 2, "s": "x"}')
    options = {"path": str(tmp_path / "a.json")}
    kept = {"n": None, "s": None, UNREADABLE: "broken"}
    assert rows_of(format="json", options=options)[1] == kept
    assert rows_of(format="json", options=options, select=["*"])[1] == kept
    assert rows_of(format="json", options=options, select=["n + 1 m"])[1:] == [
        {"m": None, UNREADABLE: "broken"},
        {"m": 3, UNREADABLE: None},
    ]
    assert rows_of(format="json", options=options, select=["n", "_metadata.file_name f"])[0]["f"] == "a.json"
    for select in (["*", "struct(*) s"], ["n", "to_json(struct(*)) j"], ["struct(*) q", "q.n m"]):
        with pytest.raises(SourceError, match="into another column"):
            frame(format="json", options=options, select=select)
    for select in (["explode(array(n, n)) m"], ["count(*) m"], ["row_number() over (order by n) m"]):
        with pytest.raises(SourceError, match="does not make exactly one row of each") as error:
            frame(format="json", options=options, select=select)
        assert "FAILFAST" in error.value.hint
        frame(format="json", options=options | {"mode": "FAILFAST"}, schema="n long", select=select)
    bad = "<row><n>x</n><s>b</s></row>"
    (tmp_path / "a.xml").write_text(f"<rows><row><n>1</n><s>a</s></row>{bad}<row><n>3</n></row></rows>")
    rows = rows_of(format="xml", schema="n long, s string", options={"path": str(tmp_path / "a.xml"), "rowTag": "row"})
    assert [bad in (row[UNREADABLE] or "") for row in rows] == [False, True, False]
    for number, columns in enumerate(("1 n", "2 n, 'x' s")):
        spark.sql(f"select {columns}").write.parquet(str(tmp_path / "parts" / f"p={number}"))
    (tmp_path / "parts" / "p=1").rename(tmp_path / "parts" / "p=2")
    assert set(rows_of(format="parquet", options={"path": str(tmp_path / "parts")})[0]) == {"n", "s", "p"}

"""Avro and ORC tables: the rows of staged Parquet files, in files of Iceberg's own writers, and nothing else."""

from __future__ import annotations

import datetime as dt
import decimal
import uuid
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from py4j.java_collections import JavaList, JavaMap
from pyspark.sql import SparkSession

from calve.catalog.catalog import Catalog, embedded
from calve.commit.fence import append
from calve.commit.mark import CommitTarget, Mark
from calve.engine import session
from calve.errors import UnprocessableError
from calve.record.content_file import ContentFile
from calve.record.target import RowStream
from calve.table.arrow_schema import arrow_schema
from calve.table.definition import schema_from_columns
from calve.write.properties import written_as
from calve.write.writer import Writers
from commit.test_changes import die_at
from commit.test_positions import NAME, Laws

pytestmark = pytest.mark.spark
UTC = dt.UTC
VALUES: dict[str, list[Any]] = {
    "boolean": [True, False],
    "int": [-(2**31), 2**31 - 1],
    "long": [-(2**63), 2**63 - 1],
    "float": [1.5, float("nan")],
    "double": [-0.0, float("inf")],
    "date": [dt.date(1, 1, 1), dt.date(9999, 12, 31)],
    "time": [dt.time(23, 59, 59, 999999), dt.time(0)],
    "timestamp": [dt.datetime(1, 1, 1), dt.datetime(1969, 12, 31, 23, 59, 58, 999999)],
    "timestamptz": [dt.datetime(1582, 10, 10, 1, tzinfo=UTC), dt.datetime(1969, 12, 31, 23, 59, 59, 999, tzinfo=UTC)],
    "timestamp_ns": [123456789, -1500000001],
    "timestamptz_ns": [-(10**18) - 1, 10**18 + 1],
    "string": ["é\U0001f600", ""],
    "uuid": [uuid.UUID(int=2**128 - 1).bytes, uuid.UUID(int=1).bytes],
    "binary": [b"\x00\xff", b""],
    "fixed[3]": [b"\x00\xff\x01", b"abc"],
    "decimal(38,9)": [decimal.Decimal("-12345678901234567890123456789.123456789"), decimal.Decimal("0E-9")],
    "decimal(9,2)": [decimal.Decimal("-1234567.89"), decimal.Decimal("0.01")],
    "list<int>": [[1, None], []],
    "map<string, decimal(5,1)>": [[("a", decimal.Decimal("1.5")), ("", None)], []],
    "map<int, string>": [[(1, "x"), (2, None)], []],
    "struct<a: int, b: list<struct<c: timestamptz>>>": [
        {"a": 1, "b": [{"c": dt.datetime(1900, 1, 1, 0, 0, 0, 1, tzinfo=UTC)}]},
        {"a": None, "b": None},
    ],
}


@pytest.fixture(scope="module")
def catalog(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Catalog:
    return Catalog(session.start(), embedded(tmp_path_factory.mktemp("lake")))


def staged(catalog: Catalog, name: str, columns: dict[str, list[Any]], kinds: list[str]) -> list[ContentFile]:
    """Create a table and stage rows of it."""
    declared = [{"name": column, "type": kind, "required": False} for column, kind in zip(columns, kinds, strict=True)]
    schema = schema_from_columns(declared).model_dump_json()
    types = arrow_schema(catalog.create(name, schema, properties={"format-version": "3"}).schema)
    table = catalog.load(name)
    assert table is not None
    writers, stream = Writers(name, 10), RowStream(0, name)
    arrays = [array(values, types.field(column).type) for column, values in columns.items()]
    writers.write(stream, table, {}, pa.table(arrays, schema=types))
    return [msgspec.json.decode(file, type=ContentFile) for file in writers.close()[stream].files]


def array(values: list[Any], kind: pa.DataType) -> pa.Array:
    if isinstance(kind, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(kind, pa.array(values, kind.storage_type))
    return pa.array(values, kind)


def commit(catalog: Catalog, name: str, kind: str, files: list[ContentFile], **more: str) -> None:
    target = CommitTarget(name, write_as=written_as({"write.format.default": kind, **more}))
    append(catalog, target, Mark("p", "s", 1), {1: files})


def rows(catalog: Catalog, name: str) -> list[list[str]]:
    """Return the values as Iceberg's own reader shows them; Spark has no type for some."""
    records = catalog.spark.jvm.org.apache.iceberg.data.IcebergGenerics.read(catalog.load_java(name)).build().iterator()
    found = []
    while records.hasNext():
        record = records.next()
        found.append([text(record.get(at)) for at in range(record.size())])
    return found


def text(value: Any) -> str:
    if isinstance(value, JavaMap):
        return str(sorted((text(key), text(item)) for key, item in value.items()))
    if isinstance(value, JavaList):
        return str([text(item) for item in value])
    if "ByteBuffer" not in str(value):
        return str(value)
    start = value.arrayOffset() + value.position()  # readers use a buffer again
    return bytes(value.array())[start : start + value.remaining()].hex()


def test_each_type_has_the_same_values_as_in_parquet_and_staged_files_are_gone(catalog: Catalog) -> None:
    names, kinds = [f"c{number}" for number, _ in enumerate(VALUES)], list(VALUES)
    columns = dict(zip(names, [[*values, None] for values in VALUES.values()], strict=True))
    for kind in ("parquet", "avro", "orc"):
        commit(catalog, f"n.{kind}", kind, staged(catalog, f"n.{kind}", columns, kinds))
    expected = rows(catalog, "n.parquet")
    for kind in ("avro", "orc"):
        assert rows(catalog, f"n.{kind}") == expected
        folder = Path(catalog.load_java(f"n.{kind}").location().removeprefix("file:")) / "data"
        assert {path.suffix for path in folder.iterdir() if not path.name.startswith(".")} == {f".{kind}"}


def test_orc_has_counts_bounds_and_the_requested_codec(catalog: Catalog) -> None:
    files = staged(catalog, "n.measured", {"a": [5, None, -7]}, ["long"])
    commit(catalog, "n.measured", "orc", files, **{"write.orc.compression-codec": "zstd"})
    [task] = list(catalog.load_java("n.measured").newScan().includeColumnStats().planFiles().iterator())
    file = task.file()
    assert (file.recordCount(), dict(file.valueCounts()), dict(file.nullValueCounts())) == (3, {1: 3}, {1: 1})
    java = catalog.spark.jvm.org.apache.iceberg
    kind, bound = java.types.Types.LongType.get(), java.types.Conversions.fromByteBuffer
    assert (bound(kind, file.lowerBounds().get(1)), bound(kind, file.upperBounds().get(1))) == (-7, 5)
    assert pa.orc.ORCFile(str(file.location()).removeprefix("file:")).compression == "ZSTD"


def test_a_time_that_orc_would_change_is_refused_and_nothing_of_its_file_remains(catalog: Catalog) -> None:
    odd = dt.datetime(1969, 12, 31, 23, 59, 59, 500000)
    files = staged(catalog, "n.odd", {"a": [[odd]]}, ["list<timestamp>"])
    with pytest.raises(UnprocessableError, match="a: ORC files cannot hold the time 1969"):
        commit(catalog, "n.odd", "orc", files)
    folder = Path(files[0].file_path.removeprefix("file:")).parent
    assert [path.suffix for path in folder.iterdir() if not path.name.startswith(".")] == [".parquet"]
    commit(catalog, "n.odd", "avro", files)
    assert rows(catalog, "n.odd") == [["['1969-12-31T23:59:59.500']"]]


@pytest.mark.parametrize(
    ("kind", "mode", "version"),
    [
        ("avro", "merge-on-read", 3),
        ("orc", "merge-on-read", 2),
        ("orc", "copy-on-write", 2),
        ("avro", "equality-delete", 2),
    ],
)
def test_rows_are_changed_once_whatever_dies(
    spark: SparkSession, tmp_path: Path, kind: str, mode: Any, version: int
) -> None:
    laws = Laws(spark, tmp_path, 5, ["int"], version)
    laws.uses_equality_deletes = mode == "equality-delete"
    laws.by_sql(f"alter table {{t}} set tblproperties ('write.format.default' = '{kind}')")
    for death in (None, "commit.before-swap", "commit.after-swap"):
        files, applied = laws.batches()
        target = CommitTarget(NAME, write_mode=mode, write_as=written_as({"write.format.default": kind}))
        mark = Mark("p", "s", laws.batch)
        die_at(death, lambda target=target, mark=mark, files=files: append(laws.catalog, target, mark, files))
        append(laws.catalog, target, mark, files)
        laws.model = applied(laws.model)
        found = spark.sql(f"select key, n from lakehouse.{NAME}").collect()
        assert Counter(map(tuple, found)) == laws.model
    formats = spark.sql(f"select distinct file_format from lakehouse.{NAME}.data_files").collect()
    assert [row[0] for row in formats] == [kind.upper()]

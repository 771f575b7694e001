import datetime
import re
from decimal import Decimal

import pyarrow as pa
import pytest
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import parse_transform
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    StructType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    UUIDType,
)

from calve.table.loaded import Table
from calve.write.partition import Partitioner

UTC = datetime.UTC
NANOS = 1_772_600_767_000_008_009
AT = datetime.datetime(2026, 3, 4, 5, 6, 7, 8, UTC)
SCHEMA = Schema(
    NestedField(1, "id", LongType()),
    NestedField(2, "name", StringType()),
    NestedField(3, "at", TimestamptzType()),
    NestedField(4, "local", TimestampType()),
    NestedField(5, "day", DateType()),
    NestedField(6, "price", DecimalType(9, 2)),
    NestedField(7, "key", UUIDType()),
    NestedField(8, "raw", BinaryType()),
    NestedField(9, "ok", BooleanType()),
    NestedField(10, "n", IntegerType()),
    NestedField(11, "in", StructType(NestedField(12, "city", StringType()))),
    NestedField(13, "nanos", TimestampNanoType()),
    NestedField(14, "instant", TimestamptzNanoType()),
)
ROW = {
    "id": 34,
    "name": "a/b ü",
    "at": AT,
    "local": AT.replace(tzinfo=None),
    "day": datetime.date(1969, 12, 31),
    "price": Decimal("-1.50"),
    "key": bytes(range(16)),
    "raw": b"\x01\xff",
    "ok": True,
    "n": -7,
    "in": {"city": "Ulm"},
    "nanos": -1,
    "instant": NANOS,
}


def partitioner(*fields):
    spec = PartitionSpec(
        *(
            PartitionField(SCHEMA.find_field(column).field_id, 1000 + i, parse_transform(transform), f"p{i}")
            for i, (column, transform) in enumerate(fields)
        )
    )
    return Partitioner(Table("a.b", "u", "/t", SCHEMA.model_dump_json(), spec.model_dump_json()))


def hashed(micros):
    """Iceberg buckets nanoseconds by their microseconds, rounded down."""
    return parse_transform("bucket[16]").transform(TimestampType())(micros)


def rows(*values):
    return pa.Table.from_pylist(list(values), schema_to_pyarrow(SCHEMA))


@pytest.mark.parametrize(
    ("column", "transform", "value"),
    [
        ("id", "identity", 34),
        ("id", "bucket[16]", 3),
        ("id", "truncate[10]", 30),
        ("n", "truncate[10]", -10),
        ("name", "truncate[2]", "a/"),
        ("at", "year", 56),
        ("at", "month", 56 * 12 + 2),
        ("at", "day", "2026-03-04"),
        ("at", "hour", 492389),
        ("at", "identity", "2026-03-04T05:06:07.000008+00:00"),
        ("local", "day", "2026-03-04"),
        ("local", "identity", "2026-03-04T05:06:07.000008"),
        ("day", "identity", "1969-12-31"),
        ("day", "month", -1),
        ("day", "year", -1),
        ("price", "identity", "-1.50"),
        ("price", "truncate[100]", "-2.00"),
        ("key", "identity", "00010203-0405-0607-0809-0a0b0c0d0e0f"),
        ("raw", "identity", "01FF"),
        ("ok", "identity", True),
        ("in.city", "identity", "Ulm"),
        ("name", "void", None),
        ("nanos", "identity", "1969-12-31T23:59:59.999999999"),
        ("nanos", "year", -1),
        ("nanos", "month", -1),
        ("nanos", "day", "1969-12-31"),
        ("nanos", "hour", -1),
        ("nanos", "bucket[16]", hashed(-1)),
        ("instant", "identity", "2026-03-04T05:06:07.000008009+00:00"),
        ("instant", "year", 56),
        ("instant", "month", 56 * 12 + 2),
        ("instant", "day", "2026-03-04"),
        ("instant", "hour", 492389),
        ("instant", "bucket[16]", hashed(NANOS // 1000)),
        ("instant", "void", None),
    ],
)
def test_a_value_of_every_transform_is_the_json_that_iceberg_reads(column, transform, value):
    [(partition, part)] = partitioner((column, transform)).divide(rows(ROW))
    assert partition.values == (value,)
    assert len(part) == 1


def test_nulls_are_a_partition_of_their_own():
    found = list(partitioner(("name", "identity")).divide(rows(ROW, {**ROW, "name": None}, ROW)))
    assert {(partition.values, len(part)) for partition, part in found} == {(("a/b ü",), 2), ((None,), 1)}


def test_two_fields_on_one_column_divide_by_both():
    found = list(
        partitioner(("id", "bucket[4]"), ("id", "identity"), ("at", "day")).divide(rows(ROW, {**ROW, "id": 35}))
    )
    assert sorted(partition.values[1] for partition, _ in found) == [34, 35]


def test_rows_keep_their_order_within_a_partition():
    many = rows(*({**ROW, "id": number, "n": number % 3} for number in range(100)))
    for partition, part in partitioner(("n", "identity")).divide(many):
        ids = part.column("id").to_pylist()
        assert ids == sorted(ids)
        assert all(number % 3 == partition.values[0] for number in ids)


def test_a_path_is_escaped():
    [(partition, _)] = partitioner(("name", "identity")).divide(rows(ROW))
    assert partition.path.startswith("p0=a%2Fb")


@pytest.mark.parametrize("text", ["x" * 10_000, "é" * 100, "/" * 50, "%" * 60, "😀" * 40])
def test_a_path_of_a_long_value_is_short_enough_for_every_file_system_and_one_of_its_own(text):
    found = partitioner(("name", "identity")).divide(rows({**ROW, "name": text}, {**ROW, "name": text + "!"}))
    paths = [partition.path for partition, _ in found]
    assert len(set(paths)) == 2
    for path in paths:
        assert len(path) <= 128
        assert path.startswith("p0=")
        assert not re.search("%(?![0-9A-F]{2})", path)


def test_without_a_spec_all_rows_are_one_part():
    [(partition, part)] = partitioner().divide(rows(ROW, ROW))
    assert (partition.values, partition.path, len(part)) == ((), "", 2)


def test_nanoseconds_before_the_epoch_and_nulls_are_partitions_of_their_own():
    found = list(partitioner(("nanos", "hour")).divide(rows(ROW, {**ROW, "nanos": 0}, {**ROW, "nanos": None})))
    assert {partition.values for partition, _ in found} == {(-1,), (0,), (None,)}

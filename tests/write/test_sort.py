import dataclasses
import datetime
import json
import math

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform, parse_transform
from pyiceberg.types import (
    DoubleType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    StructType,
    TimestamptzType,
    UUIDType,
)

from calve.table.loaded import Table
from calve.write.writer import Writers

SCHEMA = Schema(
    NestedField(1, "id", LongType()),
    NestedField(2, "name", StringType()),
    NestedField(3, "x", DoubleType()),
    NestedField(4, "at", TimestamptzType()),
    NestedField(5, "in", StructType(NestedField(6, "n", IntegerType()))),
    NestedField(7, "key", UUIDType()),
)


def table(folder, *order, spec=None):
    fields = [
        {
            "source-id": SCHEMA.find_field(column).field_id,
            "transform": transform,
            "direction": direction,
            "null-order": f"nulls-{nulls}",
        }
        for column, transform, direction, nulls in order
    ]
    return Table(
        "a.b",
        "u",
        str(folder / "t"),
        SCHEMA.model_dump_json(),
        (spec or PartitionSpec()).model_dump_json(),
        sort_order_json=json.dumps({"order-id": 3, "fields": fields}),
    )


def arrow(values):
    return pa.Table.from_pylist(values, schema_to_pyarrow(SCHEMA))


def written(made, *blocks, properties=None):
    writers = Writers("w", 8)
    for block in blocks:
        writers.write("k", made, properties or {}, arrow(block))
    files = [msgspec.json.decode(file) for file in writers.close()["k"].files]
    return [(file["sort-order-id"], pq.read_table(file["file-path"], partitioning=None)) for file in files]


@pytest.mark.parametrize(
    ("direction", "nulls", "expected"),
    [
        ("asc", "first", [None, 1, 2, 3]),
        ("asc", "last", [1, 2, 3, None]),
        ("desc", "first", [None, 3, 2, 1]),
        ("desc", "last", [3, 2, 1, None]),
    ],
)
def test_rows_of_a_file_are_in_the_tables_order_whatever_the_blocks(tmp_path, direction, nulls, expected):
    made = table(tmp_path, ("id", "identity", direction, nulls))
    [(order, found)] = written(made, [{"id": 3}, {"id": None}], [{"id": 1}], [{"id": 2}])
    assert order == 3
    assert found["id"].to_pylist() == expected


def test_each_field_of_the_order_has_its_own_direction_and_place_of_nulls(tmp_path):
    made = table(tmp_path, ("name", "identity", "desc", "last"), ("in.n", "identity", "asc", "first"))
    [(_, found)] = written(made, [{"name": name, "in": {"n": n}} for name in ("a", None, "b") for n in (2, None, 1)])
    assert [(row["name"], row["in"]["n"]) for row in found.to_pylist()] == [
        (name, n) for name in ("b", "a", None) for n in (None, 1, 2)
    ]


@pytest.mark.parametrize(
    ("column", "transform", "values"),
    [
        ("id", "bucket[8]", list(range(100))),
        ("id", "truncate[10]", [25, 7, 21, 3, -4]),
        ("name", "truncate[1]", ["zb", "b2", "za", "b1"]),
        ("at", "day", [datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC) - datetime.timedelta(hours=h * 7) for h in range(9)]),
        ("at", "hour", [datetime.datetime(1969, 12, 31, 23, m, tzinfo=datetime.UTC) for m in (50, 10)] + [None]),
    ],
)  # fmt: skip
def test_rows_are_sorted_by_transformed_values_and_equal_ones_keep_their_order(tmp_path, column, transform, values):
    made = table(tmp_path, (column, transform, "asc", "first"))
    [(order, found)] = written(made, [{column: value, "x": float(n)} for n, value in enumerate(values)])
    apply = parse_transform(transform).transform(SCHEMA.find_type(column))
    plain = [int(v.timestamp() * 1e6) if isinstance(v, datetime.datetime) else v for v in values]
    expected = sorted(
        range(len(values)), key=lambda n: (plain[n] is not None, apply(plain[n]) if plain[n] is not None else 0)
    )
    assert found["x"].to_pylist() == [float(n) for n in expected]
    assert order == 3


@pytest.mark.parametrize("direction", ["asc", "desc"])
def test_numbers_are_in_icebergs_order_with_nan_above_all_and_minus_zero_below_zero(tmp_path, direction):
    rising = [-math.inf, -1.5, -0.0, 0.0, 1e-300, 2.0, math.inf, math.nan]
    made = table(tmp_path, ("x", "identity", direction, "last"))
    [(_, found)] = written(
        made, [{"x": x} for x in [2.0, math.nan, 0.0, None, -1.5, math.inf, -0.0, 1e-300, -math.inf]]
    )
    expected = rising if direction == "asc" else rising[::-1]
    assert [str(x) for x in found["x"].to_pylist()] == [*map(str, expected), "None"]


def test_a_file_of_several_sorted_groups_does_not_claim_to_be_sorted(tmp_path):
    made = table(tmp_path, ("id", "identity", "asc", "first"))
    blocks = [[{"id": id, "name": "x" * 50} for id in range(1000, 0, -1)] for _ in range(3)]
    [(order, found)] = written(made, *blocks, properties={"write.parquet.row-group-size-bytes": "1000"})
    assert order == 0
    assert found["id"].to_pylist() == list(range(1, 1001)) * 3


def test_every_partition_is_sorted(tmp_path):
    spec = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "name"))
    made = table(tmp_path, ("id", "identity", "desc", "last"), spec=spec)
    found = written(made, [{"id": n, "name": "ab"[n % 2]} for n in range(50)])
    assert sorted(order for order, _ in found) == [3, 3]
    for _, rows in found:
        assert rows["id"].to_pylist() == sorted(rows["id"].to_pylist(), reverse=True)


def test_an_order_by_uuid_sorts_but_is_not_claimed_because_engines_differ(tmp_path):
    made = table(tmp_path, ("key", "identity", "asc", "first"))
    [(order, found)] = written(made, [{"key": bytes([n] * 16)} for n in (200, 100)])
    assert order == 0
    assert [value.bytes[0] for value in found["key"].to_pylist()] == [100, 200]


@pytest.mark.parametrize("change", [{"source-id": 99}, {"transform": "zorder"}])
def test_an_order_that_cannot_be_followed_is_not_claimed(tmp_path, change):
    made = table(tmp_path, ("id", "identity", "asc", "first"))
    order = json.loads(made.sort_order_json)
    order["fields"][0] |= change
    [(claimed, found)] = written(dataclasses.replace(made, sort_order_json=json.dumps(order)), [{"id": 2}, {"id": 1}])
    assert claimed == 0
    assert found["id"].to_pylist() == [2, 1]


def test_a_table_without_an_order_keeps_the_rows_as_they_come(tmp_path):
    [(order, found)] = written(table(tmp_path), [{"id": 2}, {"id": 1}])
    assert (order, found["id"].to_pylist()) == (0, [2, 1])

import io
import math
import struct
from decimal import Context, Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg import types as iceberg
from pyiceberg.conversions import from_bytes
from pyiceberg.io.pyarrow import (
    compute_statistics_plan,
    data_file_statistics_from_parquet_metadata,
    parquet_path_to_id_mapping,
    schema_to_pyarrow,
)
from pyiceberg.schema import Schema

from calve.write.statistics import Gauge
from kit.examples import examples

INTS, LONGS = (st.integers(-(1 << bits), (1 << bits) - 1) for bits in (31, 63))
MICROS = st.integers(-(10**15), 10**15)
LAST = "\U0010ffff"
ORDINARY = st.characters(exclude_categories=["Cs"], exclude_characters="\ud7ff" + LAST)
PLAIN = {
    iceberg.BooleanType(): st.booleans(),
    iceberg.IntegerType(): INTS,
    iceberg.LongType(): LONGS,
    iceberg.FloatType(): st.floats(width=32),
    iceberg.DoubleType(): st.floats(),
    iceberg.DateType(): st.integers(-700_000, 2_900_000),
    iceberg.TimeType(): st.integers(0, 86_400_000_000 - 1),
    iceberg.TimestampType(): MICROS,
    iceberg.TimestamptzType(): MICROS,
    iceberg.StringType(): st.text(ORDINARY, max_size=18),
    iceberg.BinaryType(): st.lists(st.integers(0, 254), max_size=18).map(bytes),
    iceberg.FixedType(3): st.binary(min_size=3, max_size=3),
    iceberg.FixedType(20): st.binary(min_size=20, max_size=20),
    **{
        iceberg.DecimalType(precision, min(precision, 9)): st.integers(1 - 10**precision, 10**precision - 1)
        for precision in range(1, 39)
    },
}
"""Values as Parquet has them, of which PyIceberg gives the statistics that the specification wants."""
SOME = st.sampled_from([0.0, -0.0, math.nan, math.inf, -math.inf, 1.5])
EDGES = {
    iceberg.TimestampType(): LONGS,
    iceberg.TimestamptzType(): LONGS,
    iceberg.TimestampNanoType(): LONGS,
    iceberg.TimestamptzNanoType(): LONGS,
    iceberg.DateType(): INTS,
    iceberg.FloatType(): SOME,
    iceberg.DoubleType(): SOME,
    iceberg.StringType(): st.text(st.sampled_from("\0a\ud7ff\ue000\uffff" + LAST), min_size=14, max_size=18)
    | st.sampled_from(["", "z" * 5000, LAST * 2000]),
    iceberg.BinaryType(): st.lists(st.sampled_from([0, 1, 254, 255]), min_size=14, max_size=18).map(bytes)
    | st.sampled_from([b"", b"\xff" * 16, b"\xff" * 5000, b"\0" * 5000]),
}
WAYS = st.sampled_from(["none", "counts", "full", "truncate(1)", "truncate(16)"])


def array(kind, values):
    form = schema_to_pyarrow(Schema(iceberg.NestedField(1, "c", kind))).field(0).type
    if pa.types.is_decimal(form):
        values = [value if value is None else decimal(kind, value) for value in values]
    if not pa.types.is_temporal(form):
        return pa.array(values, form)
    return pa.array(values, pa.int32() if pa.types.is_date32(form) else pa.int64()).view(form)


def decimal(kind, unscaled):
    return Decimal((unscaled < 0, tuple(map(int, str(abs(unscaled)))), -kind.scale))


@st.composite
def columns(draw, kinds):
    """The field, the values and the Arrow array of one to four columns, which have the same length; a file has rows."""
    count = draw(st.integers(1, 10))
    made = []
    for number in range(draw(st.integers(1, 4))):
        kind = draw(st.sampled_from(list(kinds)))
        values = draw(st.lists(st.none() | kinds[kind], min_size=count, max_size=count))
        made.append((iceberg.NestedField(number + 1, f"c{number}", kind), values, array(kind, values)))
    return made


@st.composite
def nested(draw, kinds):
    """The same with some columns in structs, lists and maps."""
    made = []
    for field, values, found in draw(columns(kinds)):
        first, count = field.field_id * 10, len(values)
        holes = pa.array([number % 3 == 1 for number in range(count)], pa.bool_())
        offsets = pa.array([number - number % 3 for number in range(count)] + [count], pa.int32())
        shape = draw(st.sampled_from(["none", "struct", "list", "map"]))
        kind = field.field_type
        if shape == "struct":
            kind = iceberg.StructType(iceberg.NestedField(first, "in", kind))
            found = pa.StructArray.from_arrays([found], ["in"], mask=holes)
        elif shape == "list":
            kind = iceberg.ListType(first, kind, element_required=False)
            found = pa.LargeListArray.from_arrays(offsets.cast(pa.int64()), found)
        elif shape == "map":
            kind = iceberg.MapType(first, iceberg.LongType(), first + 1, kind, value_required=False)
            found = pa.MapArray.from_arrays(offsets, pa.array(range(count), pa.int64()), found)
        made.append((field.model_copy(update={"field_type": kind}), values, found))
    return made


def written(made, group_rows, statistics=True):
    """The schema and the metadata of a file, written as Calve does."""
    schema = Schema(*(field for field, _, _ in made))
    form = schema_to_pyarrow(schema)
    rows = pa.table([found for _, _, found in made], form.names).cast(form)
    writer = pq.ParquetWriter(io.BytesIO(), form, store_decimal_as_integer=True, write_statistics=statistics)
    writer.write_table(rows, row_group_size=group_rows)
    writer.close()
    return schema, writer.writer.metadata


def plan(schema, way):
    return compute_statistics_plan(schema, {"write.metadata.metrics.default": way})


def measured(kind, values, group_rows=100, way="truncate(16)", statistics=True):
    """The statistics of a file with one column, id 1."""
    made = [(iceberg.NestedField(1, "c", kind), values, array(kind, values))]
    schema, metadata = written(made, group_rows, statistics)
    return Gauge(plan(schema, way), parquet_path_to_id_mapping(schema)).read(metadata)


@settings(max_examples=examples(50), deadline=None)
@given(nested(PLAIN), WAYS, st.integers(1, 11))
def test_statistics_are_those_of_pyiceberg_where_these_are_right(made, way, group_rows):
    schema, metadata = written(made, group_rows)
    paths = parquet_path_to_id_mapping(schema)
    theirs = data_file_statistics_from_parquet_metadata(metadata, plan(schema, way), paths).to_serialized_dict()
    ours = Gauge(plan(schema, way), paths).read(metadata)
    assert theirs.pop("nan_value_counts") == {}
    assert list(ours) == [
        theirs["record_count"],
        theirs["column_sizes"],
        theirs["value_counts"],
        theirs["null_value_counts"],
        theirs["lower_bounds"],
        theirs["upper_bounds"],
        theirs["split_offsets"],
    ]


@settings(max_examples=examples(60), deadline=None)
@given(columns({**PLAIN, **EDGES}) | columns(EDGES), WAYS, st.integers(1, 11))
def test_bounds_hold_for_every_value_and_are_no_wider_than_truncation_makes_them(made, way, group_rows):
    schema, metadata = written(made, group_rows)
    found = Gauge(plan(schema, way), parquet_path_to_id_mapping(schema)).read(metadata)
    for field, values, _ in made:
        key, kind = field.field_id, field.field_type
        assert found.values.get(key) == (None if way == "none" else len(values))
        assert found.nulls.get(key) == (None if way == "none" else values.count(None))
        known = [value for value in values if value is not None and value == value]
        lower, upper = (part.get(key) for part in (found.lower, found.upper))
        if way in ("none", "counts") or not known:
            assert lower is upper is None
            continue
        if isinstance(kind, iceberg.StringType):
            known = [value.encode() for value in known]
        if not isinstance(kind, (iceberg.StringType, iceberg.BinaryType)):
            assert (read(kind, lower), read(kind, upper)) == (min(known), max(known))
        elif max(map(len, known)) <= 4000:  # of longer ones a file tells nothing
            length = int(way[9:-1]) if way.startswith("truncate") else 4000
            look = bytes.decode if isinstance(kind, iceberg.StringType) else bytes
            assert look(lower) == look(min(known))[:length]
            follows(look(max(known)), None if upper is None else look(upper), length)
        else:
            assert lower is None or lower <= min(known)
            assert upper is None or upper >= max(known)


def read(kind, data):
    found = from_bytes(kind, data)
    return int(found.scaleb(kind.scale, Context(prec=40))) if isinstance(found, Decimal) else found


def follows(greatest, upper, length):
    """An upper bound is the greatest value, or the least text above all that begin as it does; none if there is none."""
    start, last = greatest[:length], LAST if isinstance(greatest, str) else b"\xff"
    if len(greatest) <= length:
        assert upper == greatest
    elif upper is None:
        assert start == last * length
    else:
        assert upper > greatest
        assert upper[:-1] == start[: len(upper) - 1]
        assert start[len(upper) :] == last * (length - len(upper))
        assert ord(upper[-1:]) - ord(start[len(upper) - 1 : len(upper)]) == (0x801 if upper[-1:] == "\ue000" else 1)


@pytest.mark.parametrize(
    ("kind", "value", "data"),
    [
        (iceberg.BooleanType(), True, "01"),
        (iceberg.IntegerType(), -2, "feffffff"),
        (iceberg.LongType(), 34, "2200000000000000"),
        (iceberg.FloatType(), -4.5, "000090c0"),
        (iceberg.DoubleType(), -6.0, "00000000000018c0"),
        (iceberg.DateType(), 17486, "4e440000"),
        (iceberg.TimeType(), 0x12E0078300, "008307e012000000"),
        (iceberg.TimestampType(), -1, "ffffffffffffffff"),
        (iceberg.TimestamptzNanoType(), 0x0102030405060708, "0807060504030201"),
        (iceberg.StringType(), "é", "c3a9"),
        (iceberg.StringType(), "", ""),
        (iceberg.BinaryType(), b"\0", "00"),
        (iceberg.FixedType(2), b"\xff\x00", "ff00"),
        (iceberg.DecimalType(9, 2), 1420, "058c"),
        (iceberg.DecimalType(9, 2), -128, "80"),
        (iceberg.DecimalType(18, 2), 128, "0080"),
        (iceberg.DecimalType(38, 0), 0, "00"),
        (iceberg.DecimalType(38, 0), -(10**37), struct.pack(">q", -(10**37) >> 64).hex() + f"{-(10**37) % 2**64:016x}"),
    ],
    ids=str,
)
def test_a_bound_is_the_single_value_of_the_specification(kind, value, data):
    found = measured(kind, [None, value])
    assert (found.lower[1].hex(), found.upper[1].hex()) == (data, data)


@pytest.mark.parametrize("kind", [iceberg.FloatType(), iceberg.DoubleType()])
@pytest.mark.parametrize("group_rows", [1, 9])
def test_bounds_of_zero_hold_for_both_zeros(kind, group_rows):
    for values in ([0.0], [-0.0], [0.0, -0.0], [-0.0, math.nan, None, 0.0]):
        found = measured(kind, values, group_rows)
        assert math.copysign(1, from_bytes(kind, found.lower[1])) == -1
        assert math.copysign(1, from_bytes(kind, found.upper[1])) == 1


@pytest.mark.parametrize("group_rows", [1, 9])
def test_nan_is_in_no_bound_and_takes_none_away(group_rows):
    found = measured(iceberg.DoubleType(), [math.nan, 2.0, None, math.nan, -1.0], group_rows)
    assert (found.lower[1], found.upper[1]) == (struct.pack("<d", -1), struct.pack("<d", 2))
    assert (found.values[1], found.nulls[1]) == (5, 1)
    assert measured(iceberg.DoubleType(), [math.nan, None], group_rows).upper == {}


def test_a_value_that_is_too_long_for_parquets_statistics_leaves_no_bounds_of_the_other_row_groups():
    for kind, values in (
        (iceberg.StringType(), ["a", "b", "z" * 5000, "c"]),
        (iceberg.BinaryType(), [b"b", b"c", b"\0" * 5000, b"d"]),
    ):
        found = measured(kind, values, group_rows=2)
        assert (found.lower, found.upper, found.nulls) == ({}, {}, {1: 0})


def test_a_row_group_of_nulls_takes_no_bounds_away():
    found = measured(iceberg.StringType(), [None, None, "b", "a"], group_rows=2)
    assert (found.lower, found.upper, found.nulls) == ({1: b"a"}, {1: b"b"}, {1: 2})


def test_a_text_whose_start_cannot_be_incremented_has_no_upper_bound():
    found = measured(iceberg.StringType(), [LAST * 17, "a" * 17], way="truncate(16)")
    assert (found.lower, found.upper) == ({1: b"a" * 16}, {})
    assert measured(iceberg.BinaryType(), [b"\xff" * 17]).upper == {}


def test_an_upper_bound_is_no_half_of_a_surrogate_pair():
    assert measured(iceberg.StringType(), ["\ud7ff" * 17]).upper[1].decode() == "\ud7ff" * 15 + "\ue000"


def test_text_is_cut_between_code_points():
    found = measured(iceberg.StringType(), ["é" * 17])
    assert (found.lower[1].decode(), found.upper[1].decode()) == ("é" * 16, "é" * 15 + "ê")


def test_a_column_without_parquet_statistics_has_its_values_counted_and_no_more():
    found = measured(iceberg.LongType(), [1, None], statistics=False)
    assert (found.values, found.nulls, found.lower, found.upper) == ({1: 2}, {}, {}, {})


def test_a_shape_has_no_bounds_by_its_bytes():
    schema, metadata = written([(iceberg.NestedField(1, "c", iceberg.BinaryType()), [], pa.array([b"x"]))], 1)
    shape = Schema(iceberg.NestedField(1, "c", iceberg.GeometryType()))
    found = Gauge(plan(shape, "full"), parquet_path_to_id_mapping(schema)).read(metadata)
    assert (found.values, found.nulls, found.lower, found.upper) == ({1: 1}, {1: 0}, {}, {})

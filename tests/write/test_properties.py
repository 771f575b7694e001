import dataclasses

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.types import BooleanType, LongType, NestedField, StringType, StructType

from calve.errors import UnsupportedError, Verdict
from calve.write.content_file import metrics_modes
from calve.write.properties import Bloom, WriteProperties
from calve.write.writer import Writers, check

from .test_writer import rows, table

PARQUET = "write.parquet."
MALFORMED = {
    f"{PARQUET}row-group-size-bytes": "abc",
    f"{PARQUET}page-size-bytes": "-1",
    f"{PARQUET}page-row-limit": "0",
    f"{PARQUET}dict-size-bytes": "1.5",
    f"{PARQUET}compression-level": "99",
    f"{PARQUET}page-version": "v9",
    f"{PARQUET}bloom-filter-max-bytes": "",
    f"{PARQUET}bloom-filter-enabled.column.id": "maybe",
    f"{PARQUET}stats-enabled.column.id": "1",
    "write.target-file-size-bytes": "big",
    "write.object-storage.enabled": "yes",
    "write.metadata.metrics.default": "truncate(0)",
    "write.metadata.metrics.column.id": "most",
    "write.metadata.metrics.max-inferred-column-defaults": "x",
}


def written(folder, properties, *pairs):
    writers = Writers("w", 4)
    writers.write("k", table(folder, PartitionSpec()), properties, rows(*(pairs or ((1, "x"),))))
    return [msgspec.json.decode(file) for file in writers.close()["k"].files]


def chunk(file, column=0):
    return pq.read_metadata(file["file-path"]).row_group(0).column(column)


@pytest.mark.parametrize("key", MALFORMED)
def test_a_value_that_cannot_be_read_is_named_and_the_default_is_used(tmp_path, key):
    properties = {key: MALFORMED[key]}
    [complaint] = check(table(tmp_path), properties)
    assert complaint.startswith(f"{key}: ")
    assert len(written(tmp_path, properties)) == 1


def test_a_false_positive_share_outside_of_0_and_1_is_named(tmp_path):
    wishes = {f"{PARQUET}bloom-filter-enabled.column.id": "true", f"{PARQUET}bloom-filter-fpp.column.id": "1.1.e-5"}
    assert len(check(table(tmp_path), wishes)) == 1
    assert WriteProperties.read("t", wishes).blooms == {"id": Bloom()}


@pytest.mark.parametrize(
    ("wish", "words"),
    [
        ({"write.format.default": "lance"}, "lance files"),
        ({f"{PARQUET}compression-codec": "lzo"}, "the compression codec 'lzo'"),
        ({"encryption.key-id": "k"}, "encrypted files"),
        ({"write.location-provider.impl": "org.me.Mine"}, "org.me.Mine"),
        ({"write.py-location-provider.impl": "os.system"}, "os.system"),
    ],
)
def test_what_cannot_be_written_holds_the_table_with_the_reason(tmp_path, wish, words):
    for look in (lambda: check(table(tmp_path), wish), lambda: written(tmp_path, wish)):
        with pytest.raises(UnsupportedError, match=words) as caught:
            look()
        assert (caught.value.verdict, caught.value.target) == (Verdict.ASK, "a.b")


@pytest.mark.parametrize("codec", ["zstd", "snappy", "gzip", "uncompressed", "lz4", "brotli", "GZIP"])
def test_the_codec_of_the_table_is_used(tmp_path, codec):
    [file] = written(tmp_path, {f"{PARQUET}compression-codec": codec})
    assert chunk(file).compression.lower() == codec.lower()


def test_a_higher_level_makes_a_smaller_file(tmp_path):
    pairs = [(number, f"{number % 977:x}-{number % 31}") for number in range(20_000)]
    sizes = [
        written(tmp_path / level, {f"{PARQUET}compression-level": level}, *pairs)[0]["file-size-in-bytes"]
        for level in ("1", "19")
    ]
    assert sizes[0] > sizes[1]


def test_row_groups_have_the_size_that_the_table_asks_for(tmp_path):
    [file] = written(tmp_path, {f"{PARQUET}row-group-size-bytes": "20000"}, *((n, "x" * 12) for n in range(10_000)))
    metadata = pq.read_metadata(file["file-path"])
    assert metadata.num_row_groups == len(file["split-offsets"]) > 5
    assert {metadata.row_group(i).num_rows for i in range(metadata.num_row_groups - 1)} <= {
        metadata.row_group(0).num_rows
    }


def test_pages_have_the_rows_and_the_version_that_the_table_asks_for(tmp_path):
    few, many = (
        written(
            tmp_path / limit,
            {f"{PARQUET}page-row-limit": limit, f"{PARQUET}page-version": "v2"},
            *((n, str(n)) for n in range(10_000)),
        )[0]["file-size-in-bytes"]
        for limit in ("10", "10000")
    )
    assert few > many + 2 * 900 * 10  # a header for each page


def test_a_dictionary_is_there_or_not_as_the_table_asks(tmp_path):
    prefix = f"{PARQUET}dict-encoding-enabled.column."
    distinct = [(number, "x") for number in range(3000)]
    [left] = written(tmp_path / "a", {}, *distinct)
    [asked] = written(tmp_path / "b", {f"{prefix}id": "true", f"{prefix}p": "false"}, *distinct)
    assert [chunk(left, i).has_dictionary_page for i in (0, 1)] == [False, True]
    assert [chunk(asked, i).has_dictionary_page for i in (0, 1)] == [True, False]


def test_a_column_without_statistics_has_none_in_the_file_nor_bounds_in_the_table(tmp_path):
    [file] = written(tmp_path, {f"{PARQUET}stats-enabled.column.id": "false"})
    assert not chunk(file).is_stats_set
    assert file["lower-bounds"]["keys"] == [2]


def test_a_bloom_filter_is_where_the_table_asks_for_one(tmp_path):
    [file] = written(tmp_path, {f"{PARQUET}bloom-filter-enabled.column.p": "true"}, *((n, str(n)) for n in range(1000)))
    assert chunk(file, 0).bloom_filter_offset is None
    assert chunk(file, 1).bloom_filter_offset is not None


def test_a_bloom_filter_grows_with_what_is_asked_and_no_further_than_allowed(tmp_path):
    def length(**more):
        wishes = {f"{PARQUET}bloom-filter-enabled.column.p": "true"}
        wishes |= {f"{PARQUET}bloom-filter-{key.replace('_', '-')}": value for key, value in more.items()}
        place = tmp_path / str(len(list(tmp_path.iterdir())))
        return chunk(written(place, wishes, *((n, str(n)) for n in range(5000)))[0], 1).bloom_filter_length

    plain = length()
    assert length(**{"fpp.column.p": "0.0001"}) > plain
    assert length(**{"ndv.column.p": "1000000"}) == plain > length(**{"ndv.column.p": "500"})  # what is empty is folded
    assert length(max_bytes="1024") < 1024 + 100 < plain


def test_a_boolean_or_a_column_that_is_not_there_has_no_bloom_filter(tmp_path):
    schema = Schema(
        NestedField(1, "id", StructType(NestedField(2, "ok", BooleanType()))), NestedField(3, "n", LongType())
    )
    wishes = {f"{PARQUET}bloom-filter-enabled.column.{name}": "true" for name in ("id.ok", "gone", "n")}
    made = dataclasses.replace(table(tmp_path, PartitionSpec()), schema_json=schema.model_dump_json())
    writers = Writers("w", 1)
    writers.write("k", made, wishes, pa.Table.from_pylist([{"id": {"ok": True}, "n": 1}], schema_to_pyarrow(schema)))
    [file] = map(msgspec.json.decode, writers.close()["k"].files)
    assert [chunk(file, i).bloom_filter_offset is not None for i in (0, 1)] == [False, True]


def test_files_are_where_the_table_wants_its_data(tmp_path):
    [plain] = written(tmp_path, {})
    assert plain["file-path"].startswith(f"{tmp_path}/a.b/data/w-")
    elsewhere = {"write.data.path": f"{tmp_path}/elsewhere/"}
    [moved] = written(tmp_path, elsewhere)
    assert moved["file-path"].startswith(f"{tmp_path}/elsewhere/w-")
    [older] = written(tmp_path, {"write.folder-storage.path": f"{tmp_path}/older"})
    assert older["file-path"].startswith(f"{tmp_path}/older/w-")


def test_the_object_store_layout_spreads_files_over_hashed_prefixes(tmp_path):
    [file] = written(tmp_path, {"write.object-storage.enabled": "true", "write.object-storage.path": f"{tmp_path}/o"})
    hashed = file["file-path"].removeprefix(f"{tmp_path}/o/").split("/")[:4]
    assert all(part and set(part) <= {"0", "1"} for part in hashed)
    assert pq.read_metadata(file["file-path"]).num_rows == 1


@pytest.mark.parametrize(
    ("modes", "counted", "bounded"),
    [
        ({}, [1, 2], {1: 8, 2: 16}),
        ({"default": "none"}, [], {}),
        ({"default": "counts"}, [1, 2], {}),
        ({"default": "full"}, [1, 2], {1: 8, 2: 40}),
        ({"default": "none", "column.p": "truncate(4)"}, [2], {2: 4}),
        ({"column.p": "none"}, [1], {1: 8}),
    ],
)
def test_the_metrics_of_a_file_are_those_that_the_table_asks_for(tmp_path, modes, counted, bounded):
    properties = {f"write.metadata.metrics.{key}": value for key, value in modes.items()}
    [file] = written(tmp_path, properties, (1, "x" * 40))
    assert file["value-counts"]["keys"] == counted
    assert file["null-value-counts"]["keys"] == counted
    for bounds in ("lower-bounds", "upper-bounds"):
        found = dict(zip(file[bounds]["keys"], file[bounds]["values"], strict=True))
        assert {key: len(value) // 2 for key, value in found.items()} == bounded


def test_of_a_wide_table_the_first_100_columns_have_metrics_and_sorted_ones():
    wide = Schema(*(NestedField(i, f"c{i}", StringType()) for i in range(1, 131)))
    modes = metrics_modes(wide, {"write.metadata.metrics.column.c2": "full"}, ["c120"])
    prefix = "write.metadata.metrics."
    assert modes[f"{prefix}default"] == "none"
    assert modes[f"{prefix}column.c2"] == "full"
    assert modes[f"{prefix}column.c100"] == modes[f"{prefix}column.c120"] == "truncate(16)"
    assert f"{prefix}column.c101" not in modes
    assert metrics_modes(wide, {f"{prefix}default": "counts"}, []) == {f"{prefix}default": "counts"}

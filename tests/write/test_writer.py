import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.conversions import from_bytes
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType, NestedField, StringType

from calve.errors import UnsupportedError, WriteError
from calve.table.loaded import Table
from calve.write import writer
from calve.write.writer import UnwrittenFileError, Writers

SCHEMA = Schema(NestedField(1, "id", LongType()), NestedField(2, "p", StringType()))
SPEC = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "p"))


def table(folder, spec=SPEC, name="a.b"):
    return Table(name, "u", str(folder / name), SCHEMA.model_dump_json(), spec.model_dump_json())


def rows(*pairs):
    return pa.Table.from_pylist([{"id": number, "p": p} for number, p in pairs], schema_to_pyarrow(SCHEMA))


def test_a_file_of_each_partition_is_described_as_it_is(tmp_path):
    writers = Writers("w", max_open=10)
    writers.write("k", table(tmp_path), {}, rows((1, "x"), (2, "y"), (5, "x")))
    written = writers.close()["k"]
    assert written.rows == 3
    for file in map(msgspec.json.decode, written.files):
        found = pq.read_table(file["file-path"], partitioning=None)
        assert file["record-count"] == len(found)
        assert file["partition"] == [found.column("p")[0].as_py()]
        assert file["file-size-in-bytes"] == (tmp_path / file["file-path"]).stat().st_size
        lower = dict(zip(file["lower-bounds"]["keys"], file["lower-bounds"]["values"], strict=True))
        assert from_bytes(LongType(), bytes.fromhex(lower[1])) == min(found.column("id").to_pylist())


def test_no_more_files_are_open_than_allowed_and_no_row_is_lost(tmp_path):
    writers = Writers("w", max_open=2)
    for number in range(40):
        writers.write("k", table(tmp_path), {}, rows((number, f"p{number % 5}")))
        assert len(writers._open) <= 2
    files = [msgspec.json.decode(file) for file in writers.close()["k"].files]
    ids = [id for file in files for id in pq.read_table(file["file-path"], partitioning=None).column("id").to_pylist()]
    assert sorted(ids) == list(range(40))
    assert len({file["file-path"] for file in files}) == len(files)


def test_a_file_ends_at_the_target_size(tmp_path):
    writers = Writers("w", max_open=2)
    for start in range(0, 5000, 1000):
        block = rows(*((number, f"{number * 7919:x}" * 20) for number in range(start, start + 1000)))
        writers.write("k", table(tmp_path, PartitionSpec()), {"write.target-file-size-bytes": "20000"}, block)
    assert len(writers.close()["k"].files) > 1


def test_two_keys_of_one_table_are_told_apart(tmp_path):
    writers = Writers("w", max_open=4)
    writers.write((0, "a.b"), table(tmp_path), {}, rows((1, "x")))
    writers.write((1, "a.b"), table(tmp_path), {}, rows((2, "x")))
    assert {key: written.rows for key, written in writers.close().items()} == {(0, "a.b"): 1, (1, "a.b"): 1}


def test_what_is_discarded_leaves_no_file(tmp_path):
    writers = Writers("w", max_open=1)
    for p in "xyz":
        writers.write("k", table(tmp_path), {}, rows((1, p)))
    writers.discard()
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_a_table_of_another_format_is_refused(tmp_path):
    with pytest.raises(UnsupportedError, match="requires lance files"):
        Writers("w", 1).write("k", table(tmp_path), {"write.format.default": "lance"}, rows((1, "x")))


def test_a_folder_that_cannot_be_written_is_a_write_error(tmp_path):
    (tmp_path / "a.b").write_text("a file in the way")
    writers = Writers("w", 1)
    writers.write("k", table(tmp_path), {}, rows((1, "x")))
    with pytest.raises(WriteError, match="Cannot write"):
        writers.close()


def test_files_of_rows_that_share_memory_are_written_when_these_rows_are_too_many(tmp_path, monkeypatch):
    monkeypatch.setattr(writer, "_KEPT_BYTES", 100_000)
    writers = Writers("w", max_open=3)
    for start in range(0, 2000, 100):
        many = rows(*((number, "x") for number in range(start, start + 100)))
        for key in range(10):
            writers.write(key, table(tmp_path, PartitionSpec(), f"t{key}"), {}, many.slice(key * 10, 10))
            assert writers._kept_bytes <= 100_000
            assert len(writers._open) <= 3
    for key, written in writers.close().items():
        paths = [msgspec.json.decode(file)["file-path"] for file in written.files]
        ids = [id for path in paths for id in pq.read_table(path).column("id").to_pylist()]
        assert sorted(ids) == [id for id in range(2000) if id // 10 % 10 == key]


def test_when_a_file_cannot_be_finished_none_is_left(tmp_path, monkeypatch):
    monkeypatch.setattr(writer, "data_file", lambda *_: 1 / 0)
    writers = Writers("w", max_open=1)
    for p in "xyz":
        writers.write("k", table(tmp_path), {}, rows((1, p)))
    with pytest.raises(UnwrittenFileError):
        writers.close()
    writers.discard()
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []

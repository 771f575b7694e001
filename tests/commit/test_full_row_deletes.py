"""Deletes of whole rows: of a table without a key exactly one of the rows that are equal to each goes (a multiset)."""

from __future__ import annotations

import collections
import math
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pytest
from pyiceberg.table import StaticTable
from pyspark.sql import SparkSession

from calve.arrays import RowNumbers
from calve.commit import full_row_deletes, full_row_search
from calve.commit.fence import append
from calve.commit.full_row_deletes import _around, _Hits
from calve.commit.full_row_search import FullRowSearch
from calve.commit.key_search import SearchedFile
from calve.commit.mark import CommitTarget, Mark
from calve.engine import session
from calve.errors import CommitError
from calve.maintenance.context import MaintenanceContext
from calve.maintenance.join import join
from calve.record.content_file import ContentFile
from calve.record.target import RowStream
from calve.reduce.full_rows import DeletedRows
from calve.table.arrow_schema import arrow_schema
from calve.table.definition import schema_from_columns
from calve.table.loaded import Table
from calve.write.writer import Writers
from commit.test_changes import DEATHS, die_at, named
from kit.examples import examples

NAME = "db.t"
NAN = float("nan")
COLUMNS = [
    {"name": "n", "type": "long"},
    {"name": "text", "type": "string"},
    {"name": "ratio", "type": "double"},
    {"name": "at", "type": "timestamptz"},
    {"name": "list", "type": "list<double>"},
    {"name": "inner", "type": "struct<a: uuid, b: string>"},
]
UUID = bytes(range(16))
ROWS: list[tuple[Any, ...]] = [
    (1, "a", 0.0, 5, [0.0, None], {"a": UUID, "b": "x"}),
    (1, "a", -0.0, 5, [0.0, None], {"a": UUID, "b": "x"}),
    (1, "a", 0.0, 5, [-0.0, None], {"a": UUID, "b": "x"}),
    (1, "a", NAN, 5, None, None),
    (1, None, NAN, 5, None, None),
    (1, "", None, None, [], {"a": None, "b": "NULL"}),
    (None, None, None, None, None, None),
    (None, "NULL", None, None, [NAN], {"a": None, "b": None}),
    (2, "b", 1e300, 7, [None], {"a": UUID, "b": "x, y"}),
]
"""Rows that differ in what a careless comparison misses; the n-th is known by its number."""


def table_of(rows: list[int], schema: pa.Schema) -> pa.Table:
    columns = zip(*(ROWS[number] for number in rows), strict=True) if rows else [[]] * len(COLUMNS)
    storage = {"inner": pa.struct([("a", pa.binary(16)), ("b", pa.string())])}
    arrays = [
        pa.array(list(values), storage.get(field.name, field.type)).cast(field.type)
        for values, field in zip(columns, schema, strict=True)
    ]
    return pa.table(arrays, schema=schema)


class Mirror:
    """A table without a key, beside a multiset of the numbers of its rows."""

    def __init__(self, spark: SparkSession, folder: Path, version: int, specs: list[tuple[str, str]]) -> None:
        self.catalog = named(spark, folder)
        schema = schema_from_columns(COLUMNS)
        self.catalog.create(NAME, schema.model_dump_json(), specs, {"format-version": str(version)})
        self.rows: collections.Counter[int] = collections.Counter()
        self.batch = 0

    def stage(self, inserted: list[int], deleted: list[int]) -> list[ContentFile]:
        """Write a batch as a task does."""
        self.batch += 1
        self.rows.update(inserted)
        self.rows.subtract(deleted)
        table = self.catalog.load(NAME)
        assert table
        writers, deletes, schema = Writers(f"p-{self.batch:08d}", 10), DeletedRows(table), arrow_schema(table.schema)
        if inserted:
            writers.write(RowStream(0, "rows"), table, {}, table_of(inserted, schema))
        if deleted:
            rows = deletes.of(table_of(deleted, schema))
            writers.write(RowStream(0, "gone"), deletes.table, {}, rows, deletes.ids)
        return [msgspec.json.decode(file, type=ContentFile) for made in writers.close().values() for file in made.files]

    def commit(self, files: dict[int, list[ContentFile]]) -> Any:
        target = CommitTarget(NAME, write_mode="merge-on-read")
        return append(self.catalog, target, Mark("p", "s", self.batch), files)

    def die(self, point: str | None, files: dict[int, list[ContentFile]]) -> None:
        die_at(point, lambda: self.commit(files))

    def in_table(self) -> collections.Counter[str]:
        """Return the rows as texts: Spark's, and as often as PyIceberg counts them."""
        rows = self.catalog.spark.session.table(f"lakehouse.{NAME}").collect()
        metadata = self.catalog.load_java(NAME).operations().current().metadataFileLocation()
        assert StaticTable.from_metadata(metadata).scan(selected_fields=("n",)).to_arrow().num_rows == len(rows)
        return collections.Counter(
            str(
                (
                    row[0],
                    row[1],
                    shown(row[2]),
                    row[3] and row[3].timestamp(),
                    row[4] and list(map(shown, row[4])),
                    row[5] and tuple(row[5]),
                )
            )
            for row in rows
        )

    def expected(self) -> collections.Counter[str]:
        texts = []
        for number in self.rows.elements():
            row = list(ROWS[number])
            at = None if row[3] is None else row[3] / 1e6
            inner = row[5] and (row[5]["a"] and "00010203-0405-0607-0809-0a0b0c0d0e0f", row[5]["b"])
            texts.append(str((row[0], row[1], shown(row[2]), at, row[4] and list(map(shown, row[4])), inner)))
        return collections.Counter(texts)


def shown(value: float | None) -> str:
    return "-0.0" if value == 0 and math.copysign(1, value) < 0 else str(value)


@pytest.mark.spark
@pytest.mark.parametrize(("version", "specs"), [(2, []), (3, [("n", "identity")])])
def test_the_table_is_the_multiset_after_every_commit(
    spark: SparkSession, tmp_path: Path, version: int, specs: list[tuple[str, str]]
) -> None:
    for seed in range(examples(1)):
        chosen = random.Random(seed)
        mirror = Mirror(spark, tmp_path / f"{seed}", version, specs)
        for step in range(6):
            files: dict[int, list[ContentFile]] = {}
            for _ in range(chosen.choice((1, 1, 3))):
                inserted = chosen.choices(range(len(ROWS)), k=chosen.randint(0, 8))
                present = [*mirror.rows.elements(), *inserted]
                staged = mirror.stage(inserted, chosen.sample(present, chosen.randint(0, len(present))))
                files[mirror.batch] = staged
            files = {batch: staged for batch, staged in files.items() if staged}
            if not files:
                continue
            mirror.die(chosen.choice((None, *DEATHS)), files)
            assert mirror.commit(files).not_found == 0
            assert mirror.in_table() == mirror.expected(), (seed, step)
            if step == 3:
                join(MaintenanceContext(session.start(), mirror.catalog, CommitTarget(NAME)), {"rewrite-all": "true"})


@pytest.mark.spark
def test_a_row_that_is_not_there_is_counted_and_batches_with_keys_are_committed_apart(
    spark: SparkSession, tmp_path: Path
) -> None:
    mirror = Mirror(spark, tmp_path, 3, [])
    assert mirror.commit({1: mirror.stage([0, 0, 1], [])}).not_found == 0
    outcome = mirror.commit({2: mirror.stage([], [0, 0, 0, 4])})
    mirror.rows.update([0, 4])
    assert outcome.not_found == 2
    assert mirror.in_table() == mirror.expected()
    spark.sql(f"alter table lakehouse.{NAME} set tblproperties ('write.format.default' = 'avro')")
    spark.sql(f"insert into lakehouse.{NAME} select * from lakehouse.{NAME}")
    with pytest.raises(CommitError, match="has no key, cannot be found: a file is encrypted, or not Parquet"):
        mirror.commit({3: mirror.stage([], [1])})


def test_no_more_files_are_read_than_hold_the_rows_and_bounds_leave_files_out(tmp_path: Path) -> None:
    schema = schema_from_columns(COLUMNS)
    table = Table("db.t", "u", str(tmp_path), schema.model_dump_json(), '{"spec-id":0,"fields":[]}')
    arrow = arrow_schema(table.schema)
    writers = Writers("a", 10)
    for name, rows in (("first", [0, 0, 8]), ("second", [8])):
        writers.write(RowStream(0, name), table, {}, table_of(rows, arrow))
    written = {stream.table: made.files for stream, made in writers.close().items()}
    files = {name: msgspec.json.decode(made[0], type=ContentFile) for name, made in written.items()}
    deletes = DeletedRows(table)
    search = FullRowSearch(table, deletes.ids[:-1], [deletes.of(table_of([0, 8], arrow))])
    searched = [
        SearchedFile(files["first"].file_path, 3, {}, {}),
        SearchedFile("/not/there", 3, {1: (3).to_bytes(8, "little")}, {1: (9).to_bytes(8, "little")}),
        SearchedFile(files["second"].file_path, 1, {}, {}),
    ]
    assert [file.path for file in search.matching(searched)] == [searched[0].path, searched[2].path]
    hidden = pa.array([0], pa.int64()).to_numpy()
    found = [(path, rows.tolist()) for path, rows in search.find(search.matching(searched), lambda _: hidden[:1])]
    assert found == [(searched[0].path, [1, 2])]
    assert not search.left.any()


def test_the_size_of_each_part_is_taken_once_however_many_small_files_there_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    schema = schema_from_columns([{"name": "n", "type": "long"}])
    table = Table("db.t", "u", str(tmp_path), schema.model_dump_json(), '{"spec-id":0,"fields":[]}')
    deletes, rows = DeletedRows(table), pa.table([[1]], schema=arrow_schema(table.schema))
    search, measured = FullRowSearch(table, deletes.ids[:-1], [deletes.of(rows)]), list[str]()

    class Measured:
        def __init__(self, path: str) -> None:
            self.path = path

        @property
        def nbytes(self) -> int:
            measured.append(self.path)
            return 8

    def read(_: FullRowSearch, file: SearchedFile) -> list[Any]:
        return [full_row_search._Rows(file.path, 0, Measured(file.path))]  # type: ignore[arg-type]

    monkeypatch.setattr(FullRowSearch, "_read", read)
    monkeypatch.setattr(FullRowSearch, "_chosen", lambda *_: [])
    paths = [f"{number}" for number in range(100)]
    assert list(search.find([SearchedFile(path, 1, {}, {}) for path in paths], lambda _: pa.array([]).to_numpy())) == []
    assert measured == paths


def test_the_deleted_rows_of_a_file_are_asked_for_once_however_many_parts_it_has(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[str] = []
    seen: list[tuple[str, list[int]]] = []

    def deleted(_java: Any, _name: str, path: str) -> bytes:
        asked.append(path)
        return np.array([7], "<i8").tobytes()

    class Parts:
        def matching(self, files: list[str]) -> list[str]:
            return files

        def find(self, files: list[str], hidden: Callable[[str], RowNumbers]) -> Iterator[tuple[str, RowNumbers]]:
            for part, path in enumerate(files):
                seen.append((path, hidden(path).tolist()))
                yield path, np.array([part])

    monkeypatch.setattr(full_row_deletes, "called", deleted)
    hits = _Hits(None)
    hits.deleted = {"old"}
    hits.add(Parts(), ["old", "old", "new", "old"])  # type: ignore[arg-type, list-item]
    assert seen == [("old", [7]), ("old", [7, 0]), ("new", []), ("old", [7, 0, 1])]
    assert asked == ["old"]


def test_a_delete_that_is_older_than_a_column_takes_an_older_row_before_one_of_a_later_batch(tmp_path: Path) -> None:
    fields = [{"name": "n", "type": "long"}, {"name": "new", "type": "long"}]
    old, new = (
        Table("db.t", "u", str(tmp_path), schema_from_columns(columns).model_dump_json(), '{"spec-id":0,"fields":[]}')
        for columns in (fields[:1], fields)
    )
    writers, deletes = Writers("a", 10), DeletedRows(old)
    gone = deletes.of(pa.table([[1]], schema=arrow_schema(old.schema)))
    writers.write(RowStream(0, "gone"), deletes.table, {}, gone, deletes.ids)
    for name, table, row in (("same", old, [[1]]), ("later", new, [[1], [5]])):
        writers.write(RowStream(0, name), table, {}, pa.table(row, schema=arrow_schema(table.schema)))
    files = {
        stream.table: msgspec.json.decode(made.files[0], type=ContentFile) for stream, made in writers.close().items()
    }
    batches = {1: [files["same"]], 2: [files["gone"]], 3: [files["later"]]}
    earlier, later = _around(batches, tuple(deletes.ids))
    assert [[file.path for file in part] for part in (earlier, later)] == [
        [files["same"].file_path],
        [files["later"].file_path],
    ]
    search = FullRowSearch(new, deletes.ids[:-1], [gone])
    none = pa.array([], pa.int64()).to_numpy()
    assert [path for part in (earlier, later) for path, _ in search.find(part, lambda _: none)] == [earlier[0].path]


@pytest.mark.spark
def test_a_nested_column_that_gets_a_field_while_batches_wait_stops_no_commit(
    spark: SparkSession, tmp_path: Path
) -> None:
    mirror = Mirror(spark, tmp_path, 2, [])
    mirror.commit({1: mirror.stage([0, 5, 8], [])})
    files = {2: mirror.stage([1, 8], [0]), 3: mirror.stage([], [1])}
    spark.sql(f"ALTER TABLE lakehouse.{NAME} ADD COLUMN inner.added STRING")
    mirror.commit(files)
    rows = spark.sql(f"SELECT n, text, inner.added FROM lakehouse.{NAME} ORDER BY n, text")
    assert [tuple(row) for row in rows.collect()] == [(1, "", None), (2, "b", None), (2, "b", None)]

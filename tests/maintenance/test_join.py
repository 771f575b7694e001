"""Small files are joined without Spark's SQL: the same rows, and only where copying them is enough."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from calve.maintenance import join
from calve.maintenance.by_need import Rounds
from calve.maintenance.deleted_keys import Delete
from calve.maintenance.join import copied
from calve.record.content_file import ContentFile
from calve.record.target import Stream
from calve.table.arrow_schema import arrow_schema
from calve.table.loaded import Table
from calve.write.writer import Writers
from maintenance.conftest import Kept
from maintenance.test_by_need import LIMITS, add, files_of

COLUMNS = {
    "id": "long",
    "code": "int",
    "ratio": "float",
    "at": "timestamptz",
    "day": "date",
    "amount": "decimal(12,2)",
    "key": "uuid",
    "raw": "binary",
    "tags": {"type": "list", "element-id": 20, "element": "string", "element-required": False},
    "counts": {
        "type": "map",
        "key-id": 21,
        "key": "string",
        "value-id": 22,
        "value": "long",
        "value-required": False,
    },
    "inner": {"type": "struct", "fields": [{"id": 23, "name": "a", "type": "double", "required": False}]},
}


def table(folder: Path, columns: dict[str, object], partition: bool = False) -> Table:
    fields = [
        {"id": number, "name": name, "type": kind, "required": False}
        for number, (name, kind) in enumerate(columns.items(), 1)
    ]
    parts = [{"source-id": 1, "field-id": 1000, "name": "part", "transform": "truncate[10]"}] if partition else []
    return Table(
        identifier="db.t",
        uuid="u",
        location=str(folder),
        schema_json=json.dumps({"type": "struct", "schema-id": 0, "fields": fields}),
        spec_json=json.dumps({"spec-id": 0, "fields": parts}),
    )


def row(number: int) -> dict[str, object]:
    return {
        "id": number,
        "code": number,
        "ratio": float("nan") if number == 3 else number / 2,
        "at": 1_700_000_000_000_000 + number,
        "day": number,
        "amount": Decimal(number),
        "key": number.to_bytes(16, "big"),
        "raw": b"\x00" * number,
        "tags": [str(number), None],
        "counts": [("a", number)],
        "inner": {"a": number * 1.5},
    }


def written(table: Table, name: str, numbers: list[int | None]) -> list[str]:
    """Write a file for some rows; None is a row of nulls."""
    wanted = arrow_schema(table.schema)
    columns = [
        pa.array([None if one is None else row(one).get(each.name) for one in numbers], _storage(each.type)).cast(
            each.type
        )
        for each in wanted
    ]
    writers = Writers(name, 10)
    writers.write(Stream(0, ""), table, {}, pa.table(columns, schema=wanted))
    return [described(file).file_path for one in writers.close().values() for file in one.files]


def bare(paths: list[str]) -> list[tuple[str, list[Delete]]]:
    """Return files to which no delete applies."""
    return [(path, []) for path in paths]


def _storage(kind: pa.DataType) -> pa.DataType:
    return kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind


def described(file: bytes) -> ContentFile:
    return msgspec.json.decode(file, type=ContentFile)


def test_rows_of_every_type_are_copied_with_the_counts_and_bounds_of_their_files(tmp_path: Path) -> None:
    made = table(tmp_path, COLUMNS)
    paths = [*written(made, "a", [1, 2, None]), *written(made, "b", [3, 4])]
    found = copied(made, [(bare(paths), 2_000, 1)])
    assert found
    [file] = [described(json.dumps(one).encode()) for one in json.loads(found[0])]
    before = pa.concat_tables([pq.read_table(path) for path in paths])
    after = pq.read_table(file.file_path)
    assert after.schema.equals(before.schema, check_metadata=True)
    assert str(after.to_pylist()) == str(before.to_pylist())
    assert file.record_count == 5
    assert file.null_value_counts
    assert set(file.null_value_counts.values[:7]) == {1}


def test_rows_go_to_the_partition_that_the_table_has_now(tmp_path: Path) -> None:
    made = table(tmp_path, {"id": "long"}, partition=True)
    paths = written(table(tmp_path, {"id": "long"}), "a", [1, 2, 11])
    [found] = copied(made, [(bare(paths), 2_000, 1)]) or []
    assert [(one["partition"], one["record-count"]) for one in json.loads(found)] == [([0], 2), ([10], 1)]


@pytest.mark.parametrize(
    "now",
    [
        {"id": "long", "code": "int", "more": "string"},
        {"id": "long"},
        {"id": "long", "renamed": "int"},
    ],
)
def test_files_with_other_columns_are_left_to_iceberg_and_nothing_is_left_behind(tmp_path: Path, now) -> None:
    alike = {"id": "long", "code": "int"}
    old = written(table(tmp_path, alike), "a", [1])
    new = written(table(tmp_path, now), "b", [2])
    assert copied(table(tmp_path, now), [(bare(new + old), 1_000, 1)]) is None
    assert {str(one) for one in tmp_path.rglob("*.parquet")} == {*old, *new}


def test_a_column_that_has_become_wider_is_copied(tmp_path: Path) -> None:
    narrow = written(table(tmp_path, {"id": "int", "code": "int"}), "b", [7])
    now = table(tmp_path, {"id": "long", "code": "int"})
    [found] = copied(now, [(bare(narrow), 1_000, 1)]) or []
    [file] = json.loads(found)
    assert pq.read_table(file["file-path"]).to_pylist() == [{"id": 7, "code": 7}]


def test_a_group_that_makes_several_files_is_divided_evenly(tmp_path: Path) -> None:
    made = table(tmp_path, {"id": "long", "code": "int"})
    paths = [path for name in "abcd" for path in written(made, name, list(range(30_000)))]
    size = sum(Path(path).stat().st_size for path in paths)
    [found] = copied(made, [(bare(paths), size, 2)]) or []
    rows = [one["record-count"] for one in json.loads(found)]
    assert sum(rows) == 120_000
    assert 2 <= len(rows) <= 4


@pytest.mark.spark
def test_a_table_keeps_its_rows_and_deletes_that_come_meanwhile_apply_to_joined_rows(kept, monkeypatch) -> None:
    table: Kept = kept((("city", "identity"),))
    for number in range(6):
        add(table, {number: ("x", number), 100 + number: (None, number)})
    change, java_class = table.stage({3: ("x", 33)}, [4]), join.java_class

    class Meanwhile:
        """The Java class; something is committed between its plan and its commit."""

        def __init__(self, *arguments: object) -> None:
            self.java = java_class(*arguments).newInstance()

        def newInstance(self) -> object:  # noqa: N802 # Java's name
            return self

        def plan(self, *arguments: object) -> object:
            planned = self.java.plan(*arguments)
            table.commit(change)
            return planned

        def deleteBytes(self) -> object:  # noqa: N802 # Java's name
            return self.java.deleteBytes()

        def commit(self, *arguments: object) -> None:
            self.java.commit(*arguments)

    monkeypatch.setattr(join, "java_class", Meanwhile)
    found = Rounds(table.bench, LIMITS).run()
    monkeypatch.undo()
    assert any("data files joined into" in step for step in found.done)
    assert table.rows() == table.oracle
    assert {Path(path).name[:7] for path in files_of(table)["city=null"]} == {"joined-"}


@pytest.mark.spark
@pytest.mark.parametrize("version", [2, 3])
def test_files_with_equality_deletes_are_joined_and_tables_with_row_ids_are_left_to_icebergs_action(
    kept, version: int
) -> None:
    table: Kept = kept((("city", "identity"),), version)
    for number in range(6):
        if version == 3:
            add(table, {number: ("x", number)})
        else:
            table.change({number: ("x", number), 50: ("x", number)})
    before = len(files_of(table)["city=x"])
    Rounds(table.bench, LIMITS).run()
    assert table.rows() == table.oracle
    after = files_of(table)["city=x"]
    assert len(after) < before
    assert any(Path(path).name.startswith("joined-") for path in after) is (version == 2)

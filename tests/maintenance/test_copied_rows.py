"""Rows are copied into new files as they are, and only where copying them is enough."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from msgspec import structs

from calve.catalog import data_files
from calve.errors import MaintenanceError
from calve.maintenance.copied_rows import CopiedFile, CopiedGroup, FileGroup, copied, packed
from calve.maintenance.deleted_keys import Delete
from calve.maintenance.moved_deletes import moved_rows
from calve.record.content_file import ContentFile
from calve.record.target import RowStream
from calve.table.arrow_schema import arrow_schema
from calve.table.loaded import Table
from calve.write.writer import Writers
from kit.content_files import data_file

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
        {"id": number, "name": name, "required": False}
        | (kind if isinstance(kind, dict) and "initial-default" in kind else {"type": kind})
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
    writers.write(RowStream(0, ""), table, {}, pa.table(columns, schema=wanted))
    return [described(file).file_path for one in writers.close().values() for file in one.files]


def group(paths: list[str], size: int, into: int = 1, keys: Sequence[Delete] = (), **about: Any) -> FileGroup:
    """Return files as a plan has them."""
    rows = [pq.read_metadata(path).num_rows for path in paths]
    sizes = [size // len(paths)] * len(paths)
    files = zip(paths, sizes, rows, strict=True)
    return FileGroup([CopiedFile(*file, keys=keys, **about) for file in files], into)


def new_files(table: Table, *groups: FileGroup) -> list[ContentFile]:
    """Copy groups and return their new files."""
    outcome = copied(table, groups)
    assert outcome
    return [file for copies in outcome for file in copies.files]


def _storage(kind: pa.DataType) -> pa.DataType:
    return kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind


def described(file: bytes) -> ContentFile:
    return msgspec.json.decode(file, type=ContentFile)


def test_rows_of_every_type_are_copied_with_the_counts_and_bounds_of_their_files(tmp_path: Path) -> None:
    created = table(tmp_path, COLUMNS)
    paths = [*written(created, "a", [1, 2, None]), *written(created, "b", [3, 4])]
    [file] = new_files(created, group(paths, 2_000))
    before = pa.concat_tables([pq.read_table(path) for path in paths])
    after = pq.read_table(file.file_path)
    assert after.schema.equals(before.schema, check_metadata=True)
    assert str(after.to_pylist()) == str(before.to_pylist())
    assert file.record_count == 5
    assert file.null_value_counts
    assert set(file.null_value_counts.values[:7]) == {1}


def test_rows_go_to_the_partition_that_the_table_has_now(tmp_path: Path) -> None:
    created = table(tmp_path, {"id": "long"}, partition=True)
    paths = written(table(tmp_path, {"id": "long"}), "a", [1, 2, 11])
    files = new_files(created, group(paths, 2_000))
    assert [(file.partition, file.record_count) for file in files] == [([0], 2), ([10], 1)]


def test_files_that_only_iceberg_can_read_are_left_to_it_and_nothing_is_left_behind(tmp_path: Path) -> None:
    part = {"id": 24, "name": "b", "type": "double", "required": False, "initial-default": 1.5}
    now = {"id": "long", "inner": {"type": "struct", "fields": [part]}}
    old = written(table(tmp_path, {"id": "long", "inner": COLUMNS["inner"]}), "a", [1])
    new = written(table(tmp_path, now), "b", [2])
    assert copied(table(tmp_path, now), [group(new + old, 1_000)]) is None
    assert {str(one) for one in tmp_path.rglob("*.parquet")} == {*old, *new}


def test_columns_that_were_added_dropped_and_renamed_since_are_copied_by_their_ids(tmp_path: Path) -> None:
    old = written(table(tmp_path, {"id": "long", "code": "int"}), "a", [1, 2])
    for now, expected in (
        (
            {"id": "long", "code": "int", "more": "string"},
            [{"id": 1, "code": 1, "more": None}, {"id": 2, "code": 2, "more": None}],
        ),
        (
            {"id": "long", "code": "int", "more": {"type": "date", "initial-default": "2026-01-02"}},
            [{"id": 1, "code": 1, "more": date(2026, 1, 2)}, {"id": 2, "code": 2, "more": date(2026, 1, 2)}],
        ),
        ({"id": "long"}, [{"id": 1}, {"id": 2}]),
        ({"id": "long", "renamed": "int"}, [{"id": 1, "renamed": 1}, {"id": 2, "renamed": 2}]),
    ):
        [file] = new_files(table(tmp_path, now), group(old, 1_000))
        assert pq.read_table(file.file_path).to_pylist() == expected


def test_a_column_that_has_become_wider_is_copied(tmp_path: Path) -> None:
    narrow = written(table(tmp_path, {"id": "int", "code": "int"}), "b", [7])
    now = table(tmp_path, {"id": "long", "code": "int"})
    [file] = new_files(now, group(narrow, 1_000))
    assert pq.read_table(file.file_path).to_pylist() == [{"id": 7, "code": 7}]


def test_a_group_that_makes_several_files_is_divided_evenly(tmp_path: Path) -> None:
    created = table(tmp_path, {"id": "long", "code": "int"})
    paths = [path for name in "abcd" for path in written(created, name, list(range(30_000)))]
    size = sum(Path(path).stat().st_size for path in paths)
    rows = [file.record_count for file in new_files(created, group(paths, size, 2))]
    assert sum(rows) == 120_000
    assert 2 <= len(rows) <= 4


def test_a_row_that_is_deleted_meanwhile_is_found_in_the_new_files_whatever_was_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where whole batches of rows are left out; the oracle is the row's own value."""
    monkeypatch.setattr(data_files, "_BATCH_ROWS", 2)
    created = table(tmp_path, {"id": "long"})
    chosen = np.random.default_rng(7)
    for at in range(20):
        sizes = [int(chosen.integers(1, 9)) for _ in range(4)]
        starts = np.cumsum([0, *sizes])
        paths = [
            path
            for number, rows in enumerate(sizes)
            for path in written(created, f"{at}-{number}", list(range(starts[number], starts[number] + rows)))
        ]
        gone = [chosen.random(rows) < chosen.choice((0, 0.4, 1)) for rows in sizes]
        files = [
            CopiedFile(path, 100, rows, hidden=packed(mask))
            for path, rows, mask in zip(paths, sizes, gone, strict=True)
        ]
        [outcome] = copied(created, [FileGroup(files, 1)]) or []
        assert [np.unpackbits(np.frombuffer(bits, "u1"), bitorder="little").sum() for bits in outcome.dropped] == [
            int(mask.sum()) for mask in gone
        ]
        now = [mask | (chosen.random(len(mask)) < 0.5) for mask in gone]
        moved = dict(moved_rows(FileGroup(files, 1), outcome, [packed(mask) for mask in now]))
        values = {
            value for path, rows in moved.items() for value in pq.read_table(path)["id"].to_numpy()[rows].tolist()
        }
        assert values == set(np.flatnonzero(np.concatenate(now) & ~np.concatenate(gone)).tolist())


def test_places_in_several_new_files_follow_the_order_of_their_rows() -> None:
    files = [CopiedFile("a", 1, 5), CopiedFile("b", 1, 5)]
    new = [data_file(name, 1, count) for name, count in (("x", 3), ("y", 4))]
    dropped = [packed(np.array([1, 0, 0, 0, 0], bool)), packed(np.array([0, 1, 1, 0, 0], bool))]
    outcome = CopiedGroup(new, dropped)
    hidden = [packed(np.array([0, 0, 0, 1, 1], bool)), packed(np.array([1, 0, 1, 0, 1], bool))]
    moved = {path: rows.tolist() for path, rows in moved_rows(FileGroup(files, 1), outcome, hidden)}
    assert moved == {"x": [2], "y": [0, 1, 3]}
    several = CopiedGroup([new[0], structs.replace(new[1], partition=[7])], dropped)
    with pytest.raises(MaintenanceError, match="several partitions"):
        list(moved_rows(FileGroup(files, 1), several, hidden))
    assert not list(moved_rows(FileGroup(files, 1), several, dropped))


def test_rows_of_version_3_keep_their_ids_and_when_they_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(data_files, "_BATCH_ROWS", 2)
    plain = table(tmp_path, {"id": "long"})
    created = dataclasses.replace(plain, format_version=3)
    first, second = (written(plain, name, [1, 2, 3]) for name in "ab")
    [one] = new_files(
        created, group(first, 100, first_row_id=40, sequence_number=6, hidden=packed(np.array([0, 1, 0], bool)))
    )
    assert pq.read_table(one.file_path).to_pylist() == [
        {"id": 1, "_row_id": 40, "_last_updated_sequence_number": 6},
        {"id": 3, "_row_id": 42, "_last_updated_sequence_number": 6},
    ]
    files = [
        CopiedFile(one.file_path, 1, 2, (), 9, 100),
        CopiedFile(second[0], 1, 3, (), 8, 50),
        CopiedFile(first[0], 1, 3),
    ]
    [two] = new_files(created, FileGroup(files, 1))
    rows = pq.read_table(two.file_path)
    assert rows["_row_id"].to_pylist() == [40, 42, 50, 51, 52, None, None, None]
    assert rows["_last_updated_sequence_number"].to_pylist() == [6, 6, 8, 8, 8, None, None, None]

"""Rows whose key is in an equality delete are not copied: the same ones that Iceberg's readers leave out."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from calve.maintenance.copied_rows import copied
from calve.maintenance.deleted_keys import Delete
from calve.table.loaded import Table
from calve.write.stored import stored_schema
from maintenance.test_copied_rows import COLUMNS, arrow_schema, group, table, written

NUMBERS = {name: number for number, name in enumerate(COLUMNS, 1)}
NAMES = ("id", "code", "at", "day", "amount", "key", "raw")


def delete(made: Table, name: str, columns: tuple[str, ...], numbers: list[int | None]) -> Delete:
    """Write the keys of some rows, as a file of equality deletes has them."""
    [path] = written(made, name, numbers)
    pq.write_table(pq.read_table(path, columns=list(columns)), path)
    return path, tuple(NUMBERS[one] for one in columns)


def left(made: Table, path: str, deletes: list[Delete]) -> list[int | None] | None:
    """Return the rows that a rewrite of a file keeps; None: it is left to Iceberg's action."""
    outcome = copied(made, [group([path], 2_000, keys=deletes)])
    if outcome is None:
        return None
    return [key for file in outcome[0].files for key in pq.read_table(file.file_path)["id"].to_pylist()]


@pytest.mark.parametrize("name", NAMES)
def test_a_key_of_each_type_is_found_and_a_null_is_a_key_like_any_other(tmp_path: Path, name: str) -> None:
    made = table(tmp_path, COLUMNS)
    [path] = written(made, "a", [1, 2, None, 3, 4])
    assert left(made, path, [delete(made, "b", (name,), [2, 4, 9])]) == [1, None, 3]
    assert left(made, path, [delete(made, "c", (name,), [None, 1])]) == [2, 3, 4]


def test_all_deletes_of_a_file_count_whatever_their_columns_are(tmp_path: Path) -> None:
    made = table(tmp_path, COLUMNS)
    [path] = written(made, "a", list(range(4_000)))
    deletes = [
        delete(made, "b", ("id",), list(range(0, 4_000, 2))),
        delete(made, "c", ("id",), [1, 5]),
        delete(made, "d", ("code", "key"), [3, 7]),
    ]
    assert left(made, path, deletes) == [one for one in range(4_000) if one % 2 and one not in (1, 3, 5, 7)]
    assert left(made, path, [delete(made, "e", ("id",), list(range(4_000)))]) == []


def test_a_column_that_has_become_wider_is_compared_as_it_is_now(tmp_path: Path) -> None:
    narrow, now = table(tmp_path, {"id": "int", "code": "int"}), table(tmp_path, {"id": "long", "code": "int"})
    [path] = written(narrow, "a", [1, 2, 3])
    deletes = [delete(narrow, "b", ("id",), [1]), delete(now, "c", ("id",), [3])]
    assert left(now, path, deletes) == [2]


@pytest.mark.parametrize("name", ["ratio", "tags"])
def test_keys_that_iceberg_compares_in_its_own_way_are_left_to_it(tmp_path: Path, name: str) -> None:
    made = table(tmp_path, COLUMNS)
    [path] = written(made, "a", [1, 2])
    assert left(made, path, [delete(made, "b", (name,), [1])]) is None


def test_keys_of_several_columns_with_a_null_are_left_to_iceberg(tmp_path: Path) -> None:
    made = table(tmp_path, COLUMNS)
    [path] = written(made, "a", [1, None])
    assert left(made, path, [delete(made, "b", ("id", "code"), [None])]) is None


def test_a_delete_file_without_the_key_is_left_to_iceberg(tmp_path: Path) -> None:
    made = table(tmp_path, {"id": "long", "code": "int"})
    [path] = written(made, "a", [1])
    schema = stored_schema(arrow_schema(made.schema))
    pq.write_table(pa.table({"code": pa.array([1], pa.int32())}, schema=pa.schema([schema.field("code")])), path + "-x")
    assert left(made, path, [(path + "-x", (1,))]) is None

"""A branch becomes equal to the one with the right rows, by the rows that differ alone, and once."""

from __future__ import annotations

import uuid
from pathlib import Path

import msgspec
import pytest

from calve.commit.compare import ApartLostError, Comparison, compare, other_writers
from calve.commit.fence import append, clear
from calve.commit.mark import CommitTarget, Mark
from calve.record.content_file import ContentFile
from calve.record.target import apart, beside
from commit.lake_table import Lake

pytestmark = pytest.mark.spark

MARK, BRANCH = Mark("p", "state", 9), apart("p", "main")
HOW = Comparison((("id",),))


def loaded(lake: Lake, right: list[int], note: str = "a", batch: int = 2) -> CommitTarget:
    """Give the target, whose right rows are loaded apart from it."""
    target, other = CommitTarget(lake.name), CommitTarget(lake.name, "", BRANCH)
    clear(lake.catalog, other, MARK)
    append(lake.catalog, other, MARK, {batch: [unique(lake, note, right)]})
    return target


def unique(lake: Lake, note: str, ids: list[int]) -> ContentFile:
    """Give a file with a name of its own."""
    file = lake.file(note, ids)
    path = f"{file.file_path.removesuffix('.parquet')}-{uuid.uuid4().hex}.parquet"
    Path(file.file_path).rename(path)
    return msgspec.structs.replace(file, file_path=path)


def wrong(lake: Lake, ids: list[int], batch: int = 1) -> None:
    """Write rows into the target."""
    append(lake.catalog, CommitTarget(lake.name), MARK, {batch: [unique(lake, "a", ids)]})


def test_rows_that_differ_are_written_and_the_branch_is_dropped_in_the_same_commit(lake: Lake) -> None:
    wrong(lake, [1, 2, 3, 4])
    target = loaded(lake, [2, 3, 4, 5])
    assert lake.ids() == [1, 2, 3, 4]
    before = len(list(lake.java.snapshots()))
    found = compare(lake.catalog, target, MARK, HOW)
    assert found is not None
    assert tuple(found) == (1, 0, 1)
    assert str(found) == "2 rows differed (1 new, 0 changed, 1 gone)"
    assert [row["id"] for row in _rows(lake)] == [2, 3, 4, 5]
    assert lake.java.refs().keySet().size() == 1
    assert len(list(lake.java.snapshots())) == before + 2, "the rows, and the mark"
    assert compare(lake.catalog, target, MARK, HOW) is None, "it was done"


def test_rows_with_other_values_are_changed_and_ignored_columns_do_not_count(lake: Lake) -> None:
    wrong(lake, [1, 2])
    found = compare(lake.catalog, loaded(lake, [1, 2], "b"), MARK, Comparison(HOW.key, ignored=frozenset({"note"})))
    assert found == (0, 0, 0)
    assert {row["note"] for row in _rows(lake)} == {"a"}
    append(lake.catalog, CommitTarget(lake.name), MARK, {3: [lake.file("c", [3])]})
    found = compare(lake.catalog, loaded(lake, [1, 2, 3], "b", 4), MARK, HOW)
    assert found == (0, 3, 0)
    assert {row["note"] for row in _rows(lake)} == {"b"}


def test_an_empty_target_gets_all_rows(lake: Lake) -> None:
    assert compare(lake.catalog, loaded(lake, [1, 2]), MARK, HOW) == (2, 0, 0)
    assert [row["id"] for row in _rows(lake)] == [1, 2]


def test_rows_that_were_loaded_and_dropped_by_somebody_are_not_taken_for_compared(lake: Lake) -> None:
    wrong(lake, [1])
    target = loaded(lake, [1, 2])
    lake.java.manageSnapshots().removeBranch(BRANCH).commit()
    with pytest.raises(ApartLostError, match="was dropped, before its rows were compared"):
        compare(lake.catalog, target, MARK, HOW)
    assert compare(lake.catalog, loaded(lake, [1, 2], batch=3), MARK, HOW) == (1, 0, 0), "it can be loaded again"


def test_other_pipelines_of_a_branch_are_named(lake: Lake) -> None:
    target = CommitTarget(lake.name)
    for number, name in enumerate(("p", "p.replay", "shop"), 1):
        append(lake.catalog, target, Mark(name, name, 9), {1: [lake.file(name, [number])]})
    append(lake.catalog, CommitTarget(lake.name, "", "audit"), Mark("q", "q", 9), {1: [lake.file("q", [9])]})
    assert other_writers(lake.catalog, target, MARK) == ["shop"]


def test_the_branch_of_loaded_rows_leads_to_the_one_that_they_are_for() -> None:
    for branch in ("main", "a/b"):
        assert beside(apart("p", branch)) == branch
        assert beside(branch) == branch


def _rows(lake: Lake) -> list[dict]:
    session = lake.catalog.spark.session
    frame = session.read.format("iceberg").load(lake.java.operations().current().metadataFileLocation())
    return sorted((row.asDict() for row in frame.collect()), key=lambda row: row["id"])

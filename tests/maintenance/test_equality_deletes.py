"""After a conversion no equality delete is left, and every row is as it was."""

from __future__ import annotations

from typing import Any

import pytest

from calve.catalog.attempt import Attempt
from calve.commit.fence import append
from calve.commit.mark import CommitTarget, Mark
from calve.engine import session
from calve.errors import MaintenanceError
from calve.maintenance import equality_deletes, join
from calve.maintenance.context import MaintenanceContext
from calve.maintenance.equality_deletes import Conversion, convert, remove_unneeded
from calve.maintenance.rewrite import rewrite

pytestmark = pytest.mark.spark


@pytest.fixture(params=["positions", "rewrite"], autouse=True)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Convert by position, or as what cannot be searched is converted."""
    if request.param == "rewrite":
        monkeypatch.setattr(equality_deletes, "keys_to_positions", lambda _: None)
    return str(request.param)


def grow(table: Any) -> None:
    """Rows that come, move between partitions and go, in batches of their own."""
    table.change({key: ("x", key) for key in range(10)})
    table.change({1: ("y", 100), 2: (None, 101), 20: ("y", 102)}, 3)
    table.change({2: ("x", 200), 3: ("y", 201)}, 4, 20)


@pytest.mark.parametrize("version", [2, 3])
def test_a_partitioned_table_whose_deletes_hold_everywhere_is_converted_for_every_reader(kept, version) -> None:
    table = kept(version=version)
    grow(table)
    assert table.bench.count().equality_deletes
    convert(table.bench)
    assert table.bench.count().equality_delete_files == 0
    assert table.rows() == table.with_pyiceberg() == table.oracle


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("partitions", [(), (("id", "bucket[2]"),), (("city", "identity"),)])
def test_a_table_whose_partitions_were_changed_is_converted_as_well(kept, version, partitions) -> None:
    table = kept(partitions, version)
    table.change({key: ("x", key) for key in range(10)})
    table.java.updateSpec().addField("n").commit()
    table.change({1: ("y", 100), 2: (None, 101)}, 3)
    convert(table.bench)
    assert table.bench.count().equality_delete_files == 0
    assert table.rows() == table.with_pyiceberg() == table.oracle
    table.change({1: ("z", 1), 5: ("z", 2)}, 2)
    assert table.rows() == table.oracle


def test_deletes_that_are_committed_during_a_conversion_hold_for_the_rows_it_rewrites(kept, monkeypatch) -> None:
    table = kept()
    grow(table)
    loaded = MaintenanceContext.load
    files = table.stage({1: ("x", 900)}, [5, 6])
    calls: list[Any] = []

    def load(bench: MaintenanceContext) -> Any:
        found = loaded(bench)
        calls.append(found)
        if len(calls) == 2:  # the rewrite has its snapshot to read from; the pipeline commits
            table.commit(files)
        return found

    monkeypatch.setattr(MaintenanceContext, "load", load)
    assert rewrite(table.bench, {"delete-file-threshold": "1"}).files
    assert table.rows() == table.oracle
    assert remove_unneeded(table.bench) >= 0
    assert table.rows() == table.oracle
    convert(table.bench)
    assert table.rows() == table.with_pyiceberg() == table.oracle


def test_a_delete_that_a_row_still_needs_is_not_removed(kept) -> None:
    table = kept()
    grow(table)
    before = table.bench.count()
    removed = remove_unneeded(table.bench)
    assert table.bench.count().equality_delete_files == before.equality_delete_files - removed
    assert table.rows() == table.oracle


def test_a_batch_that_is_committed_between_look_and_removal_loses_nothing(kept, monkeypatch) -> None:
    table = kept()
    grow(table)
    rewrite(table.bench, {"delete-file-threshold": "1"})
    files, look = table.stage({7: ("y", 700)}, [8]), Attempt.inspect

    def overtaken(begun: Attempt, branch: str) -> Any:
        found = look(begun, branch)
        monkeypatch.setattr(Attempt, "inspect", look)
        table.commit(files)
        return found

    monkeypatch.setattr(Attempt, "inspect", overtaken)
    remove_unneeded(table.bench)
    assert table.rows() == table.oracle


def test_a_delete_that_no_row_can_need_goes_though_no_file_is_rewritten(kept) -> None:
    table = kept()
    table.change({1: ("x", 1), 2: ("x", 2)})
    table.change({}, 1000)
    assert convert(table.bench) == Conversion()
    assert table.bench.count().equality_delete_files == 0
    assert table.rows() == table.with_pyiceberg() == table.oracle


def test_the_mark_of_a_pipeline_outlives_a_conversion(kept) -> None:
    table = kept()
    grow(table)
    again = {table.batch: table.stage({1: ("x", 5)})}
    mark = Mark("p", "0123abcd-0000-4000-8000-000000000000", table.batch)
    append(table.catalog, CommitTarget("db.t"), mark, {table.batch: again[table.batch - 1]})
    convert(table.bench)
    assert append(table.catalog, CommitTarget("db.t"), mark, {table.batch: again[table.batch - 1]}).already
    assert table.rows() == table.oracle


def test_a_branch_is_converted_and_main_is_left_alone(kept, way) -> None:
    table = kept()
    table.change({key: ("x", key) for key in range(5)})
    main = table.java.currentSnapshot().snapshotId()
    table.commit(table.stage({1: ("y", 10)}, [2]), "audit")
    bench = MaintenanceContext(session.start(), table.catalog, CommitTarget("db.t", branch="audit"))
    convert(bench)
    assert bench.count().equality_delete_files == 0
    assert (bench.count().rows, bench.count().position_delete_files) == ((6, 1) if way == "positions" else (4, 0))
    assert table.java.currentSnapshot().snapshotId() == main


@pytest.mark.parametrize("way", ["rewrite"], indirect=True)
def test_a_conversion_that_another_one_overtook_is_told_and_can_be_repeated(kept, monkeypatch) -> None:
    table = kept()
    grow(table)

    def overtake(point: str) -> None:
        monkeypatch.setattr(join, "stop_at", lambda _: None)
        convert(table.bench)

    monkeypatch.setattr(join, "stop_at", overtake)
    with pytest.raises(MaintenanceError) as told:
        convert(table.bench)
    assert told.value.hint
    convert(table.bench)
    assert table.rows() == table.oracle


def test_rows_that_are_older_than_a_column_keep_its_default_when_they_are_rewritten(kept) -> None:
    table = kept(version=3)
    grow(table)
    iceberg = session.start().jvm.org.apache.iceberg
    for text in ("old", "new"):
        update, literal = table.java.updateSchema(), iceberg.expressions.Literal.of(text)
        if text == "old":
            update = update.addColumn("z", iceberg.types.Types.StringType.get(), None, literal)
        else:
            update = update.updateColumnDefault("z", literal)
        update.commit()
    convert(table.bench)
    rewrite(table.bench, {"rewrite-all": "true"})
    assert table.bench.count().equality_delete_files == 0
    assert table.rows() == table.oracle
    assert {row["id"]: row["z"] for row in table.scanned()} == dict.fromkeys(table.oracle, "old")

"""The laws of rewriting files by copying rows: no row changes for any reader, whatever is committed meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Literal

import pytest
from pyspark.sql import SparkSession

from calve.commit.fence import append
from calve.commit.mark import CommitTarget, Mark
from calve.engine import session
from calve.errors import MaintenanceError
from calve.maintenance.by_need import Rounds
from calve.maintenance.context import MaintenanceContext
from calve.maintenance.join import join
from calve.maintenance.keys_to_positions import keys_to_positions
from calve.maintenance.rewrite import ANY_DELETE
from calve.record.target import WriteMode
from commit.test_changes import die_at
from commit.test_positions import NAME, Laws
from kit.examples import examples
from maintenance.conftest import Kept
from maintenance.test_by_need import LIMITS, add, files_of
from services import duckdb_iceberg

pytestmark = pytest.mark.spark

ALL = {"rewrite-all": "true"}
BUSY_COMMITS = examples(10)


class Compacting(Laws):
    """A table that is compacted while its pipeline and others commit."""

    def __init__(
        self,
        spark: SparkSession,
        folder: Path,
        seed: int,
        kinds: list[str],
        version: int,
        how: WriteMode | Literal["sorted"],
    ) -> None:
        super().__init__(spark, folder, seed, kinds, version)
        self.mode: WriteMode = "merge-on-read" if how == "sorted" else how
        self.uses_equality_deletes = how == "equality-delete"
        if how == "sorted":
            iceberg = self.catalog.spark.jvm.org.apache.iceberg
            order = self.java.replaceSortOrder().desc(
                iceberg.expressions.Expressions.ref("n"), iceberg.NullOrder.NULLS_LAST
            )
            order.asc(iceberg.expressions.Expressions.bucket("key", 3), iceberg.NullOrder.NULLS_FIRST).commit()

    @property
    def bench(self) -> MaintenanceContext:
        return MaintenanceContext(session.start(), self.catalog, CommitTarget(NAME))

    def upserts(self) -> None:
        self.commit(self.mode, None, None)

    def converts(self) -> None:
        keys_to_positions(self.bench)

    def lineage(self) -> dict[tuple[int, int], list[tuple[int, int]]]:
        """The ids of rows, and when they changed."""
        columns = "key, n, _row_id, _last_updated_sequence_number"
        rows = self.catalog.spark.session.sql(f"select {columns} from lakehouse.{NAME}").collect()
        ids: dict[tuple[int, int], list[tuple[int, int]]] = {}
        for key, n, row_id, updated in rows:
            ids.setdefault((key, n), []).append((row_id, updated))
        return {row: sorted(its) for row, its in ids.items()}

    def compacts_beside(self, meanwhile: list[Callable[[], None]], overtake: Callable[[], None] | None) -> int:
        """Join all files while others commit, one of them just before the swap; return how often it tried."""
        overtaking, tries = [overtake] if overtake else [], []

        def copied(point: str) -> None:
            if point == "maintain.after-copy":
                for action in meanwhile:
                    action()

        def before_swap(point: str) -> None:
            if point == "commit.before-swap":
                tries.append(point)
                if overtaking:
                    overtaking.pop()()
                    tries.pop()  # its own swap

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("calve.maintenance.join.stop_at", copied)
            patch.setattr("calve.maintenance.moved_deletes.swap", _hooked(before_swap))
            assert join(self.bench, ALL) is not None
        return len(tries) + bool(overtake)


def _hooked(hook: Callable[[str], None]) -> Callable[..., Any]:
    from calve.commit.swap import swap

    def hooked(*arguments: Any) -> Any:
        hook("commit.before-swap")
        return swap(*arguments)

    return hooked


@pytest.mark.parametrize(
    ("kinds", "version", "how"),
    [
        (["int"], 3, "merge-on-read"),
        (["int"], 3, "sorted"),
        (["string"], 2, "merge-on-read"),
        (["string"], 2, "sorted"),
        (["date"], 2, "merge-on-read"),
        (["int", "string"], 3, "equality-delete"),
        (["uuid"], 2, "equality-delete"),
    ],
)
def test_a_compaction_changes_no_row_whatever_others_did_before_and_do_meanwhile(
    spark: SparkSession,
    tmp_path: Path,
    duckdb: duckdb_iceberg.Reader | None,
    kinds: list[str],
    version: int,
    how: Any,
) -> None:
    for seed in range(examples(1)):
        laws = Compacting(spark, tmp_path / f"{seed}", hash((seed, *map(len, kinds))), kinds, version, how)
        before = ("adds", "deletes", "deletes_by_key", "converts", "changes_columns", "changes_the_spec")
        for _ in range(2):
            for action in laws.chosen.sample(before, laws.chosen.choice((1, 2))):
                getattr(laws, action)()
            laws.upserts()
            laws.upserts()
            deaths = (None, "commit.before-swap", "commit.after-swap")
            die_at(laws.chosen.choice(deaths), partial(join, laws.bench, ALL))
            kept = laws.lineage() if version == 3 else {}
            neighbours = [laws.upserts, laws.adds, laws.deletes_by_position, laws.deletes_by_key, laws.converts]
            meanwhile = [laws.chosen.choice(neighbours) for _ in range(laws.chosen.choice((0, 1, 3)))]
            laws.compacts_beside(meanwhile, laws.chosen.choice((None, laws.upserts, laws.adds)))
            after = laws.lineage() if version == 3 else {}
            assert {row: after[row] for row in kept if row in after} == {row: kept[row] for row in kept if row in after}
            keys = dict(laws.java.currentSnapshot().summary())["total-equality-deletes"]
            laws.check(has_equality_deletes=keys != "0")
            if duckdb:
                metadata = laws.java.operations().current().metadataFileLocation()
                rows = duckdb.query("SELECT key, n FROM iceberg_scan(?)", metadata)
                assert sorted(map(tuple, rows)) == sorted(laws.model.elements())


@pytest.mark.parametrize("version", [2, 3])
def test_a_compaction_beside_many_commits_needs_two_tries_and_moves_exactly_what_was_deleted_meanwhile(
    spark: SparkSession, tmp_path: Path, version: int
) -> None:
    laws = Compacting(spark, tmp_path, 1, ["int"], version, "merge-on-read")
    append(laws.catalog, CommitTarget(NAME), Mark("p", "s", 1), {1: laws.files(list(range(60)), [])})
    laws.batch, laws.model = 1, type(laws.model)({(key, 1): 1 for key in range(60)})
    for _ in range(3):
        laws.upserts()
    old = set(laws.model.elements())
    assert laws.compacts_beside([laws.upserts] * BUSY_COMMITS, laws.upserts) == 2
    laws.check(has_equality_deletes=False)
    left = sum(1 for row in laws.model.elements() if row in old)
    joined = [file for file in _files(laws) if "joined-" in file[0]]
    assert sum(rows for _, rows in joined) == len(old)
    assert sum(rows for _, rows in joined) - _hidden(laws, joined) == left
    assert laws.java.currentSnapshot().operation() == "replace"
    if version == 2:  # on 3 each data file has its vector
        assert int(dict(laws.java.currentSnapshot().summary())["total-delete-files"]) < BUSY_COMMITS


def _files(laws: Compacting) -> list[tuple[str, int]]:
    rows = laws.catalog.spark.session.sql(f"select file_path, record_count from lakehouse.{NAME}.data_files").collect()
    return [tuple(row) for row in rows]


def _hidden(laws: Compacting, files: list[tuple[str, int]]) -> int:
    """The positions that are deleted in some files, as Spark lists them."""
    sql = f"select count(distinct file_path, pos) from lakehouse.{NAME}.position_deletes where file_path in ({{}})"
    return int(laws.catalog.spark.session.sql(sql.format(", ".join(f"'{path}'" for path, _ in files))).first()[0])


def test_a_compaction_is_given_up_and_its_copies_removed_if_its_files_are_not_there_any_more(
    spark: SparkSession, tmp_path: Path
) -> None:
    laws = Compacting(spark, tmp_path, 1, ["int"], 3, "merge-on-read")
    laws.upserts()
    first = int(laws.java.currentSnapshot().snapshotId())
    before = laws.model.copy()
    laws.upserts()

    def goes_back() -> None:
        laws.java.manageSnapshots().setCurrentSnapshot(first).commit()
        laws.model = before

    for neighbour in (laws.compacts, goes_back):
        with pytest.raises(MaintenanceError, match="by another writer"):
            laws.compacts_beside([neighbour], None)
        laws.check(has_equality_deletes=False)
    assert not list(tmp_path.rglob("joined-*"))


def test_a_table_keeps_its_rows_and_deletes_that_come_meanwhile_apply_to_joined_rows(kept, monkeypatch) -> None:
    table: Kept = kept((("city", "identity"),))
    for number in range(6):
        add(table, {number: ("x", number), 100 + number: (None, number)})
    change = table.stage({3: ("x", 33)}, [4])
    monkeypatch.setattr("calve.maintenance.join.stop_at", lambda _: table.commit(change))
    done = Rounds(table.bench, LIMITS).run()
    monkeypatch.undo()
    assert any("data files joined into" in step for step in done.done)
    assert table.rows() == table.oracle
    assert {Path(path).name[:7] for path in files_of(table)["city=null"]} == {"joined-"}


@pytest.mark.parametrize("version", [2, 3])
def test_files_with_equality_deletes_are_joined(kept, version: int) -> None:
    table: Kept = kept((("city", "identity"),), version)
    for number in range(6):
        table.change({number: ("x", number), 50: ("x", number)})
    before = len(files_of(table)["city=x"])
    Rounds(table.bench, LIMITS).run()
    assert table.rows() == table.oracle
    after = files_of(table)["city=x"]
    assert len(after) < before
    assert any(Path(path).name.startswith("joined-") for path in after)


@pytest.mark.parametrize("version", [2, 3])
def test_files_with_many_deleted_rows_are_rewritten_and_no_others(
    spark: SparkSession, tmp_path: Path, version: int
) -> None:
    laws = Compacting(spark, tmp_path, 1, ["int"], version, "merge-on-read")
    for keys in (range(10), range(20, 30)):
        laws.batch += 1
        append(laws.catalog, CommitTarget(NAME), Mark("p", "s", laws.batch), {laws.batch: laws.files(list(keys), [])})
        laws.model.update((key, laws.batch) for key in keys)
    laws.deletes_of([*range(5), 20])
    untouched = [path for path, _ in _files(laws)]
    done = join(laws.bench, ANY_DELETE | {"min-file-size-bytes": "0"}, None, 0.3, 1 << 30)
    assert done is not None
    assert (done.files, done.into) == (1, 1)
    laws.check(has_equality_deletes=False)
    assert sum(path in untouched for path, _ in _files(laws)) == 1
    assert dict(laws.java.currentSnapshot().summary())["total-position-deletes"] == "1"

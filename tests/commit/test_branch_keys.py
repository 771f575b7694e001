"""The laws of deletes by position hold with a key index, whatever happens to the table, to the index, and between both."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from pyiceberg.table import StaticTable
from pyspark.sql import SparkSession

from calve.commit import branch_keys, key_index, key_levels
from calve.commit.branch_keys import BranchKeys
from calve.commit.index_folder import IndexFolder
from calve.commit.mark import CommitTarget
from calve.engine import session
from calve.maintenance import join as join_files
from calve.maintenance.context import MaintenanceContext
from calve.maintenance.join import join
from calve.maintenance.keys_to_positions import keys_to_positions
from calve.observe.log import Log
from calve.state.local_folder import LocalFolder
from commit.test_positions import DEATHS, NAME, NEIGHBOURS, Laws
from kit.compiled_core import needs_core
from kit.examples import examples

pytestmark = [pytest.mark.spark, needs_core]


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let few rows make many runs, and let every commit use the index and compare a file with it."""
    monkeypatch.setattr(branch_keys, "LOCAL_ROWS", 0)
    monkeypatch.setattr(branch_keys, "AUDITED_ROWS", 1_000_000)
    monkeypatch.setattr(key_index, "RUN_ROWS", 12)
    monkeypatch.setattr(key_levels, "_SMALL_ROWS", 5)


class IndexedLaws(Laws):
    """Two pipelines, each with an index of its own, and accidents of the first one's."""

    def __init__(self, spark: SparkSession, folder: Path, seed: int, kinds: list[str], version: int) -> None:
        super().__init__(spark, folder, seed, kinds, version)
        self.folder = folder
        self.state = LocalFolder(folder / "state")
        self.indexes = {name: self.opened(name) for name in "pq"}
        self.turn("p")

    def opened(self, name: str) -> BranchKeys:
        uuid = str(self.java.uuid())
        return BranchKeys(IndexFolder(self.state / name, uuid, "main"), NAME, Log(name))

    def turn(self, name: str) -> None:
        self.pipeline, self.keys = name, self.indexes[name]

    @property
    def path(self) -> Path:
        return self.folder / "state" / "p" / "keys" / self.indexes["p"]._folder.name

    def restarts(self) -> None:
        """The process of the first pipeline ends after the swap: what it expected of its commit is lost."""
        self.indexes["p"].close()
        self.indexes["p"] = self.opened("p")

    def loses(self) -> None:
        self.indexes["p"].close()
        shutil.rmtree(self.path, ignore_errors=True)
        self.restarts()

    def keeps(self) -> None:
        """Copy the index, for `restores`."""
        if self.path.exists():
            shutil.rmtree(self.folder / "copy", ignore_errors=True)
            shutil.copytree(self.path, self.folder / "copy")

    def restores(self) -> None:
        """An index of an older time is back."""
        if (self.folder / "copy").exists():
            self.loses()
            shutil.copytree(self.folder / "copy", self.path)

    def damages(self) -> None:
        """Flip a bit, or cut a file."""
        self.restarts()
        if not self.path.exists():
            return
        file = self.chosen.choice([path for path in self.path.iterdir() if path.name != "lock"])
        content = bytearray(file.read_bytes())
        at = self.chosen.randrange(len(content))
        content[at] ^= 1 << self.chosen.randrange(8)
        file.unlink()
        file.write_bytes(content[: self.chosen.choice((at, len(content)))])

    def check(self, has_equality_deletes: bool) -> None:
        """Compare with the reader that needs no job, where it can read the table."""
        if has_equality_deletes:
            super().check(has_equality_deletes)
            return
        metadata = self.java.operations().current().metadataFileLocation()
        rows = StaticTable.from_metadata(metadata).scan(selected_fields=("key", "n")).to_arrow()
        assert sorted(zip(rows["key"].to_pylist(), rows["n"].to_pylist(), strict=True)) == sorted(self.model.elements())
        self.history.append((int(self.java.currentSnapshot().snapshotId()), self.model.copy()))

    def converts(self) -> None:
        keys_to_positions(MaintenanceContext(session.start(), self.catalog, CommitTarget(NAME)))

    def expires(self) -> None:
        expiry = self.java.expireSnapshots()  # by id: else Iceberg 1.12 deletes Puffin files that have live vectors
        for snapshot in list(self.java.snapshots())[:-1]:
            if snapshot.snapshotId() != self.java.currentSnapshot().snapshotId():
                expiry.expireSnapshotId(snapshot.snapshotId())
        expiry.commit()
        kept = {int(snapshot.snapshotId()) for snapshot in self.java.snapshots()}
        self.history = [(snapshot, rows) for snapshot, rows in self.history if snapshot in kept]


ACCIDENTS = ("restarts", "restarts", "loses", "keeps", "restores", "damages", "converts", "expires")


@pytest.mark.parametrize(
    ("kinds", "version"),
    [(["int"], 3), (["string"], 2), (["int", "string"], 3), (["uuid"], 3), (["decimal(38, 3)"], 2), (["date"], 3)],
)
def test_each_commit_leaves_the_rows_of_the_model_whatever_happens_to_table_and_index(
    spark: SparkSession, tmp_path: Path, kinds: list[str], version: int
) -> None:
    for seed in range(examples(1)):
        laws = IndexedLaws(spark, tmp_path / f"{seed}", hash((seed, *map(len, kinds))), kinds, version)
        laws.commit("merge-on-read", None, None)
        laws.check(has_equality_deletes=False)
        for number in range(12):
            for action in laws.chosen.sample(NEIGHBOURS + ACCIDENTS, laws.chosen.choice((0, 1, 1, 2))):
                getattr(laws, action)()
            if number % 4 == 3:
                laws.goes_back()
            racing = laws.chosen.choice((None, None, laws.adds, laws.compacts, laws.deletes_by_key))
            laws.turn("pq"[number % 3 // 2])
            laws.commit("merge-on-read", laws.chosen.choice(DEATHS), racing)
            summary = dict(laws.java.currentSnapshot().summary())
            assert "spark.app.id" not in summary  # of a MERGE
            laws.check(summary["total-equality-deletes"] != "0")
        assert all(laws.indexes[name].is_used() for name in "pq")


@pytest.mark.parametrize("version", [2, 3])
def test_commits_with_an_index_go_on_beside_a_compaction_that_runs(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    laws = IndexedLaws(spark, tmp_path, version, ["int"], version)
    commits = 0

    def commit(times: int = 1) -> None:
        nonlocal commits
        for _ in range(times):
            laws.commit("merge-on-read", None, None)
            laws.check(has_equality_deletes=False)
            commits += 1

    commit(3)
    for _ in range(2):
        monkeypatch.setattr(join_files, "stop_at", lambda _: commit(2))  # its rows are copied, and not yet committed
        done = join(MaintenanceContext(session.start(), laws.catalog, CommitTarget(NAME)), {"rewrite-all": "true"})
        assert done is not None
        laws.check(has_equality_deletes=False)
        commit(2)
    assert commits == 11
    stats = laws.indexes["p"].stats
    assert stats is not None
    assert (stats.stale, stats.rebuilt) == (0, 0)
    assert stats.audited_rows > 0

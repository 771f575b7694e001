"""Two pipelines with key indexes, accidents of these, and a neighbour that does everything to their table."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyiceberg.table import StaticTable
from pyspark.sql import SparkSession

from calve.commit.branch_keys import BranchKeys
from calve.commit.fence import append
from calve.commit.index_folder import IndexFolder
from calve.commit.mark import CommitTarget, Mark
from calve.engine import session
from calve.maintenance.context import MaintenanceContext
from calve.maintenance.keys_to_positions import keys_to_positions
from calve.observe.log import Log
from calve.record.content_file import ContentFile
from calve.state.local_folder import LocalFolder
from commit.test_positions import DEATHS, NAME, NEIGHBOURS, Laws, Model

ACCIDENTS = ("restarts", "restarts", "loses", "keeps", "restores", "damages", "converts", "expires")
OTHERS = ("adds_columns", "partitions_by_key", "branches_off", "rewrites_manifests", "deletes_by_position")
WHILE_WAITING = ("adds", "compacts", "changes_the_spec", "changes_columns", "adds_columns", "partitions_by_key")


class IndexedLaws(Laws):
    """Two pipelines, each with an index of its own, and accidents of the first one's."""

    def __init__(self, spark: SparkSession, folder: Path, seed: int, kinds: list[str], version: int) -> None:
        super().__init__(spark, folder, seed, kinds, version)
        self.folder = folder
        self.state = LocalFolder(folder / "state")
        self.indexes = {name: self.opened(name) for name in "pq"}
        self.branches: dict[str, Model] = {}
        self.buckets = 0
        self.while_waiting: tuple[str, ...] = ()
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
        referenced = {int(reference.snapshotId()) for reference in self.java.refs().values()}
        for snapshot in list(self.java.snapshots())[:-1]:
            if int(snapshot.snapshotId()) not in referenced:
                expiry.expireSnapshotId(snapshot.snapshotId())
        expiry.commit()
        kept = {int(snapshot.snapshotId()) for snapshot in self.java.snapshots()}
        self.history = [(snapshot, rows) for snapshot, rows in self.history if snapshot in kept]

    def adds_columns(self) -> None:
        """Add a column, or drop the one that was added before."""
        update = self.java.updateSchema()
        if self.java.schema().findField("more"):
            update.deleteColumn("more")
        else:
            update.addColumn("more", self.catalog.spark.jvm.org.apache.iceberg.types.Types.LongType.get())
        update.commit()

    def partitions_by_key(self) -> None:
        """Let a column of the key decide on the partition, or no longer."""
        update, name = self.java.updateSpec(), self.java.schema().findColumnName(1)
        if [field.name() for field in self.java.spec().fields() if field.sourceId() == 1]:
            update.removeField(self.by_key(name, self.buckets))
        else:
            self.buckets = self.chosen.choice((2, 3))
            update.addField(self.by_key(name, self.buckets))
        update.commit()

    def by_key(self, name: str, buckets: int) -> Any:
        return self.catalog.spark.jvm.org.apache.iceberg.expressions.Expressions.bucket(name, buckets)

    def branches_off(self) -> None:
        """Begin a branch, or delete keys of an older one, which shares data files with the main one."""
        if self.branches and self.chosen.random() < 0.5:
            name = self.chosen.choice(sorted(self.branches))
            keys = self.chosen.sample(range(40), 5)
            target = CommitTarget(NAME, branch=name, write_mode="merge-on-read")
            append(self.catalog, target, Mark(f"other{self.number}", "s", 1), {1: self.files([], keys)})
            self.branches[name] = Model({row: n for row, n in self.branches[name].items() if row[0] not in keys})
        else:
            name = f"b{len(self.branches)}"
            self.java.manageSnapshots().createBranch(name).commit()
            self.branches[name] = self.model.copy()

    def rewrites_manifests(self) -> None:
        self.by_sql("call lakehouse.system.rewrite_manifests('" + NAME + "')")

    def batches(self) -> tuple[dict[int, list[ContentFile]], Callable[[Model], Model]]:
        """Stage some batches, and perhaps let a neighbour change the table while they wait."""
        staged = super().batches()
        if self.while_waiting and self.chosen.random() < 0.4:
            getattr(self, self.chosen.choice(self.while_waiting))()
        return staged

    def live(self, commits: int, look: Callable[[bool], None], is_wild: bool = True) -> None:
        """Commit again and again while anything happens to the table and to the indexes.

        Args:
            commits: How many commits.
            look: Called after each with whether the table has equality deletes; compares readers with the model.
            is_wild: Whether others also change columns and branches, and all do so while batches wait, too.
        """
        actions = NEIGHBOURS + (OTHERS if is_wild else ()) + ACCIDENTS
        self.commit("merge-on-read", None, None)
        look(False)
        self.while_waiting = WHILE_WAITING if is_wild else ()
        for number in range(commits):
            for action in self.chosen.sample(actions, self.chosen.choice((0, 1, 1, 2))):
                getattr(self, action)()
            if number % 4 == 3:
                self.goes_back()
            racing = self.chosen.choice((None, None, self.adds, self.compacts, self.deletes_by_key))
            self.turn("pq"[number % 3 // 2])
            self.commit("merge-on-read", self.chosen.choice(DEATHS), racing)
            summary = dict(self.java.currentSnapshot().summary())
            assert "spark.app.id" not in summary, "a MERGE"
            look(summary["total-equality-deletes"] != "0")
        assert not any(keys._is_off for keys in self.indexes.values())
        self.check_branches()

    def check_branches(self) -> None:
        for name, model in self.branches.items():
            rows = self.catalog.spark.session.sql(f"select key, n from lakehouse.{NAME}.branch_{name}").collect()
            assert sorted(map(tuple, rows)) == sorted(model.elements()), name

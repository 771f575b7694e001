"""The laws of deletes by position hold with a key index, whatever happens to the table, to the index, and between both."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from calve.commit.mark import CommitTarget
from calve.engine import session
from calve.maintenance import join as join_files
from calve.maintenance.context import MaintenanceContext
from calve.maintenance.join import join
from commit.indexed_laws import IndexedLaws
from commit.test_positions import NAME
from kit.compiled_core import needs_core
from kit.examples import examples
from kit.small_indexes import small_indexes

pytestmark = [pytest.mark.spark, needs_core]


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    small_indexes(monkeypatch)


@pytest.mark.parametrize(
    ("kinds", "version", "is_wild"),
    [
        (["int"], 3, True),
        (["string"], 2, False),
        (["int", "string"], 3, False),
        (["uuid"], 3, False),
        (["decimal(38, 3)"], 2, False),
        (["date"], 3, True),
    ],
)
def test_each_commit_leaves_the_rows_of_the_model_whatever_happens_to_table_and_index(
    spark: SparkSession, tmp_path: Path, kinds: list[str], version: int, is_wild: bool
) -> None:
    for seed in range(examples(1)):
        laws = IndexedLaws(spark, tmp_path / f"{seed}", hash((seed, *map(len, kinds))), kinds, version)
        laws.live(8, laws.check, is_wild)


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

"""Commits keep a table's manifests few."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from py4j.protocol import Py4JJavaError
from pyiceberg.catalog.sql import SqlCatalog

from calve.commit.branch_files import BranchPlan
from calve.commit.fence import append
from calve.commit.mark import CommitTarget, Mark
from calve.engine.java.compiled import java_class

pytestmark = pytest.mark.spark
MOST = 4


def commit(lake: Any, number: int) -> int:
    """Commit a batch of one file; give how many manifests the table then has."""
    files = {number: [lake.file(f"f{number}", [number])]}
    append(lake.catalog, CommitTarget(lake.name), Mark("shop", "state-1", number), files)
    return int(lake.java.currentSnapshot().allManifests(lake.java.io()).size())


@pytest.fixture
def merging(lake: Any) -> Any:
    """A table whose manifests are merged as soon as there are four."""
    lake.java.updateProperties().set("commit.manifest.min-count-to-merge", str(MOST)).commit()
    return lake


def test_manifests_are_merged_when_there_are_as_many_as_the_table_says(merging: Any) -> None:
    assert [commit(merging, number) for number in range(1, 10)] == [1, 2, 3, 1, 2, 3, 1, 2, 3]
    assert merging.ids() == list(range(1, 10))


def test_manifests_are_merged_beside_a_writer_that_does_not_count_them(merging: Any) -> None:
    uri = merging.catalog.properties.get("uri")
    if uri is None:
        pytest.skip("PyIceberg has no such catalog")
    theirs = SqlCatalog("lakehouse", uri=uri.replace("jdbc:sqlite:", "sqlite:///")).load_table(merging.name)
    rows = pa.table({"id": [100]}, theirs.schema().select("id").as_arrow())
    for number in range(1, 7):
        theirs.refresh().append(rows)
        assert commit(merging, number) <= MOST
    assert merging.ids() == [1, 2, 3, 4, 5, 6, *[100] * 6]


@pytest.mark.parametrize("spoil", [dict.clear, lambda summary: summary.update({"manifests-kept": "few"})])
def test_a_summary_that_does_not_count_manifests_stops_no_commit(lake: Any, spoil: Callable[[Any], Any]) -> None:
    if "uri" not in lake.catalog.properties:
        pytest.skip("this catalog cannot register a table")
    commit(lake, 1)
    location = lake.java.operations().current().metadataFileLocation().removeprefix("file:")
    metadata = json.loads(Path(location).read_text())
    for snapshot in metadata["snapshots"]:
        spoil(snapshot["summary"])
        if not snapshot["summary"]:
            del snapshot["summary"]
    spoilt = Path(location).with_name("00009-spoilt.metadata.json")
    spoilt.write_text(json.dumps(metadata))
    identifier = lake.catalog._identifier(lake.name)
    lake.catalog._java.dropTable(identifier, False)
    lake.catalog._java.registerTable(identifier, str(spoilt))
    assert commit(lake, 2) == 2
    assert lake.ids() == [1, 2]


def test_the_size_of_a_list_of_many_manifests_is_known_after_a_commit(lake: Any) -> None:
    if "uri" not in lake.catalog.properties:
        pytest.skip("one catalog is enough")
    lake.java.updateProperties().set("commit.manifest.min-count-to-merge", "1000").commit()
    jvm = lake.catalog._jvm
    parts = lake.java.newTransaction()
    for number in range(99):
        file = jvm.org.apache.iceberg.DataFiles.builder(lake.java.spec()).withPath(
            f"{lake.table.location}/{number}.parquet"
        )
        parts.newFastAppend().appendFile(file.withFileSizeInBytes(1).withRecordCount(1).build()).commit()
    parts.commitTransaction()
    files = {1: [lake.file("f1", [1])]}
    held = append(lake.catalog, CommitTarget(lake.name), Mark("shop", "state-1", 1), files).held
    assert held is not None
    lake.java.refresh()
    stored = Path(lake.java.currentSnapshot().manifestListLocation().removeprefix("file:"))
    assert (held.manifests, held.manifest_list_bytes) == (100, stored.stat().st_size)


def test_what_is_remembered_of_manifests_is_bounded_in_bytes(lake: Any) -> None:
    """30 MB of each are remembered of two, but not of three, however few files they have."""
    if "uri" not in lake.catalog.properties:
        pytest.skip("one catalog is enough")
    commit(lake, 1)
    for number in range(2):
        add_large_bounds(lake, number)
    assert plan(lake) == plan_without_manifests(lake) == 1
    add_large_bounds(lake, 2)
    assert plan(lake) == 1
    with pytest.raises(Py4JJavaError, match="FileNotFoundException"):
        plan_without_manifests(lake)


def add_large_bounds(lake: Any, number: int) -> None:
    """Add deletes of no row whose bounds have 30 MB, in a manifest of their own."""
    jvm = lake.catalog._jvm
    bounds = {1: jvm.java.nio.ByteBuffer.allocate(15_000_000)}
    metrics = jvm.org.apache.iceberg.Metrics(1, None, None, None, None, bounds, bounds)
    file = jvm.org.apache.iceberg.FileMetadata.deleteFileBuilder(lake.java.spec()).ofPositionDeletes()
    file = file.withPath(f"{lake.table.location}/delete-{number}.parquet").withFileSizeInBytes(1).withMetrics(metrics)
    lake.java.newRowDelta().addDeletes(file.build()).commit()


def plan(lake: Any) -> int:
    java = java_class(lake.catalog._jvm, "calve.commit.positions", "Positions").newInstance()
    begun = lake.catalog.begin(lake.name)
    begun.inspect("main")
    return len(BranchPlan(java, begun, "main").files([]).files)


def plan_without_manifests(lake: Any) -> int:
    """Plan while there are no manifests, which Iceberg's lists name."""
    folder = Path(lake.table.location.removeprefix("file:")) / "metadata"
    hidden = [path.rename(path.with_suffix(".hidden")) for path in folder.glob("*-m*.avro")]
    try:
        return plan(lake)
    finally:
        for path in hidden:
            path.rename(path.with_suffix(".avro"))

"""A table accepts commits although its last commit is in the future of this machine's clock."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs
from pyiceberg.table import StaticTable

from calve.columns.evolve import Evolution, NewColumn
from calve.commit.fence import append
from calve.commit.mark import CommitTarget, Mark
from calve.record.content_file import ContentFile
from commit.lake_table import lake

__all__ = ["lake"]
pytestmark = pytest.mark.spark

HOUR_MS = 3_600_000


def mark(batch: int) -> Mark:
    return Mark("shop", "state-1", batch)


def set_clock_back(lake: Any, by_ms: int = HOUR_MS) -> int:
    """Move all times of the table into the future instead; return the new time of its last commit."""
    file = Path(lake.java.operations().current().metadataFileLocation().removeprefix("file:"))
    metadata = json.loads(file.read_text())
    metadata["last-updated-ms"] += by_ms
    for entry in (*metadata["snapshots"], *metadata["snapshot-log"], *metadata["metadata-log"]):
        entry["timestamp-ms"] += by_ms
    file.write_text(json.dumps(metadata))
    (file.parent / f".{file.name}.crc").unlink(missing_ok=True)
    return int(metadata["last-updated-ms"])


def times(lake: Any) -> list[int]:
    table = StaticTable.from_metadata(
        lake.catalog._java.loadTable(lake.catalog._identifier(lake.name)).operations().current().metadataFileLocation()
    )
    return [entry.timestamp_ms for entry in table.metadata.snapshot_log]


def deletes(lake: Any, name: str, ids: list[int]) -> ContentFile:
    return structs.replace(lake.file(name, ids), content="EQUALITY_DELETES", equality_ids=[1])


@pytest.mark.parametrize("mode", ["equality-delete", "merge-on-read"])
def test_batches_are_committed_after_the_clock_was_set_back_an_hour(lake: Any, mode: Any) -> None:
    target = CommitTarget(lake.name, write_mode=mode)
    append(lake.catalog, target, mark(1), {1: [lake.file("a", [1, 2])]})
    before = set_clock_back(lake)
    append(lake.catalog, target, mark(2), {2: [lake.file("b", [3])]})
    append(lake.catalog, target, mark(3), {3: [deletes(lake, "d", [1]), lake.file("c", [1])]})
    assert append(lake.catalog, target, mark(3), {3: [lake.file("c", [1])]}).already
    found = times(lake)
    assert found == sorted(found)
    assert before < found[-1] < before + 1000
    rows = lake.catalog.spark.session.read.format("iceberg").load(
        lake.java.operations().current().metadataFileLocation()
    )
    assert sorted(row.id for row in rows.select("id").collect()) == [1, 2, 3]


def test_columns_are_added_after_the_clock_was_set_back(lake: Any) -> None:
    append(lake.catalog, CommitTarget(lake.name), mark(1), {1: [lake.file("a", [1, 2])]})
    set_clock_back(lake)
    table = lake.catalog.evolve(lake.name, Evolution(add=(NewColumn((), "more", "string"),)))
    assert "more" in table.schema_json
    lake.java.updateProperties().set("owner", "me").commit()
    assert lake.catalog.load(lake.name).properties["owner"] == "me"


def test_a_clock_set_back_between_load_and_commit_makes_the_commit_start_again(
    lake: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    append(lake.catalog, CommitTarget(lake.name), mark(1), {1: [lake.file("a", [1, 2])]})
    before, told = set_clock_back(lake), []
    steady, as_it_is = lake.catalog.steady, lake.catalog.spark.jvm.java.util.function.Function.identity()

    class Stale:
        """The first load is from before the jump: the table is as Iceberg gives it."""

        load, commits = staticmethod(steady.load), staticmethod(steady.commits)

        @property
        def java(self) -> Any:
            told.append(1)
            return as_it_is if len(told) == 1 else steady.java

    monkeypatch.setattr(lake.catalog, "steady", Stale())
    outcome = append(lake.catalog, CommitTarget(lake.name), mark(2), {2: [lake.file("b", [3])]})
    assert (outcome.rows, len(told)) == (1, 2)
    assert times(lake)[-1] > before
    assert lake.ids() == [1, 2, 3]


def test_a_table_of_the_past_is_loaded_as_it_is(lake: Any) -> None:
    append(lake.catalog, CommitTarget(lake.name), mark(1), {1: [lake.file("a", [1])]})
    assert lake.java.operations().getClass().getSimpleName() != "Steady"
    assert times(lake)[-1] <= time.time() * 1000

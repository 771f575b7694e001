"""Where the iceberg source begins, what it keeps, and what it says when what comes next is gone."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from calve.catalog.catalog import Catalog
from calve.errors import NoTargetError, PositionLostError, SettingsError
from calve.event.typed import with_text
from calve.pipeline.plugins import PLUGINS
from calve.settings import parse_text
from calve.sources.iceberg import followed
from calve.sources.iceberg.source import IcebergSource
from calve.sources.source import Planned, Position
from calve.state.local_folder import LocalFolder

pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),  # PySpark's, of `collect`
]

YAML = "p:\n  source:\n    iceberg: {{tables: [{tables}]{more}}}\n  sink:\n    - iceberg: {{table_identifier: a.b}}\n"


class World:
    """A table, and a pipeline that reads it."""

    def __init__(self, spark: SparkSession, lake: Catalog, name: str, folder: Path) -> None:
        self.spark, self.lake, self.folder = spark, lake, folder
        self.identifier, self.name = f"db.{name}", f"lake.db.{name}"
        self.position: Position | None = None
        self.create()

    def create(self) -> None:
        self.spark.sql(
            f"CREATE TABLE {self.name} (id INT, v STRING) USING iceberg TBLPROPERTIES ('format-version'='2')"
        )

    def sql(self, text: str) -> int:
        """Run a statement on the table, `T`; give the snapshot that is there then."""
        self.spark.sql(re.sub(r"\bT\b", self.name, text, count=1))
        snapshot = self.java().currentSnapshot()
        return 0 if snapshot is None else int(snapshot.snapshotId())

    def insert(self, *ids: int) -> int:
        return self.sql("INSERT INTO T VALUES " + ", ".join(f"({number}, 'v{number}')" for number in ids))

    def java(self) -> Any:
        return self.lake.load_java(self.identifier)

    def tag(self) -> int | None:
        held = self.java().refs().get("calve-p")
        return None if held is None else int(held.snapshotId())

    def source(self, more: str = "", table: str = "", once: bool = True) -> IcebergSource:
        tables = f"{{table_name: {self.identifier}, identifier_columns: [id]{table}}}"
        settings = parse_text(YAML.format(tables=tables, more=more), PLUGINS).pipelines[0].source.value
        source = IcebergSource(settings, LocalFolder(self.folder), "p", lambda properties: self.lake)
        source.start(self.position, once)
        return source

    def read(self, more: str = "", table: str = "") -> list[tuple[str, int, str]]:
        """Run to the end of what is there; give the changes in order."""
        source, found = self.source(more, table), []
        while (planned := source.plan(self.position, 1 << 20)) is not None:
            found += changes(source, planned)
            self.position = json.loads(json.dumps(planned.position))
            source.acknowledge(planned)
        return found


def changes(source: IcebergSource, planned: Planned) -> list[tuple[str, int, str]]:
    found = []
    for split in planned.splits:
        for batch in source.reader.read(split):
            for row in with_text(pa.Table.from_batches([batch])).to_pylist():
                event = json.loads(row["event"])
                found.append((row["iceberg_operation"], event["id"], event["v"]))
    return found


@pytest.fixture
def world(spark: SparkSession, lake: Catalog, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[World]:
    name = request.node.name.removeprefix("test_").partition("[")[0][:60]
    return World(spark, lake, name, tmp_path / "iceberg")


def test_the_rows_come_first_and_then_the_changes_of_each_commit(world: World) -> None:
    world.insert(1, 2)
    assert sorted(world.read()) == [("INSERT", 1, "v1"), ("INSERT", 2, "v2")]
    world.sql("UPDATE T SET v = 'new' WHERE id = 1")
    last = world.sql("DELETE FROM T WHERE id = 2")
    assert world.read() == [("UPDATE_BEFORE", 1, "v1"), ("UPDATE_AFTER", 1, "new"), ("DELETE", 2, "v2")]
    assert world.read() == []
    assert world.tag() == last
    assert [path for path in world.folder.iterdir() if path.is_dir()] == []


def test_a_beginning_is_kept_whatever_is_committed_before_the_first_batch(world: World) -> None:
    world.insert(1)
    only_changes = ", disable_export: true"
    assert world.read(table=only_changes) == []
    world.insert(2)
    assert world.read(table=only_changes) == [("INSERT", 2, "v2")]


def test_a_beginning_may_be_a_snapshot_or_a_moment(world: World) -> None:
    first = world.insert(1)
    committed = world.java().snapshot(first).timestampMillis()
    world.insert(2)
    assert world.read(table=f", start_snapshot_id: {first}") == [("INSERT", 2, "v2")]
    world.position = None
    (world.folder / "begun.json").unlink()
    moment = datetime.fromtimestamp(committed / 1000, UTC).isoformat()
    assert world.read(table=f", start_timestamp: {moment}") == [("INSERT", 2, "v2")]
    world.position = None
    (world.folder / "begun.json").unlink()
    assert world.read(table=", start_timestamp: 2020-01-01T00:00:00Z") == [("INSERT", 1, "v1"), ("INSERT", 2, "v2")]


def test_a_load_goes_on_with_its_own_snapshot_in_the_middle(world: World) -> None:
    for number in range(4):
        world.insert(number)
    source = world.source()
    planned = source.plan(None, 1)  # a file at a time
    assert planned is not None
    seen = changes(source, planned)
    source.acknowledge(planned)
    world.position = planned.position
    world.sql("DELETE FROM T WHERE id < 4")
    world.insert(9)
    rest = world.read()
    assert sorted(seen + rest[:3]) == [("INSERT", number, f"v{number}") for number in range(4)]
    assert sorted(rest[3:]) == [("DELETE", 0, "v0"), *(("DELETE", n, f"v{n}") for n in (1, 2, 3)), ("INSERT", 9, "v9")]


def test_a_load_goes_on_when_its_snapshot_is_kept_by_the_tag_alone(world: World) -> None:
    for number in range(3):
        world.insert(number)
    source = world.source()
    planned = source.plan(None, 1)
    assert planned is not None
    seen = changes(source, planned)
    source.acknowledge(planned)
    world.position = planned.position
    world.insert(3)
    world.insert(4)
    _expire(world)
    assert sorted(seen + world.read()) == [("INSERT", number, f"v{number}") for number in range(5)]


def test_a_filter_and_columns_make_a_table_of_their_own(world: World) -> None:
    world.insert(1, 2, 3)
    part = ", where: id > 1"
    assert sorted(world.read(table=part)) == [("INSERT", 2, "v2"), ("INSERT", 3, "v3")]
    world.sql("UPDATE T SET id = 0 WHERE id = 3")
    world.sql("UPDATE T SET id = 5 WHERE id = 1")
    assert world.read(table=part) == [("DELETE", 3, "v3"), ("INSERT", 5, "v1")]
    for bad, said in (("where: nothing > 1", "cannot be filtered"), ("columns: [id, w]", "has no column w")):
        with pytest.raises(SettingsError, match=said):
            world.source(table=f", {bad}")


def test_many_small_commits_come_as_what_is_left_of_them(world: World) -> None:
    world.insert(0)
    world.read()
    for number in range(1, 8):
        world.insert(number)
    world.sql("DELETE FROM T WHERE id < 5")
    planned = world.source().plan(world.position, 1 << 20)
    assert planned is not None
    assert len({split.body["spool"] for split in planned.splits}) == 1
    found = world.read()
    assert sorted(found) == [("DELETE", 0, "v0"), *(("INSERT", number, f"v{number}") for number in (5, 6, 7))]


def test_the_tag_keeps_what_is_needed_when_snapshots_expire(world: World) -> None:
    world.insert(1)
    world.read()
    for number in range(2, 5):
        world.insert(number)
    _expire(world)
    assert len(world.java().history()) == 1
    assert sorted(world.read()) == [("INSERT", number, f"v{number}") for number in (2, 3, 4)]


def _expire(world: World) -> None:
    java = world.java()
    java.expireSnapshots().expireOlderThan(java.currentSnapshot().timestampMillis() + 1).retainLast(1).commit()


def _roll_back(world: World, first: int) -> None:
    world.java().manageSnapshots().rollbackTo(first).commit()
    world.insert(8)


def _expire_without_tag(world: World) -> None:
    world.java().manageSnapshots().removeTag("calve-p").commit()
    world.insert(3)
    world.insert(4)
    _expire(world)


def _recreate(world: World) -> None:
    world.spark.sql(f"DROP TABLE {world.name}")
    world.create()
    world.insert(7)


def _replace(world: World) -> None:
    name = world.name
    world.spark.sql(
        f"CREATE OR REPLACE TABLE {name} USING iceberg AS SELECT * FROM {name} WHERE id = 1 UNION SELECT 9, 'v9'"
    )


LOST: list[tuple[Callable[[World, int], None], str, list[tuple[str, int, str]]]] = [
    (_roll_back, "was rolled back", [("DELETE", 2, "v2"), ("INSERT", 8, "v8")]),
    (
        lambda world, _: _expire_without_tag(world),
        "it has expired",
        [("INSERT", number, f"v{number}") for number in (1, 2, 3, 4)],
    ),
    (
        lambda world, _: _replace(world),
        r"was replaced \(CREATE OR REPLACE TABLE\)",
        [("DELETE", 2, "v2"), ("INSERT", 9, "v9")],
    ),
    (lambda world, _: _recreate(world), "dropped and recreated", [("INSERT", 7, "v7")]),
]


@pytest.mark.parametrize(("lose", "said", "reloaded"), LOST, ids=["rolled back", "expired", "replaced", "recreated"])
def test_a_lost_position_is_told_and_read_again_only_when_it_is_said_so(
    spark: SparkSession,
    lake: Catalog,
    tmp_path: Path,
    lose: Callable[[World, int], None],
    said: str,
    reloaded: list[tuple[str, int, str]],
) -> None:
    world = World(spark, lake, f"lost_{len(said)}", tmp_path / "iceberg")
    first = world.insert(1)
    world.insert(2)
    world.read()
    lose(world, first)
    with pytest.raises(PositionLostError, match=said) as caught:
        world.read()
    assert "on_lost_position: reload" in caught.value.hint
    assert sorted(world.read(more=", on_lost_position: reload")) == reloaded
    assert world.read() == []


def test_several_tables_come_in_the_order_of_their_commits_each_with_its_place(world: World, lake: Catalog) -> None:
    other = World(world.spark, lake, "several_other", world.folder)
    both = f"}}, {{table_name: {other.identifier}, identifier_columns: [id]"
    world.insert(1)
    other.insert(10)
    assert sorted(world.read(table=both)) == [("INSERT", 1, "v1"), ("INSERT", 10, "v10")]
    other.insert(11)
    world.insert(2)
    other.sql("DELETE FROM T WHERE id = 10")
    assert world.read(table=both) == [("INSERT", 11, "v11"), ("INSERT", 2, "v2"), ("DELETE", 10, "v10")]
    world.insert(3)
    assert world.read(table=both) == [("INSERT", 3, "v3")]
    assert world.tag() != other.tag() is not None


def test_a_branch_is_read_beside_main(world: World) -> None:
    first = world.insert(1)
    world.java().manageSnapshots().createBranch("audit", first).commit()
    audit = ", branch: audit"
    assert world.read(table=audit) == [("INSERT", 1, "v1")]
    world.insert(2)
    world.spark.sql(f"INSERT INTO {world.name}.branch_audit VALUES (3, 'v3')")
    assert world.read(table=audit) == [("INSERT", 3, "v3")]
    with pytest.raises(NoTargetError, match="has no branch nothing"):
        world.source(table=", branch: nothing")


def test_a_table_that_is_not_there_is_named(world: World) -> None:
    world.spark.sql(f"DROP TABLE {world.name}")
    with pytest.raises(NoTargetError, match=f"The table {world.identifier} does not exist"):
        world.source()


def test_the_delete_of_a_row_whose_key_another_row_has_is_an_update_to_that_row(
    world: World, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.sql("INSERT INTO T VALUES (1, 'a'), (2, 'a'), (NULL, 'x')")
    world.sql("INSERT INTO T VALUES (1, 'b'), (NULL, 'y'), (1, 'out')")
    world.read(table=", where: \"v != 'out'\"")
    world.sql("DELETE FROM T WHERE v IN ('b', 'x') OR id = 2")
    found = world.read(table=", where: \"v != 'out'\"")
    assert [change for change in found if change[1] == 1] == [("UPDATE_BEFORE", 1, "b"), ("UPDATE_AFTER", 1, "a")]
    assert [change for change in found if change[1] is None] == [
        ("UPDATE_BEFORE", None, "x"),
        ("UPDATE_AFTER", None, "y"),
    ]
    assert [change for change in found if change[1] == 2] == [("DELETE", 2, "a")]
    assert "2 keys of deleted rows" in caplog.text
    caplog.clear()
    world.sql("DELETE FROM T WHERE id = 2 OR id IS NULL")
    assert world.read() == [("DELETE", None, "y")]
    monkeypatch.setattr(followed, "MOST_ROWS", 0)
    world.sql("DELETE FROM T WHERE id = 1 AND v = 'out'")
    assert world.read() == [("DELETE", 1, "out")]
    assert "it is not checked whether other rows have the key" in caplog.text
    monkeypatch.undo()
    world.sql("DELETE FROM T")
    assert world.read() == [("DELETE", 1, "a")]

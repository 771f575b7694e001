"""A load is identified by its id and by what it read; it is written once, in bounded batches, whatever is killed."""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest

from calve.errors import CalveError, PositionLostError, SettingsError
from calve.sources.source import Planned, Position, Split
from calve.sources.spark.load import SparkLoad
from calve.sources.spark.settings import SparkSettings
from calve.state import values
from calve.state.local_folder import LocalFolder


class FakeFrames:
    """Keeps what it is told to, in memory that outlives a process."""

    def __init__(self) -> None:
        self.kept: set[str] = set()
        self.parts = 3

    def write(self, name: str, frame: Any) -> list[Split]:
        self.kept.add(name)
        return [Split({"frame": name, "part": str(part)}, 10) for part in range(self.parts)]

    def has(self, name: str) -> bool:
        return name in self.kept

    def keep_only(self, names: Collection[str]) -> None:
        self.kept &= set(names)

    def remove(self, names: Collection[str]) -> None:
        self.kept -= set(names)


@pytest.fixture
def frames() -> FakeFrames:
    return FakeFrames()


class World:
    """One pipeline that is started again and again."""

    def __init__(self, folder: Path, frames: FakeFrames) -> None:
        self.folder, self.frames = folder, frames

    def started(self, position: Position | None, pending: Any = (), **settings: Any) -> SparkLoad:
        chosen = SparkSettings(**{"format": "jdbc", "read": "batch", "options": {"dbtable": "t"}, **settings})
        source = SparkLoad(chosen, LocalFolder(self.folder), "orders")
        source._frames = self.frames
        source._read = lambda: self.frames.write(source._name, None)
        source.start(json.loads(json.dumps(position)), True, pending)
        return source


@pytest.fixture
def world(tmp_path: Path, frames: FakeFrames) -> World:
    return World(tmp_path, frames)


def batches(source: SparkLoad, position: Position | None) -> list[Planned]:
    """Plan all that is left."""
    planned = []
    while source.backlog(position) and (batch := source.plan(position, 20)):
        planned.append(batch)
        position = batch.position
    return planned


def parts(planned: list[Planned]) -> list[str]:
    return [split.body["part"] for batch in planned for split in batch.splits]


def test_a_load_is_written_once_in_bounded_batches_and_its_rows_are_then_removed(world: World) -> None:
    source = world.started(None)
    planned = batches(source, None)
    assert [len(batch.splits) for batch in planned] == [2, 1]
    for batch in planned:
        source.acknowledge(batch)
        source.acknowledge(batch)
    assert not world.frames.kept
    again = world.started(planned[-1].position)
    assert not again.backlog(planned[-1].position)
    assert again.condition == "the load load is committed"
    other = world.started(planned[-1].position, load_id="tuesday")
    tuesday = batches(other, planned[-1].position)
    assert parts(tuesday) == ["0", "1", "2"]
    for batch in tuesday:
        other.acknowledge(batch)
    assert not batches(world.started(tuesday[-1].position), tuesday[-1].position), "the first one was loaded before"


def test_a_load_that_is_killed_goes_on_with_the_rows_that_were_kept(world: World) -> None:
    first, *_ = batches(world.started(None), None)
    again = world.started(first.position, [first])
    assert parts(batches(again, first.position)) == ["2"]
    [*_, last] = batches(again, first.position)
    again.acknowledge(last)
    assert not batches(world.started(None), None), "it is loaded, whatever the ledger says"


def test_a_load_that_is_kept_asks_its_source_for_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("calve.engine.session.start", lambda: pytest.fail("the source may be gone"))
    source = SparkLoad(SparkSettings(format="json", read="batch", select=["explode(a)"]), LocalFolder(tmp_path), "a")
    (source._frames._folder / source._name).make()
    (source._frames._folder / source._name).put("parts.json", values.encoded([("part", 10)]))
    source.start(None, True)
    assert parts(batches(source, None)) == ["part"]


def test_a_load_without_rows_is_done(world: World) -> None:
    world.frames.parts = 0
    source = world.started(None)
    [nothing] = batches(source, None)
    assert nothing.splits == []
    source.acknowledge(nothing)
    assert not batches(world.started(None), None)


@pytest.mark.parametrize("is_done", [True, False])
def test_other_options_are_another_load_and_a_new_password_is_not(world: World, is_done: bool) -> None:
    source = world.started(None)
    planned = batches(source, None)
    if is_done:
        for batch in planned:
            source.acknowledge(batch)
    position = planned[-1 if is_done else 0].position
    world.started(position, options={"dbtable": "t", "password": "new"})
    for changed in ({"options": {"dbtable": "u"}}, {"select": ["id"]}, {"schema": "id int"}, {"format": "parquet"}):
        with pytest.raises(SettingsError, match="was of other options") as error:
            world.started(position, **changed)
        assert "another `load_id`" in error.value.hint


@pytest.mark.parametrize(
    ("old", "new", "is_same"),
    [
        ("jdbc:postgresql://db/shop?user=a&password=old", "jdbc:postgresql://db/shop?user=a&password=new", True),
        ("jdbc:mysql://calve:old@db/shop", "jdbc:mysql://calve:new@db/shop", True),
        (
            "jdbc:sqlserver://db;databaseName=shop;password=old",
            "jdbc:sqlserver://db;databaseName=shop;password=n",
            True,
        ),
        ("jdbc:oracle:thin:scott/old@//db:1521/shop", "jdbc:oracle:thin:scott/n/w@//db:1521/shop", True),
        ("jdbc:postgresql://db/shop?password=a", "jdbc:postgresql://db/other?password=a", False),
    ],
)
def test_a_new_password_in_an_address_is_the_same_load(world: World, old: str, new: str, is_same: bool) -> None:
    first, *_ = batches(world.started(None, options={"url": old}), None)
    if is_same:
        again = world.started(first.position, options={"url": new})
        assert parts(batches(again, first.position)) == ["2"]
    else:
        with pytest.raises(SettingsError, match="was of other options"):
            world.started(first.position, options={"url": new})


def test_a_load_of_an_older_version_whose_fingerprint_has_the_password_goes_on(world: World) -> None:
    url = "jdbc:postgresql://db/shop?password=old"
    settings = SparkSettings(format="jdbc", read="batch", options={"url": url})
    before = world.started(None, options={"url": url})
    before._of = settings.old_fingerprint
    first, *_ = batches(before, None)
    assert first.position["of"] != settings.fingerprint
    again = world.started(first.position, options={"url": url})
    [last] = batches(again, first.position)
    again.acknowledge(last)
    assert not world.frames.kept
    assert not batches(world.started(None, options={"url": url}), None)
    with pytest.raises(SettingsError, match="was of other options") as error:
        world.started(last.position, options={"url": url.replace("old", "new")})
    assert "an older version of Calve" in error.value.hint


@pytest.mark.parametrize(
    ("settings", "said"),
    [({}, "its rows are not in the state"), ({"load_id": "b"}, "the load load has written only 2 of 3 parts")],
)
def test_a_load_is_not_left_half_written_without_a_word(world: World, settings: Any, said: str) -> None:
    first, *_ = batches(world.started(None), None)
    if not settings:
        world.frames.kept.clear()
    with pytest.raises(PositionLostError, match=said) as error:
        world.started(first.position, **settings)
    assert isinstance(error.value, CalveError)
    assert "on_lost_position: reload" in error.value.hint
    reloaded = world.started(first.position, on_lost_position="reload", **settings)
    assert parts(batches(reloaded, first.position)) == ["0", "1", "2"]


@pytest.mark.parametrize("wrong", [{"load_id": "b"}, {"load_id": "old"}, {"options": {"dbtable": "u"}}])
def test_a_start_that_is_refused_keeps_the_rows_of_the_load_that_is_half_written(world: World, wrong: Any) -> None:
    (old,) = [batch for batch in batches(world.started(None, load_id="old"), None) if not batch.waiting]
    world.started(None, load_id="old").acknowledge(old)
    first, *_ = batches(world.started(old.position), old.position)
    with pytest.raises(CalveError, match="written"):
        world.started(first.position, **wrong)
    assert parts(batches(world.started(first.position), first.position)) == ["2"], "the user brings the option back"


def test_a_reload_that_is_killed_before_its_first_batch_is_not_taken_for_the_load_before_it(world: World) -> None:
    first, *_ = batches(world.started(None), None)
    world.frames.kept.clear()
    world.started(first.position, on_lost_position="reload")._read()  # killed here: the ledger has the first attempt
    with pytest.raises(PositionLostError, match="its rows are not in the state"):
        world.started(first.position)
    again = world.started(first.position, on_lost_position="reload")
    [second, last] = batches(again, first.position)
    assert parts([second, last]) == ["0", "1", "2"]
    resumed = world.started(second.position)
    assert parts(batches(resumed, second.position)) == ["2"]
    resumed.acknowledge(last)
    assert not world.frames.kept

"""A stream of Spark goes on only where its checkpoint and the ledger agree; nobody skips or doubles a batch silently."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from calve.errors import SettingsError, SourceError, SourceUnavailableError
from calve.pipeline.plugins import PLUGINS
from calve.settings import parse_text
from calve.sources.source import Split
from calve.sources.spark import checkpoint, formats, stream
from calve.sources.spark.checkpoint import Checkpoint, CheckpointState, mismatch
from calve.sources.spark.settings import SparkSettings
from calve.sources.spark.stream import SparkStream
from calve.state.local_folder import LocalFolder

YAML = "orders:\n  source: {{spark: {}}}\n  sink: [{{iceberg: {{table_identifier: a.b}}}}]\n"


def at(epoch: int, query: str = "q") -> dict[str, Any]:
    return {"query": query, "epoch": epoch}


@pytest.mark.parametrize(
    ("checkpoint", "position"),
    [
        (CheckpointState(), None),
        (CheckpointState("q"), None),  # killed before the first batch
        (CheckpointState("q", 0), None),  # killed before the ledger had it
        (CheckpointState("q", 17, 16), at(17)),  # killed before Spark wrote that it is done
        (CheckpointState("q", 17, 17), at(17)),
        (CheckpointState("q", 18, 17), at(17)),  # killed before the ledger had the next one
    ],
)
def test_a_stream_goes_on_after_any_crash(checkpoint: CheckpointState, position: Any) -> None:
    assert mismatch(checkpoint, position) is None


@pytest.mark.parametrize(
    ("checkpoint", "position", "said"),
    [
        (CheckpointState(), at(17), "checkpoint is gone, and the tables have the stream up to its batch 17"),
        (CheckpointState("other", 17, 17), at(17), "is that of another stream"),
        (CheckpointState("q", 12, 12), at(17), "is an old one, at batch 12; the state is at 17"),
        (CheckpointState("q", 19, 17), at(17), "is at batch 18 of the stream, and the state only at 17"),
        (CheckpointState("q", 18, 18), at(17), "is at batch 18 of the stream, and the state only at 17"),
        (CheckpointState("q", 17, 17), None, "is at batch 17 of the stream, and the state only at -1"),
    ],
)
def test_a_checkpoint_that_does_not_belong_to_the_state_is_refused(
    checkpoint: CheckpointState, position: Any, said: str
) -> None:
    problem, hint = mismatch(checkpoint, position) or ("", "")
    assert said in problem
    assert hint


class FakeRun:
    """The run of a stream with these batches."""

    query = "q"

    def __init__(self, epochs: list[int]) -> None:
        self.epochs, self.kept = epochs, 0

    def next(self, wait_millis: int) -> int:
        return self.epochs[0] if self.epochs else -1

    def keep(self, frames: Any, name: str) -> list[Split]:
        self.kept += 1
        return [Split({"frame": name, "part": "p"}, 1)]

    def release(self, epoch: int) -> None:
        assert self.epochs.pop(0) == epoch


def test_a_batch_is_computed_once_and_let_go_only_when_the_ledger_has_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, run = SparkStream(SparkSettings(format="rate"), LocalFolder(tmp_path), "orders"), FakeRun([0, 1])
    monkeypatch.setattr(SparkStream, "_begin", lambda self, position: run)
    source.start(None, False)
    first = source.plan(None, 1)
    assert source.plan(None, 1) is first
    assert (run.epochs, run.kept) == ([0, 1], 1)
    assert source.backlog(first.position)
    assert run.epochs == [1]
    second = source.plan(json.loads(json.dumps(first.position)), 1)
    assert second.position == at(1)
    assert not source.backlog(second.position)
    names = {split.body["frame"] for planned in (first, second) for split in planned.splits}
    assert len(names) == 2, "after a reload a batch may have the number of an older one"
    for name in names:
        (tmp_path / "frames" / name).mkdir(parents=True)
    source.acknowledge(first)
    source.acknowledge(first)
    assert len(list((tmp_path / "frames").iterdir())) == 1


def test_a_state_on_an_object_store_needs_a_place_for_the_checkpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream.session, "start", lambda: None)
    folder = LocalFolder(Path("/nowhere"))
    monkeypatch.setattr(LocalFolder, "is_shared", property(lambda self: True))
    with pytest.raises(SettingsError, match="on an object store") as error:
        SparkStream(SparkSettings(format="rate"), folder, "orders")._begin(None)
    assert "`checkpoint`" in error.value.hint


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("{options: {path: in}}", "has no effect without `format`"),
        ("{format: rate, options: {CheckpointLocation: in}}", "set `checkpoint` beside `options`"),
        ("{format: jdbc, read: batch, checkpoint: in}", "a load has none"),
        ("{format: jdbc, packages: [postgresql]}", "postgresql is not group:artifact:version"),
        ("{format: rate, read: streaming}", "stream"),
    ],
)
def test_options_without_an_effect_are_refused(options: str, said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        parse_text(YAML.format(options), PLUGINS)


@pytest.mark.parametrize("held", [-1, 5])
def test_a_stream_that_somebody_else_stopped_does_not_idle_silently(held: int) -> None:
    run = object.__new__(stream._StreamRun)
    run._last = 4
    run._handoff = SimpleNamespace(epoch=lambda millis: held)
    run._query = SimpleNamespace(isActive=lambda: False, awaitTermination=lambda: None)
    if held == 5:
        assert run.next(0) == 5
        return
    with pytest.raises(SourceUnavailableError, match="was stopped, and not by its pipeline") as error:
        run.next(0)
    assert "checkpoint" in error.value.hint


def test_the_names_in_the_folder_of_a_checkpoint_are_made_durable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[Path] = []
    monkeypatch.setattr(checkpoint.durable, "sync", synced.append)
    (tmp_path / "metadata").write_text("{}")
    Checkpoint(SimpleNamespace(jvm=None, hadoop=None), f"file:{tmp_path}").sync()
    assert {*synced} == {tmp_path, tmp_path / "metadata"}


@pytest.mark.parametrize("other", ["cp/", "./cp", "file:{}/cp", "file://{}/cp", "{}/x/../cp"])
def test_two_pipelines_cannot_have_one_checkpoint_however_it_is_written(
    other: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    first, second = (
        next(iter(SparkSettings(format="rate", checkpoint=text).claims("p"))) for text in ("cp", other.format(tmp_path))
    )
    assert first.clashes(second)
    (elsewhere,) = SparkSettings(format="rate", checkpoint="s3a://bucket/cp").claims("p")
    assert elsewhere.thing == ("checkpoint", "s3a://bucket/cp")
    assert not first.clashes(elsewhere)


@pytest.mark.parametrize(
    ("cause", "kind"),
    [
        ("java.net.SocketException", SourceUnavailableError),
        ("com.fasterxml.jackson.core.JsonProcessingException", SourceError),
        ("java.io.FileNotFoundException", SourceError),
    ],
)
def test_a_line_that_is_no_json_is_not_tried_again_forever(
    cause: str, kind: type[SourceError], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(formats, "java_exception", lambda error: SimpleNamespace(getCondition=lambda: None))
    monkeypatch.setattr(formats, "caused_by", lambda error, *names: bool({cause, "java.io.IOException"} & {*names}))
    assert type(formats.failure(ValueError("x"), SparkSettings(format="json"))) is kind

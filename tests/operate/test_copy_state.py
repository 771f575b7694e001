"""A copy of a state has everything that a pipeline and its readers need; the original is refused."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

import pytest

from calve.dead_letters.replay.replayed import Span, replayed_in
from calve.errors import SettingsError
from calve.ledger.ledger import Ledger
from calve.object_store import StateFolder, StoreFolder
from calve.operate.copy_state import copy_pipeline
from calve.record.staged import StagedBatch
from calve.record.written import Rejects
from calve.sources.file.processed_files import finished_in
from calve.sources.file.storage import Found
from calve.sources.source import Planned

FILES = {
    "dlq/1.ndjson": b"{}",
    "iceberg/begun.json": b"{}",
    "file/tail/3-ab.lines": b"line\n",
    "paused": b"",
    "http/log/0.segment": b"events",
}


@pytest.fixture
def old(tmp_path: Path) -> Path:
    folder = tmp_path / "state" / "orders"
    for name, content in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    dlq = [str(folder / "dlq"), "s3://elsewhere/dlq"]
    (folder / "status.json").write_text(json.dumps({"pipeline": "orders", "events": 7, "dlq": dlq}))
    finished_in(folder / "file").add([Found("/in/1", 1, 2)])
    finished_in(folder / "s3").add([Found("s3://b/k etag ", 1, 2)])
    replayed_in(folder / "replay").add([Span("1.ndjson", 0, 2, 1)])
    for name, pipeline in (("ledger", "orders"), ("replay/ledger", "orders.replay")):
        with closing(Ledger.open(folder / name, pipeline)) as ledger:
            ledger.begin(1, Planned([], {"at": 1}))
    return folder


@pytest.fixture(params=["local", "store"])
def new(tmp_path: Path, request: pytest.FixtureRequest) -> StateFolder:
    if request.param == "local":
        return tmp_path / "copy" / "orders"
    return StoreFolder(f"memory://copies/{request.node.name}/orders")


def content(folder: StateFolder, name: str) -> bytes | None:
    if isinstance(folder, StoreFolder):
        found = folder.get(name)
        return found.content if found else None
    return (folder / name).read_bytes() if (folder / name).exists() else None


def test_a_copy_has_ledgers_lists_dead_letters_and_status_and_the_original_is_refused(
    old: Path, new: StateFolder
) -> None:
    said: list[str] = []
    copy_pipeline(old, new, "the-copy", said.append)
    for name, pipeline in (("ledger", "orders"), ("replay/ledger", "orders.replay")):
        with closing(Ledger.open(new / name, pipeline)) as ledger:
            assert ledger.begun(1) == Planned([], {"at": 1})
        with pytest.raises(SettingsError, match="was copied to the-copy"):
            Ledger.open(old / name, pipeline)
    assert finished_in(new / "file").load() == [Found("/in/1", 1, 2)]
    assert finished_in(new / "s3").load() == [Found("s3://b/k etag ", 1, 2)]
    assert content(new, "file/tail/3-ab.lines") == b"line\n"
    assert replayed_in(new / "replay").load() == [Span("1.ndjson", 0, 2, 1)]
    assert content(new, "dlq/1.ndjson") == b"{}"
    assert content(new, "paused") == b""
    status = json.loads(content(new, "status.json") or b"")
    assert (status["events"], status["dlq"]) == (7, [str(new / "dlq"), "s3://elsewhere/dlq"])
    is_local = isinstance(new, Path)
    assert (content(new, "http/log/0.segment") == b"events") is is_local
    assert any("log_folder" in line for line in said) is not is_local


def test_nothing_is_copied_over_another_state(old: Path, new: StateFolder) -> None:
    Ledger.open(new / "ledger", "orders").close()
    with pytest.raises(SettingsError, match="There is a state at"):
        copy_pipeline(old, new, "the-copy", print)
    assert content(new, "dlq/1.ndjson") is None
    Ledger.open(old / "ledger", "orders").close()


def test_dead_letters_that_wait_in_the_old_location_are_committed_first(old: Path, new: StateFolder) -> None:
    with closing(Ledger.open(old / "ledger", "orders")) as ledger:
        rejects = [Rejects({}, path="old/_1.ndjson", publish="old/1.ndjson")]
        ledger.stage(1, StagedBatch(1, {"at": 1}, [], events=1, bytes=1, unrouted=0, rejects=rejects))
    with pytest.raises(SettingsError, match="dead letters in the old location"):
        copy_pipeline(old, new, "the-copy", print)
    assert not (new / "ledger").exists()


@pytest.mark.parametrize("source", ["http", "postgres", "mysql"])
def test_the_log_of_a_source_on_a_store_is_copied_to_another_store_but_not_to_a_disk(
    source: str, tmp_path: Path
) -> None:
    old = StoreFolder(f"memory://logs-of-{source}/orders")
    with closing(Ledger.open(old / "ledger", "orders")):
        pass
    (old / source / "log").put("000000000000-00000000000000000000", b"head")
    (old / source).put("files.json", b"{}")
    with pytest.raises(SettingsError, match=f"The log of the source {source} of orders has another form"):
        copy_pipeline(old, tmp_path / "orders", "the-copy", lambda line: None)
    new = StoreFolder(f"memory://copies-of-{source}/orders")
    copy_pipeline(old, new, "the-copy", lambda line: None)
    assert (new / source).names() == ["files.json", "log/000000000000-00000000000000000000"]

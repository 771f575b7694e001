"""A copy of a state has everything that a pipeline and its readers need; the original is refused."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

import pytest

from calve.dead_letters.replay.replayed import ReplayedEntries, Span
from calve.errors import SettingsError
from calve.ledger.ledger import Ledger
from calve.operate.copy_state import copy_pipeline
from calve.record.staged import StagedBatch
from calve.record.written import Rejects
from calve.sources.file.processed_files import ProcessedFiles
from calve.sources.file.storage import FoundFile
from calve.sources.source import Planned
from calve.state.folder import StateFolder
from calve.state.local_folder import LocalFolder
from calve.state.store_folder import StoreFolder

FILES = {
    "dlq/1.ndjson": b"{}",
    "iceberg/begun.json": b"{}",
    "file/tail/3-ab.lines": b"line\n",
    "paused": b"",
    "http/log/0.segment": b"events",
}


@pytest.fixture
def old(tmp_path: Path) -> LocalFolder:
    folder = LocalFolder(tmp_path / "state" / "orders")
    for name, content in FILES.items():
        folder.put(name, content)
    dlq = [str(folder / "dlq"), "s3://elsewhere/dlq"]
    folder.put("status.json", json.dumps({"pipeline": "orders", "events": 7, "dlq": dlq}).encode())
    ProcessedFiles(folder / "file").add([FoundFile("/in/1", 1, 2)])
    ProcessedFiles(folder / "s3").add([FoundFile("s3://b/k etag ", 1, 2)])
    ReplayedEntries(folder / "replay").add([Span("1.ndjson", 0, 2, 1)])
    for name, pipeline in (("ledger", "orders"), ("replay/ledger", "orders.replay")):
        with closing(Ledger.open(folder / name, pipeline)) as ledger:
            ledger.begin(1, Planned([], {"at": 1}))
    return folder


@pytest.fixture(params=["local", "store"])
def new(tmp_path: Path, request: pytest.FixtureRequest) -> StateFolder:
    if request.param == "local":
        return LocalFolder(tmp_path / "copy" / "orders")
    return StoreFolder(f"memory://copies/{request.node.name}/orders")


def content(folder: StateFolder, name: str) -> bytes | None:
    stored = folder.get(name)
    return stored.content if stored else None


def test_a_copy_has_ledgers_lists_dead_letters_and_status_and_the_original_is_refused(
    old: LocalFolder, new: StateFolder
) -> None:
    said: list[str] = []
    copy_pipeline(old, new, "the-copy", said.append)
    for name, pipeline in (("ledger", "orders"), ("replay/ledger", "orders.replay")):
        with closing(Ledger.open(new / name, pipeline)) as ledger:
            assert ledger.begun(1) == Planned([], {"at": 1})
        with pytest.raises(SettingsError, match="was copied to the-copy"):
            Ledger.open(old / name, pipeline)
    assert ProcessedFiles(new / "file").load() == [FoundFile("/in/1", 1, 2)]
    assert ProcessedFiles(new / "s3").load() == [FoundFile("s3://b/k etag ", 1, 2)]
    assert content(new, "file/tail/3-ab.lines") == b"line\n"
    assert ReplayedEntries(new / "replay").load() == [Span("1.ndjson", 0, 2, 1)]
    assert content(new, "dlq/1.ndjson") == b"{}"
    assert content(new, "paused") == b""
    status = json.loads(content(new, "status.json") or b"")
    assert (status["events"], status["dlq"]) == (7, [str(new / "dlq"), "s3://elsewhere/dlq"])
    is_local = not new.is_shared
    assert (content(new, "http/log/0.segment") == b"events") is is_local
    assert any("log_folder" in line for line in said) is not is_local


def test_nothing_is_copied_over_another_state(old: LocalFolder, new: StateFolder) -> None:
    Ledger.open(new / "ledger", "orders").close()
    with pytest.raises(SettingsError, match="There is a state at"):
        copy_pipeline(old, new, "the-copy", print)
    assert content(new, "dlq/1.ndjson") is None
    Ledger.open(old / "ledger", "orders").close()


def test_dead_letters_that_wait_in_the_old_location_are_committed_first(old: LocalFolder, new: StateFolder) -> None:
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
        copy_pipeline(old, LocalFolder(tmp_path / "orders"), "the-copy", lambda line: None)
    new = StoreFolder(f"memory://copies-of-{source}/orders")
    copy_pipeline(old, new, "the-copy", lambda line: None)
    assert (new / source).names() == ["files.json", "log/000000000000-00000000000000000000"]

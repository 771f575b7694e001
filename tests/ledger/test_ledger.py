"""The ledger remembers exactly what was recorded, whatever ends the process."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from calve.errors import InvariantError, OvertakenError, SettingsError, Verdict, WriteError
from calve.ledger.ledger import Committed, Ledger
from calve.observe.totals import Totals
from calve.record.staged import StagedBatch
from calve.record.written import StagedFiles
from calve.sources.source import Planned, Split
from kit.content_files import data_file

HOLD = """
import sys
from calve.ledger.ledger import Ledger
ledger = Ledger.open(sys.argv[1])
print("held", flush=True)
sys.stdin.read()
"""


def plan(batch: int) -> Planned:
    return Planned([Split({"from": batch, "to": batch + 1}, 10)], {"0": batch + 1}, ("t/0",))


def staged(batch: int, *files: str) -> StagedBatch:
    """A record of a batch whose files have these paths."""
    tables = [StagedFiles("c", "ns.t", "", [data_file(each) for each in files], rows=1, bytes=1)]
    return StagedBatch(batch, {}, tables, events=1, bytes=1, unrouted=0)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "shop" / "ledger"


@pytest.fixture
def ledger(folder: Path) -> Iterator[Ledger]:
    opened = Ledger.open(folder)
    yield opened
    opened.close()


def reopened(ledger: Ledger) -> Ledger:
    ledger.close()
    return Ledger.open(ledger.folder)


def test_a_new_ledger_knows_no_batch(ledger: Ledger) -> None:
    assert ledger.committed == Committed()
    assert (ledger.position, ledger.last_batch, ledger.last_staged, ledger.pending()) == (None, 0, 0, [])
    assert ledger.pipeline == "shop"


def test_the_state_keeps_its_identity(ledger: Ledger) -> None:
    state_id = ledger.state_id
    again = reopened(ledger)
    assert again.state_id == state_id
    again.close()


def test_a_begun_batch_is_found_with_its_splits_after_a_restart(ledger: Ledger) -> None:
    ledger.begin(1, plan(1))
    again = reopened(ledger)
    assert again.begun(1) == plan(1)
    assert again.staged(1) is None
    assert again.position == {"0": 2}
    again.close()


def test_a_begun_batch_keeps_its_time_over_a_restart_and_a_change_of_version(ledger: Ledger) -> None:
    ledger.begin(1, plan(1))
    again = reopened(ledger)
    first, found = ledger.begun(1), again.begun(1)
    again.close()
    assert first is not None
    assert found is not None
    assert first.time_tenths == found.time_tenths > 0
    file = ledger.folder.path / "000000000001.begun.json"
    file.write_text(file.read_text().replace("time_tenths", "moment"))
    older = Ledger.open(ledger.folder)
    older.close()
    assert [one.planned.time_tenths for one in older.pending()] == [first.time_tenths]


def test_a_staged_batch_is_pending_until_it_is_committed(ledger: Ledger) -> None:
    for batch in (1, 2, 3):
        ledger.begin(batch, plan(batch))
    ledger.stage(1, staged(1, "a"))
    ledger.stage(2, staged(2, "b"))
    ledger.set_committed(1, Totals(events=7, last_batch=1))
    again = reopened(ledger)
    assert again.committed == ledger.committed
    assert (again.committed.batch, again.committed.position, again.committed.totals.events) == (1, {"0": 2}, 7)
    assert [(one.batch, one.staged) for one in again.pending()] == [(2, staged(2, "b")), (3, None)]
    assert (again.last_batch, again.last_staged) == (3, 2)
    again.close()


def test_records_of_committed_batches_are_removed(ledger: Ledger) -> None:
    for batch in (1, 2):
        ledger.begin(batch, plan(batch))
        ledger.stage(batch, staged(batch))
    ledger.set_committed(2, Totals())
    assert sorted(file.name for file in ledger.folder.path.iterdir()) == ["committed.json", "identity.json", "lock"]


def test_a_staged_record_never_changes(ledger: Ledger) -> None:
    ledger.begin(1, plan(1))
    ledger.stage(1, staged(1, "a"))
    with pytest.raises(InvariantError, match="already staged"):
        ledger.stage(1, staged(1, "b"))
    assert ledger.staged(1) == staged(1, "a")


def test_batches_count_without_gaps(ledger: Ledger) -> None:
    with pytest.raises(InvariantError, match="cannot follow"):
        ledger.begin(2, plan(2))
    with pytest.raises(InvariantError, match="never begun"):
        ledger.stage(1, staged(1))
    ledger.begin(1, plan(1))
    with pytest.raises(InvariantError, match="not staged"):
        ledger.set_committed(1, Totals())


def test_a_second_driver_is_refused_and_told_who_holds_the_state(ledger: Ledger) -> None:
    with pytest.raises(OvertakenError, match=f"process {os.getpid()} on ") as refused:
        Ledger.open(ledger.folder)
    assert "--state" in refused.value.hint


@pytest.mark.crash
def test_after_kill_9_the_next_driver_starts_at_once(folder: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, folder], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(OvertakenError, match=f"process {holder.pid}"):
            Ledger.open(folder)
        holder.kill()
        holder.wait()
    Ledger.open(folder).close()


@pytest.mark.parametrize("name", ["identity.json", "committed.json", "000000000001.begun.json"])
def test_a_damaged_file_is_named_and_kept(ledger: Ledger, name: str) -> None:
    ledger.begin(1, plan(1))
    (ledger.folder.path / "committed.json").write_text('{"batch":0,"position":null,"totals":{}}')
    whole = (ledger.folder.path / name).read_text()
    (ledger.folder.path / name).write_text(whole[:-1])
    with pytest.raises(InvariantError, match=name):
        reopened(ledger)
    assert (ledger.folder.path / name).read_text() == whole[:-1]
    (ledger.folder.path / name).write_text(whole)
    reopened(ledger).close()


def test_a_missing_record_is_told(ledger: Ledger) -> None:
    for batch in (1, 2):
        ledger.begin(batch, plan(batch))
    (ledger.folder.path / "000000000001.begun.json").unlink()
    with pytest.raises(InvariantError, match="one is missing"):
        reopened(ledger)


def test_a_full_disk_leaves_no_half_record_and_is_overcome(ledger: Ledger) -> None:
    ledger.begin(1, plan(1))
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (64, limits[1]))
    try:
        with pytest.raises(WriteError, match="cannot be written") as refused:
            ledger.stage(1, staged(1, "x" * 1000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert refused.value.verdict is Verdict.AGAIN
    assert not list(ledger.folder.path.glob("*staged*"))
    assert ledger.staged(1) is None
    ledger.stage(1, staged(1, "x" * 1000))
    assert ledger.staged(1) == staged(1, "x" * 1000)


def test_what_a_crash_left_behind_is_swept(ledger: Ledger) -> None:
    ledger.begin(1, plan(1))
    ledger.stage(1, staged(1))
    leftover = (ledger.folder.path / "000000000001.staged.json").read_text()
    ledger.set_committed(1, Totals())
    (ledger.folder.path / "000000000001.staged.json").write_text(leftover)
    (ledger.folder.path / ".000000000002.begun.json.7").write_text("{")
    again = reopened(ledger)
    assert again.pending() == []
    assert sorted(file.name for file in again.folder.path.iterdir()) == ["committed.json", "identity.json", "lock"]
    again.close()


def test_a_state_of_a_later_version_is_refused(ledger: Ledger) -> None:
    file = ledger.folder.path / "identity.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"format": 99}))
    with pytest.raises(SettingsError, match="later version"):
        reopened(ledger)


def test_a_state_of_another_pipeline_is_refused(ledger: Ledger) -> None:
    ledger.close()
    with pytest.raises(SettingsError, match="the pipeline 'shop'"):
        Ledger.open(ledger.folder, "till")


@pytest.mark.parametrize("folder", ["http://bucket/state/shop/ledger", "hdfs://host/state/shop/ledger", "s3://"])
def test_a_state_that_is_neither_local_nor_on_a_store_is_refused_plainly(folder: str) -> None:
    with pytest.raises(SettingsError, match="cannot be kept at"):
        Ledger.open(folder)


def test_a_folder_that_cannot_be_made_is_an_error_of_the_tree(tmp_path: Path) -> None:
    (tmp_path / "shop").write_text("a file")
    with pytest.raises(WriteError, match="cannot be written"):
        Ledger.open(tmp_path / "shop" / "ledger")


def test_what_an_earlier_version_committed_is_read_whole(ledger: Ledger) -> None:
    recorded = (
        '{"batch":3,"position":{"0":2},"totals":{"events":9,"bytes":99,"unrouted":1,"passed_over":0,"rejects":'
        '{"NO_KEY":1},"batches":1,"last_batch":3,"tables":{"ns.t":{"rows":5,"commits":1,"last_commit":'
        '"2026-11-22T23:27:44Z","snapshot_id":null,"rejects":{"NO_KEY":1},"nulled":{"n":1},"reasons":{"n":"first"},'
        '"ignored":{"new":1},"superseded":0,"valid_through":"1970-01-01T00:00:00.000005Z","equality_deletes":0,'
        '"converting":false,"last_conversion":null,"conversion_error":null,"error":null}},'
        '"event_times":[["c","ns.t","main",5,5]]},"moment":7}'
    )
    (ledger.folder.path / "committed.json").write_text(recorded)
    again = reopened(ledger)
    again.close()
    found = again.committed
    as_now = json.loads(recorded)
    as_now["totals"] |= {"dropped": 0, "added": 0, "origins": []}  # there were no processors, and no `idle_after`
    as_now["totals"]["tables"]["ns.t"]["failed_rules"] = {}  # nor rules
    as_now["totals"] |= {"duplicates": 0, "forgotten_keys": 0}
    as_now["key_files"] = []
    assert json.loads(msgspec.json.encode(found)) == as_now
    assert (found.moment, found.totals.tables["ns.t"].rows) == (7, 5)
    (ledger.folder.path / "committed.json").write_text('{"batch":3,"position":{"0":2}}')  # before there were totals
    first = reopened(ledger)
    first.close()
    assert first.committed == Committed(3, {"0": 2})


def test_another_kind_of_source_is_refused_by_name_once_something_was_read(ledger: Ledger) -> None:
    ledger.continue_with("http")
    ledger.continue_with("kafka")  # nothing was read or accepted
    ledger.begin(1, plan(1))
    ledger = reopened(ledger)
    ledger.continue_with("kafka")
    with pytest.raises(SettingsError, match="is of the source kafka; file cannot go on") as refused:
        ledger.continue_with("file")
    assert refused.value.hint.startswith("Set the source back to kafka. Or: Run it once more with the source kafka")
    assert "rename the pipeline" in refused.value.hint
    assert "--state" not in refused.value.hint  # the tables refuse the same name with another state
    ledger.close()


def test_accepted_events_count_as_read(ledger: Ledger) -> None:
    ledger.continue_with("http")
    (ledger.folder.path.parent / "http").mkdir()
    with pytest.raises(SettingsError, match="is of the source http; kafka cannot go on"):
        ledger.continue_with("kafka")


def test_files_are_followed_from_where_they_were_read_once_no_batch_is_pending(ledger: Ledger) -> None:
    ledger.continue_with("file")
    ledger.begin(1, plan(1))
    with pytest.raises(SettingsError, match="file with tail cannot go on") as refused:
        ledger.continue_with("file with tail")
    assert refused.value.hint.startswith("Run it once more with the source file and --once")
    ledger.stage(1, staged(1))
    ledger.set_committed(1, Totals())
    ledger.continue_with("file with tail")
    with pytest.raises(SettingsError, match="is of the source file with tail; file cannot go on"):
        reopened(ledger).continue_with("file")


def test_a_state_from_before_sources_were_recorded_goes_on_with_any(ledger: Ledger) -> None:
    ledger.begin(1, plan(1))
    ledger.continue_with("kafka")
    with pytest.raises(SettingsError):
        ledger.continue_with("http")

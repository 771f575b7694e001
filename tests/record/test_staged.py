"""What an earlier version staged is read by this one, and nothing of it is lost when it is written again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from calve.errors import InvariantError
from calve.ledger.ledger import Ledger
from calve.record.content_file import ContentFile
from calve.record.receipt import ReadCounts, Receipt
from calve.record.staged import StagedBatch
from calve.record.written import CommitRejects, Ignored, Nulled
from calve.sources.source import Planned, Split
from kit.content_files import data_file

RECORDED = Path(__file__).parent / "staged-recorded.json"
"""Of a run that ended between stage and commit, before records were structs: paths are shortened."""
FIRST = Path(__file__).parent / "staged-first.json"
"""The same with the keys of the first version alone."""


def read(folder: Path, content: bytes) -> StagedBatch:
    """Put a record into a ledger that ended after it was staged, and open it."""
    ledger = Ledger.open(folder / "p" / "ledger")
    ledger.begin(1, Planned([Split({})], {"files": 1}))
    ledger.close()
    (folder / "p" / "ledger" / "000000000001.staged.json").write_bytes(content)
    ledger = Ledger.open(folder / "p" / "ledger")
    ledger.close()
    [pending] = ledger.pending()
    assert pending.staged is not None
    return pending.staged


def test_what_an_earlier_version_staged_is_read_whole(tmp_path: Path) -> None:
    found = read(tmp_path, RECORDED.read_bytes())
    assert (found.batch, found.position, found.events, found.bytes, found.seconds) == (1, {"files": 1}, 6, 300, 10.174)
    assert [(one.table, one.branch, one.write_mode, one.rows, one.bytes, len(one.files)) for one in found.tables] == [
        ("db.plain", "main", "equality-delete", 5, 4485, 3),
        ("db.t", "main", "merge-on-read", 2, 2353, 2),
        ("db.t", "main", "merge-on-read", 0, 556, 1),
        ("db.t", "main", "merge-on-read", 1, 3218, 1),
    ]
    assert found.tables[0].event_times == {"": 1767225601000000}
    lost = [one.commit_rejects for one in found.tables]
    name = "/data/calve-state/p/dlq/p-997b05a6-00000001-96078a-0-823c1c0f-at-commit.ndjson"
    assert lost == [None, None, None, CommitRejects(name, "sink[0].iceberg")]
    [rejects] = found.rejects
    assert (rejects.counts, rejects.publish.rpartition("/")[2]) == (
        {"": {"MALFORMED": 1}, "db.t": {"NOT_COERCIBLE": 1}},
        "p-997b05a6-00000001-96078a-0-00000-0.ndjson",
    )
    assert found.nulled == [Nulled("db.plain", {"version": 1}, {"version": "'much' is no long"})]
    assert found.ignored[1] == Ignored("db.plain", {"op": 5, "new": 1, "city": 2})


def test_a_record_of_the_first_version_has_what_absent_keys_meant(tmp_path: Path) -> None:
    found = read(tmp_path, FIRST.read_bytes())
    [table] = found.tables
    assert (table.ref[1:], table.write_mode, table.event_times) == (("db.plain", "main"), "equality-delete", {})
    assert (found.nulled, found.ignored, found.documents) == ([Nulled("db.plain", {"version": 1})], [], [])
    assert (found.waiting, found.staged_at, found.core_failures) == ([], 0.0, 0)
    assert found.rejects[0].examples == {}


@pytest.mark.parametrize("file", [RECORDED, FIRST], ids=["recorded", "first"])
def test_a_record_that_is_written_again_says_the_same(tmp_path: Path, file: Path) -> None:
    before = json.loads(file.read_bytes())
    after = json.loads(msgspec.json.encode(read(tmp_path, file.read_bytes())))
    assert after | before == after | {"tables": before["tables"], "nulled": before["nulled"]}
    for old, new in zip(before["tables"], after["tables"], strict=True):
        defaults = {"branch": "main", "write_mode": "equality-delete", "event_times": {}}
        assert defaults | new == defaults | old


def test_a_key_of_a_later_version_is_ignored(tmp_path: Path) -> None:
    whole: dict[str, Any] = json.loads(RECORDED.read_bytes())
    later = whole | {"later": 1, "tables": [one | {"later": [1]} for one in whole["tables"]]}
    assert read(tmp_path, json.dumps(later).encode()) == msgspec.json.decode(RECORDED.read_bytes(), type=StagedBatch)


def test_a_record_without_its_files_is_damaged(tmp_path: Path) -> None:
    whole = json.loads(RECORDED.read_bytes())
    del whole["tables"][0]["files"]
    with pytest.raises(InvariantError, match=r"staged\.json is damaged: .*missing required field `files`"):
        read(tmp_path, json.dumps(whole).encode())


def test_tasks_of_later_passes_count_their_events_no_more() -> None:
    times = {"read": 0.25, "write": 1.0}
    receipts = [
        Receipt(seen=ReadCounts(events=5, bytes=9, unrouted=1, core_failures=1), seconds=times, is_first=True, task=0),
        Receipt(seen=ReadCounts(events=5, bytes=9, core_failures=2), seconds=times, task=0),
    ]
    found = StagedBatch.of(1, Planned([Split({})], {"at": 1}, ("t/0",)), receipts, 1.0, 2.0)
    assert (found.events, found.bytes, found.unrouted, found.core_failures) == (5, 9, 1, 3)
    assert (found.steps, found.waiting, found.since) == ({"read": 0.5, "write": 2.0}, ["t/0"], 1.0)


def test_iceberg_gets_of_a_file_what_the_record_says_of_it() -> None:
    """What was recorded is what the Java of Iceberg is given, key by key."""
    recorded = json.loads(RECORDED.read_bytes())
    files = [file for one in recorded["tables"] for file in one["files"]]
    found = [file for one in msgspec.json.decode(RECORDED.read_bytes(), type=StagedBatch).tables for file in one.files]
    assert json.loads(msgspec.json.encode(found)) == files
    assert [file.is_data for file in found] == [file["content"] == "DATA" for file in files]
    strange = [None, True, "a", ["NaN"], ["-Infinity"], 2**62, -1.5]
    one = data_file("a", partition=strange, equality_ids=[1, 3], content="EQUALITY_DELETES")
    again = msgspec.json.decode(msgspec.json.encode(one), type=ContentFile)
    assert (again, again.partition) == (one, strange)

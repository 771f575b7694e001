import json

import pyarrow as pa
import pytest
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.schema import Schema
from pyiceberg.types import NestedField, StringType

from calve.dead_letters import rejects as rejects_module
from calve.dead_letters.publish import publish
from calve.dead_letters.rejects import DeadLetterLocation, TaskRejects
from calve.dead_letters.room import RoomLimits
from calve.dead_letters.table import LETTERS
from calve.errors import Verdict, WriteError
from calve.event.reject import REJECTS
from calve.record.written import Rejects
from calve.table.loaded import Table

EVENTS = pa.table({"event": pa.array([b'{"a": 1}', b"\xff\x00", None, "häß".encode()], pa.binary()), "n": [1, 2, 3, 4]})


def letters(folder, attempt="0"):
    return TaskRejects(DeadLetterLocation(str(folder)), "b-1", attempt, {"pipeline": "p", "sink": "iceberg"})


def rejects(*positions):
    return pa.Table.from_pylist(
        [{"row": row, "code": "MALFORMED", "field": "f", "reason": "why"} for row in positions], REJECTS
    )


def entries(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_an_entry_holds_the_original_text_and_says_why(tmp_path):
    queue = letters(tmp_path)
    queue.add("a.b", EVENTS, rejects(0, 3))
    kept = queue.close()
    assert kept.counts == {"a.b": {"MALFORMED": 2}}
    publish([kept], {})
    first, second = entries(tmp_path / "b-1.ndjson")
    assert first.pop("timestamp").endswith("Z")
    assert first == {
        "pipeline": "p", "sink": "iceberg", "table": "a.b", "reason": "why", "code": "MALFORMED", "field": "f",
        "event": '{"a": 1}', "metadata": {"n": 1},
    }  # fmt: skip
    assert second["event"] == "häß"


def test_bytes_that_are_no_text_are_kept_as_base64(tmp_path):
    queue = letters(tmp_path)
    queue.add("", EVENTS, rejects(1, 2))
    publish([queue.close()], {})
    first, second = entries(tmp_path / "b-1.ndjson")
    assert (first["event"], first["event_encoding"]) == ("/wA=", "base64")
    assert second["event"] is None


def test_a_file_is_not_seen_before_it_is_published_and_publishing_again_changes_nothing(tmp_path):
    queue = letters(tmp_path)
    queue.add("a.b", EVENTS, rejects(0))
    kept = queue.close()
    assert [path.name[0] for path in tmp_path.iterdir()] == ["_"]
    publish([kept], {})
    publish([kept], {})
    assert [path.name for path in tmp_path.iterdir()] == ["b-1.ndjson"]


@pytest.mark.parametrize("scheme", ["", "file://"])
def test_a_published_file_that_was_sent_to_a_topic_is_published_again_after_a_kill_and_stays_away(
    tmp_path, scheme, monkeypatch
):
    queue = letters(tmp_path)
    queue.add("a.b", EVENTS, rejects(0))
    kept = queue.close()
    if scheme:  # as in an object store
        monkeypatch.setattr("calve.dead_letters.publish.local_path", lambda _: None)
        kept = Rejects(kept.counts, kept.examples, scheme + kept.path, scheme + kept.publish)
    publish([kept], {})
    (tmp_path / "b-1.ndjson").unlink()  # the topic has it; then the process is killed, before its batch is committed
    publish([kept], {})
    assert list(tmp_path.iterdir()) == []


def test_a_table_that_comes_again_in_another_pass_is_forgotten(tmp_path):
    queue = letters(tmp_path)
    queue.add("a.b", EVENTS, rejects(0))
    queue.add("a.c", EVENTS, rejects(3))
    queue.forget("a.b")
    assert queue.close().counts == {"a.c": {"MALFORMED": 1}}


def test_without_rejects_there_is_no_file(tmp_path):
    assert letters(tmp_path).close() is None
    assert list(tmp_path.iterdir()) == []


def test_rejects_of_a_table_become_rows_with_a_key_of_their_own_and_no_file(tmp_path):
    schema = Schema(*LETTERS.fields, NestedField(50, "theirs", StringType(), required=False))
    table = Table("ops.dead", "", "", schema.model_dump_json(), "{}")
    queue = TaskRejects(DeadLetterLocation(str(tmp_path), {}, table), "b-1", "0", {"pipeline": "p", "sink": "iceberg"})
    queue.add("a.b", EVENTS, rejects(0, 1))
    queue.add("", EVENTS, rejects(2))
    rows = pa.concat_tables(queue.rows())
    assert rows.schema.equals(schema_to_pyarrow(schema))
    found = rows.to_pylist()
    assert [(one["task"], one["number"], one["event"], one["event_encoding"]) for one in found] == [
        ("b-1", 0, '{"a": 1}', None), ("b-1", 1, "/wA=", "base64"), ("b-1", 2, None, None),
    ]  # fmt: skip
    assert {name: found[0][name] for name in ("pipeline", "table", "code", "field", "reason", "metadata", "theirs")} == {
        "pipeline": "p", "table": "a.b", "code": "MALFORMED", "field": "f", "reason": "why", "metadata": '{"n":1}',
        "theirs": None,
    }  # fmt: skip
    assert found[0]["timestamp"].tzinfo
    assert queue.close() == Rejects(
        counts={"a.b": {"MALFORMED": 2}, "": {"MALFORMED": 1}},
        examples={"a.b": {"MALFORMED": "f: why"}, "": {"MALFORMED": "f: why"}},
    )
    publish([Rejects({})], {})
    assert list(tmp_path.iterdir()) == []


MANY = pa.table({"event": pa.array([b"{}", b"{}", b"[]", b"{}", b"{}"], pa.binary())})


def counts(path):
    return [(entry["event"], entry.get("count", 1)) for entry in entries(path)]


def test_equal_rejects_are_one_entry_with_a_count(tmp_path):
    queue = TaskRejects(DeadLetterLocation(str(tmp_path)), "b-1", "0", {"pipeline": "p"}, is_ordered=False)
    for _ in range(100):
        queue.add("a.b", MANY, rejects(0, 1, 2, 3, 4))
    kept = queue.close()
    assert kept.counts == {"a.b": {"MALFORMED": 500}}
    publish([kept], {})
    assert counts(tmp_path / "b-1.ndjson") == [("{}", 400), ("[]", 100)]


def test_where_events_have_an_order_only_neighbours_are_one_entry(tmp_path):
    queue = letters(tmp_path)
    queue.add("a.b", MANY, rejects(0, 1, 2, 3, 4))
    publish([queue.close()], {})
    assert counts(tmp_path / "b-1.ndjson") == [("{}", 2), ("[]", 1), ("{}", 2)]


def test_what_differs_in_anything_but_its_time_is_an_entry_of_its_own(tmp_path):
    queue = TaskRejects(DeadLetterLocation(str(tmp_path)), "b-1", "0", {"pipeline": "p"}, is_ordered=False)
    queue.add("a.b", MANY, rejects(0))
    other = pa.Table.from_pylist([{"row": 1, "code": "MALFORMED", "field": "f", "reason": "another"}], REJECTS)
    queue.add("a.b", MANY, other)
    queue.add("a.b", MANY.append_column("n", pa.array([1, 1, 1, 1, 2])), rejects(0, 1, 4))
    publish([queue.close()], {})
    assert [count for _, count in counts(tmp_path / "b-1.ndjson")] == [1, 1, 2, 1]


def test_entries_that_wait_for_equal_ones_take_little_memory(tmp_path):
    queue = TaskRejects(DeadLetterLocation(str(tmp_path)), "b-1", "0", {"pipeline": "p"}, is_ordered=False)
    large = pa.table({"event": pa.array([b"%d" % n * (1 << 20) for n in range(8)], pa.binary())})
    queue.add("a.b", large, rejects(*range(8)))
    assert sum(len(one["event"]) for one in queue._spools["a.b"]._recent.values()) <= 4 << 20
    publish([queue.close()], {})
    assert len(entries(tmp_path / "b-1.ndjson")) == 8


def test_a_table_of_dead_letters_has_a_row_for_each_event(tmp_path):
    table = Table("a.dead", "u", str(tmp_path), LETTERS.model_dump_json(), '{"spec-id":0,"fields":[]}')
    queue = TaskRejects(DeadLetterLocation(str(tmp_path), {}, table), "b-1", "0", {"pipeline": "p"}, is_ordered=False)
    queue.add("a.b", MANY, rejects(0, 1, 2, 3, 4))
    rows = pa.concat_tables(queue.rows())
    assert rows["event"].to_pylist() == ["{}"] * 4 + ["[]"]
    assert rows["number"].to_pylist() == list(range(5))
    assert queue.close().counts == {"a.b": {"MALFORMED": 5}}


def test_one_batch_cannot_have_more_dead_letters_than_there_is_room_for(tmp_path, monkeypatch):
    monkeypatch.setattr(rejects_module, "_SMALL_BYTES", 100)
    monkeypatch.setattr(rejects_module, "_CHECK_BYTES", 2000)
    (tmp_path / "b-0.ndjson").write_bytes(b"x" * 3000)

    def queue(limits):
        return TaskRejects(DeadLetterLocation(str(tmp_path), limits=limits), "b-1", "0", {"pipeline": "p", "sink": "s"})

    large = pa.table({"event": pa.array([bytes([65 + number]) * 1000 for number in range(9)], pa.binary())})
    found = queue(RoomLimits(5000, 0))
    with pytest.raises(WriteError, match=r"A batch has too many dead letters: with .* max_bytes") as full:
        found.add("", large, rejects(*range(9)))
    assert full.value.verdict is Verdict.AGAIN
    found = queue(RoomLimits(5000, 0))
    found.add("", large, rejects(0, 1))
    with pytest.raises(WriteError, match="max_bytes"):
        found.close()
    assert [path.name for path in tmp_path.iterdir()] == ["b-0.ndjson"]
    for limits in (RoomLimits(50_000, 0), None):
        found = queue(limits)
        found.add("", large, rejects(*range(9)))
        assert found.close().counts == {"": {"MALFORMED": 9}}

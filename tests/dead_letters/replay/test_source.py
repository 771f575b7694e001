from __future__ import annotations

import base64
import json
import pickle
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from calve.dead_letters.replay.reader import REPLAYED_FROM
from calve.dead_letters.replay.selection import ReplaySelection
from calve.dead_letters.replay.source import RejectsSource
from calve.errors import PositionLostError, SourceError
from calve.event.columns import EVENT, SINK
from calve.state.local_folder import LocalFolder

METADATA = {
    "kafka_offset": pa.int64(),
    "kafka_key": pa.string(),
    "headers": pa.struct([("x-tenant", pa.string())]),
}


def entry(n: int, **changed: Any) -> dict[str, Any]:
    default = {"pipeline": "law", "sink": "iceberg", "table": "a.b", "code": "NO_SUCH_TABLE", "metadata": {}}
    return {**default, "event": json.dumps({"n": n}), **changed}


def write(folder: Path, name: str, *lines: bytes | dict[str, Any]) -> None:
    place = folder / "dlq"
    place.mkdir(exist_ok=True)
    data = [line if isinstance(line, bytes) else json.dumps(line).encode() for line in lines]
    (place / name).write_bytes(b"".join(line + b"\n" for line in data))


def opened(folder: Path, sinks: dict[str, int] | None = None, **chosen: Any) -> RejectsSource:
    selection = ReplaySelection("law", sinks or {"iceberg": 0}, **chosen)
    source = RejectsSource(LocalFolder(folder / "replay"), [str(folder / "dlq")], selection, METADATA, "law.replay-")
    source.find_files()
    return source


def read(source: RejectsSource, planned: Any) -> pa.Table:
    reader = pickle.loads(pickle.dumps(source.reader))
    return pa.Table.from_batches([batch for split in planned.splits for batch in reader.read(split)])


def sent(source: RejectsSource, position: Any = None) -> list[int]:
    """Send all that waits, batch by batch; give the events."""
    source.start(position, True)
    found = []
    while planned := source.plan(position, 1):
        found += [json.loads(event)["n"] for event in read(source, planned)[EVENT].to_pylist()]
        source.acknowledge(planned)
        source.acknowledge(planned)  # a crash may repeat it
        position = json.loads(json.dumps(planned.position))
    assert not source.backlog(position)
    source.finish()
    return found


def test_each_entry_is_sent_once_and_later_only_what_is_new(tmp_path: Path) -> None:
    write(tmp_path, "1.ndjson", entry(1), entry(2))
    write(tmp_path, "2.ndjson", entry(3))
    assert sent(opened(tmp_path)) == [1, 2, 3]
    assert sent(opened(tmp_path), {"entries": 3}) == []
    write(tmp_path, "3.ndjson", entry(4))
    assert sent(opened(tmp_path), {"entries": 3}) == [4]


def test_an_entry_with_a_count_is_sent_so_often_and_then_never_again(tmp_path: Path) -> None:
    write(tmp_path, "1.ndjson", entry(1), entry(2, count=3), entry(3))
    source = opened(tmp_path)
    source.start(None, True)
    assert source.backlog(None).rows == 5
    assert sent(opened(tmp_path)) == [1, 2, 2, 2, 3]
    assert sent(opened(tmp_path), {"entries": 5}) == []


def test_what_one_choice_leaves_another_sends(tmp_path: Path) -> None:
    lines = [entry(1), entry(2, code="NO_KEY"), entry(3), entry(4, code="NO_KEY", table="c.d"), entry(5)]
    write(tmp_path, "1.ndjson", *lines)
    assert sent(opened(tmp_path, code="NO_KEY", table="a.b")) == [2]
    assert sent(opened(tmp_path, code="NO_KEY"), {"entries": 1}) == [4]
    assert sent(opened(tmp_path), {"entries": 2}) == [1, 3, 5]


def test_events_come_back_byte_for_byte_with_metadata_of_the_types_that_the_source_gives(tmp_path: Path) -> None:
    odd = b'{"n": "\xff\x00"}'
    told = {"kafka_offset": 7, "kafka_key": "k", "headers": {"x-tenant": "t"}, "else": 1}
    write(
        tmp_path,
        "1.ndjson",
        b"",
        b"no entry",
        entry(1, event=base64.b64encode(odd).decode(), event_encoding="base64", metadata=told),
        entry(2, event=None, metadata={"kafka_offset": "not a number"}),
        entry(3, event="not Base64", event_encoding="base64"),
        b'{"code": "cut',
    )
    source = opened(tmp_path)
    source.start(None, True)
    table = read(source, source.plan(None, 1 << 30))
    assert table[EVENT].to_pylist() == [odd, None]
    assert {name: table.schema.field(name).type for name in METADATA} == METADATA
    assert [row[name] for row in table.to_pylist()[:1] for name in METADATA] == [7, "k", {"x-tenant": "t"}]
    assert [table[name].to_pylist()[1] for name in METADATA] == [None, None, None]
    assert table[REPLAYED_FROM].to_pylist() == ["1.ndjson:3", "1.ndjson:4"]


def test_an_entry_is_for_the_sink_that_rejected_it_and_one_of_no_sink_for_all(tmp_path: Path) -> None:
    write(
        tmp_path,
        "1.ndjson",
        entry(1, sink="sink[1].iceberg"),
        entry(2, sink="sink[0].iceberg"),
        entry(3, sink="sink[0].iceberg", table="", code="MALFORMED"),
        entry(4, sink=None),
        entry(5, sink="sink[0].iceberg", table="", code="PROCESSOR_FAILED"),
        entry(6, sink="sink[0].iceberg", table="", code="UNKNOWN_SCHEMA"),
        entry(7, sink="sink[0].iceberg", table="", code="UNKNOWN_OPERATION", field=""),
        entry(8, sink="sink[1].iceberg", table="", code="UNKNOWN_OPERATION", field="operation"),
        entry(9, sink="sink[0].iceberg", table="", code="UNPROCESSABLE"),
        entry(10, sink="sink[1].iceberg", table="", code="NO_FIELD"),
        entry(11, sink="fed.iceberg", table="", code="PROCESSOR_FAILED"),
        entry(12, sink="fed.iceberg", table="", code="MALFORMED"),
    )
    sinks = {"sink[0].iceberg": 0, "sink[1].iceberg": 1, "fed.iceberg": 2}
    source = opened(tmp_path, sinks, fed=frozenset([2]))
    source.start(None, True)
    everybody, of_rest = [None] * 4, [1, 0, 1, 2, None]
    assert read(source, source.plan(None, 1 << 30))[SINK].to_pylist() == [1, 0, None, *everybody, *of_rest]


def test_an_entry_whose_sink_is_gone_is_an_error_that_names_both(tmp_path: Path) -> None:
    write(tmp_path, "1.ndjson", entry(1), entry(2, sink="sink[3].iceberg"))
    with pytest.raises(
        SourceError, match=r"1\.ndjson:2 was rejected by the sink sink\[3\]\.iceberg, .* has only iceberg"
    ):
        opened(tmp_path).start(None, True)
    assert sent(opened(tmp_path, {"iceberg": 0, "sink[3].iceberg": 1})) == [1, 2]


def test_entries_of_another_pipeline_in_the_same_folder_are_not_sent(tmp_path: Path) -> None:
    write(tmp_path, "1.ndjson", entry(1, pipeline="other"), entry(2))
    assert sent(opened(tmp_path)) == [2]


def test_a_batch_under_way_is_not_planned_again_and_reads_the_same_after_a_restart(tmp_path: Path) -> None:
    write(tmp_path, "1.ndjson", entry(1))
    write(tmp_path, "2.ndjson", entry(2))
    source = opened(tmp_path)
    source.start(None, True)
    planned = source.plan(None, 1)
    assert planned is not None
    assert source.plan(None, 1) == planned
    first = read(source, planned)
    again = opened(tmp_path)
    again.start(planned.position, True, [planned])
    assert read(again, planned) == first
    rest = again.plan(planned.position, 1 << 30)
    assert [json.loads(event)["n"] for event in read(again, rest)[EVENT].to_pylist()] == [2]


def test_what_a_replay_rejects_waits_for_the_next_one_even_if_it_was_interrupted(tmp_path: Path) -> None:
    write(tmp_path, "1.ndjson", entry(1))
    write(tmp_path, "2.ndjson", entry(2))
    write(tmp_path, "law.replay-0.ndjson", entry(3))
    source = opened(tmp_path)
    source.start(None, True)
    planned = source.plan(None, 1)
    assert planned is not None
    source.acknowledge(planned)
    write(tmp_path, "law.replay-1.ndjson", entry(1))
    assert source.rejected_again() == [f"{tmp_path}/dlq/law.replay-1.ndjson"]
    write(tmp_path, "4.ndjson", entry(4))  # of the pipeline itself, meanwhile
    assert sent(opened(tmp_path), planned.position) == [2, 4, 3]
    assert sent(opened(tmp_path), {"entries": 4}) == [1]


def test_a_folder_that_has_moved_is_not_sent_again(tmp_path: Path) -> None:
    write(tmp_path, "1.ndjson", entry(1))
    assert sent(opened(tmp_path)) == [1]
    (tmp_path / "dlq").rename(tmp_path / "elsewhere")
    (tmp_path / "elsewhere" / "2.ndjson").write_text(json.dumps(entry(2)))
    source = RejectsSource(
        LocalFolder(tmp_path / "replay"),
        [str(tmp_path / "elsewhere")] * 2,
        ReplaySelection("law", {"iceberg": 0}),
        {},
        "law.replay-",
    )
    source.find_files()
    assert sent(source, {"entries": 1}) == [2]


def test_a_list_of_sent_entries_that_is_gone_is_an_error_and_nothing_is_sent_again(tmp_path: Path) -> None:
    write(tmp_path, "1.ndjson", entry(1))
    assert sent(opened(tmp_path)) == [1]
    (tmp_path / "replay" / "taken.db").unlink()
    with pytest.raises(PositionLostError, match="1 dead letters were replayed"):
        opened(tmp_path).start({"entries": 1}, True)


def test_a_file_that_is_gone_when_its_turn_comes_is_an_error(tmp_path: Path) -> None:
    write(tmp_path, "1.ndjson", entry(1))
    source = opened(tmp_path)
    source.start(None, True)
    planned = source.plan(None, 1)
    (tmp_path / "dlq" / "1.ndjson").unlink()
    with pytest.raises(SourceError, match="no longer exist"):
        read(source, planned)


def test_a_queue_that_does_not_exist_has_nothing(tmp_path: Path) -> None:
    assert sent(opened(tmp_path)) == []
    assert not (tmp_path / "replay").exists()

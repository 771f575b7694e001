"""Objects that are found by listing buckets, in a real object store."""

from __future__ import annotations

import gzip
import io
import json
from pathlib import Path
from typing import Any

import obstore
import pyarrow as pa
import pytest
from pyarrow import orc, parquet

from calve.errors import PositionLostError, SettingsError, SourceError, SourceUnavailableError
from calve.pipeline.plugins import PLUGINS
from calve.settings import parse_text
from calve.sources.file import whole_files
from calve.sources.source import StartPosition
from services.objects import BUCKET, ObjectStore
from sources.s3.world import ALL, World, read, texts

pytestmark = pytest.mark.services


@pytest.fixture
def world(object_store: ObjectStore, tmp_path: Path) -> World:
    return World(object_store, tmp_path)


def test_objects_are_read_by_their_codec_and_filter_with_their_metadata(world: World) -> None:
    table = io.BytesIO()
    parquet.write_table(pa.table({"id": [1, 2]}), table)
    stripes = io.BytesIO()
    orc.write_table(pa.table({"id": [3]}), stripes)
    odd = "odd name+%2F=ü.ndjson"
    for name, data in {
        "a.ndjson": b"{}\n{}\n",
        "b.csv.gz": gzip.compress(b"x\n1\n"),
        "c.parquet": table.getvalue(),
        "d.json": b'[{"j": 1}]',
        "g.orc": stripes.getvalue(),
        odd: b'{"odd":1}\n',
        "e.tmp": b"{}",
        "f.unknown": b"{}",
        "empty.ndjson": b"",
    }.items():
        world.put(name, data)
    opened = world.scan(exclude=(".tmp",))
    opened.start(None, once=True)
    planned = opened.plan(None, ALL)
    names = ["a.ndjson", "b.csv.gz", "c.parquet", "d.json", "g.orc", odd, "empty.ndjson"]
    assert sorted(world.names(planned)) == sorted(names)
    expected = [b"{}", b"{}", b'{"x":"1"}', b'{"id":1}', b'{"id":2}', b'{"id":3}', b'{"j": 1}', b'{"odd":1}']
    assert sorted(texts(opened, planned)) == sorted(expected)
    [batch] = [batch for batch in read(opened, planned) if odd in batch["s3_key"][0].as_py()]
    assert batch["s3_bucket"].to_pylist() == [BUCKET]
    assert batch["s3_key"].to_pylist() == [world.prefix + odd]
    assert batch["file_path"].to_pylist() == [f"s3://{BUCKET}/{world.prefix}{odd}"]
    assert batch["s3_etag"][0].as_py()


def test_each_content_is_read_once_whatever_restarts_and_new_objects_are_found(world: World) -> None:
    world.put("a.ndjson")
    opened = world.scan()
    opened.start(None, once=False)
    first = opened.plan(None, ALL)
    assert first
    world.put("b.ndjson")
    killed = world.scan()
    killed.start(json.loads(json.dumps(first.position)), False, [first])
    second = killed.plan(first.position, ALL)
    assert second
    assert world.names(second) == ["b.ndjson"]
    for planned in (first, second, second):
        killed.acknowledge(planned)
    again = world.scan()
    again.start(second.position, once=False)
    assert not again.backlog(second.position)
    world.put("a.ndjson", b'{"a":2}\n')  # another content under the same key
    world.put("b.ndjson")  # the same content
    assert again.backlog(second.position)
    third = again.plan(second.position, ALL)
    assert world.names(third) == ["a.ndjson"]
    assert texts(again, third) == [b'{"a":2}']


def test_batches_hold_whole_objects_and_large_ones_are_divided(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(whole_files, "PART_BYTES", 1000)
    lines = [b'{"id":%d}' % number for number in range(1000)]
    world.put("a.ndjson", b"\n".join(lines))
    world.put("b.ndjson.gz", gzip.compress(b"\n".join(lines), 0))
    opened = world.scan()
    opened.start(None, once=True)
    first = opened.plan(None, 1)
    assert first
    assert len(first.splits) == 11
    assert first.waiting
    second = opened.plan(first.position, 1)
    assert texts(opened, first) + texts(opened, second) == lines * 2
    assert opened.plan(None, ALL) == first


def test_with_once_later_objects_are_left_for_another_run(world: World) -> None:
    world.put("a.ndjson")
    opened = world.scan()
    opened.start(None, once=True)
    world.put("b.ndjson")
    first = opened.plan(None, ALL)
    assert first
    assert world.names(first) == ["a.ndjson"]
    assert not opened.backlog(first.position)


@pytest.mark.parametrize("change", ["deleted", "replaced"])
def test_an_object_that_is_gone_or_replaced_is_one_reject(world: World, change: str) -> None:
    world.put("a.ndjson")
    opened = world.scan()
    opened.start(None, once=True)
    planned = opened.plan(None, ALL)
    if change == "deleted":
        obstore.delete(world.store, f"{world.prefix}a.ndjson")
    else:
        world.put("a.ndjson", b'{"other":1}\n')
    [batch] = read(opened, planned)
    assert ("was gone" if change == "deleted" else "was replaced") in batch["malformed"][0].as_py()
    assert batch["event"].to_pylist() == [None]


def test_objects_are_deleted_after_the_commit_and_not_before(world: World) -> None:
    world.put("a.ndjson")
    opened = world.scan(delete_s3_objects_on_read=True)
    opened.start(None, once=True)
    planned = opened.plan(None, ALL)
    assert planned
    assert texts(opened, planned)
    assert obstore.head(world.store, f"{world.prefix}a.ndjson")
    opened.acknowledge(planned)
    opened.acknowledge(planned)
    with pytest.raises(FileNotFoundError):
        obstore.head(world.store, f"{world.prefix}a.ndjson")


def test_a_lost_list_is_an_error_and_a_lost_state_begins_where_it_is_told(world: World) -> None:
    world.put("a.ndjson")
    opened = world.scan()
    opened.start({"objects": 1}, once=True)
    with pytest.raises(PositionLostError, match="list of them"):
        opened.plan({"objects": 1}, ALL)
    for beginning, count in (
        (StartPosition(at="earliest"), 0),
        (StartPosition(timestamp_ms=1), 0),
        (StartPosition(at="latest"), 1),
    ):
        assert world.scan().begin_at(beginning) == {"objects": count}
    again = world.scan()
    again.start({"objects": 1}, once=True)
    assert again.plan({"objects": 1}, ALL) is None


def test_a_missing_bucket_and_refused_keys_end_the_run(world: World) -> None:
    for opened in (world.scan(bucket="no-such-bucket"), world.scan(aws=world.wrong)):
        with pytest.raises(SourceError, match="cannot be listed") as raised:
            opened.start(None, once=True)
        assert not isinstance(raised.value, SourceUnavailableError)


@pytest.mark.parametrize("on_error", ["retain_messages", "delete_messages"])
def test_an_object_that_may_not_be_read_waits_or_is_a_reject(world: World, on_error: Any) -> None:
    world.put("a.ndjson")
    opened = world.scan()
    opened.start(None, once=True)
    planned = opened.plan(None, ALL)
    refused = world.scan(on_error=on_error, aws=world.wrong)
    if on_error == "retain_messages":
        with pytest.raises(SourceUnavailableError, match="cannot be read"):
            read(refused, planned)
    else:
        [batch] = read(refused, planned)
        assert "may not be read" in batch["malformed"][0].as_py()


def test_a_bucket_is_a_name_and_there_is_one_way_to_find_objects() -> None:
    text = "p:\n  source: {{s3: {0}}}\n  sink: [{{iceberg: {{table_identifier: a.b}}}}]"
    for options, why in (("{}", "scan"), ("{scan: {buckets: [{bucket: {name: 's3://a/b'}}]}}", "this is a path")):
        with pytest.raises(SettingsError, match=why):
            parse_text(text.format(options), PLUGINS)

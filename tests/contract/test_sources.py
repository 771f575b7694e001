"""What every source promises, whatever it reads from. A new source is one more parameter."""

from __future__ import annotations

import json
import pickle
import uuid
from pathlib import Path

import obstore
import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog

import calve.sources
from calve.catalog.catalog import Catalog, embedded
from calve.engine import session
from calve.errors import SourceUnavailableError
from calve.event.typed import with_text
from calve.pipeline import plugins
from calve.pipeline.plugins import PLUGINS, open_source
from calve.settings import parse_text
from calve.sources.s3.objects import store_of
from calve.sources.s3.settings import AwsAccount
from calve.sources.source import EVENT, stop
from calve.state.local_folder import LocalFolder
from kit.running import post, until
from services.objects import ACCESS_KEY, BUCKET, REGION, SECRET_KEY

COUNT = 5_000
YAML = "law:\n  source:\n    {source}\n  sink:\n    - iceberg: {{table_identifier: a.b}}\n"


def opened(source: str, folder):
    parsed = parse_text(YAML.format(source=source), PLUGINS)
    return open_source(parsed.pipelines[0], LocalFolder(folder / "law"), catalog_of)


def catalog_of(properties):
    return "lake", Catalog(session.start(), properties)


def numbered(start: int, count: int) -> list[bytes]:
    return [json.dumps({"n": number}).encode() for number in range(start, start + count)]


class Files:
    """Files that appear in a folder."""

    def __init__(self, folder, request):
        self.folder = folder
        self.yaml = f'file: {{path: "{folder}/in/*.ndjson", poll_interval: 10ms, settle: 0s}}'
        (folder / "in").mkdir()
        self.made = 0

    def feed(self, source, events):
        for start in range(0, len(events), 500):
            self.made += 1
            (self.folder / "in" / f"{self.made:05}.ndjson").write_bytes(b"\n".join(events[start : start + 500]))


class GrowingFile:
    """Lines that are appended to a file, which is renamed from time to time."""

    def __init__(self, folder, request):
        self.file = folder / "in" / "growing.ndjson"
        path = f'path: "{folder}/in/growing*", codec: {{ndjson: {{}}}}'
        self.yaml = f"file: {{{path}, tail: true, poll_interval: 10ms}}"
        self.file.parent.mkdir()
        self.made = 0

    def feed(self, source, events):
        for start in range(0, len(events), 500):
            with self.file.open("ab") as file:
                file.writelines(event + b"\n" for event in events[start : start + 500])
        self.made += 1
        self.file.rename(self.file.with_suffix(f".{self.made}"))


class Topic:
    """Records of a real topic with three partitions."""

    def __init__(self, folder, request):
        self.broker = request.getfixturevalue("kafka_broker")
        self.topic = f"law-{uuid.uuid4().hex[:8]}"
        self.broker.create_topic(self.topic, partitions=3)
        topics = f"[{{name: {self.topic}, serde_format: json}}]"
        self.yaml = f'kafka: {{bootstrap_servers: ["{self.broker.address}"], topics: {topics}}}'
        until(lambda: self._leads(folder), "the new topic has its leaders")

    def _leads(self, folder) -> bool:
        try:
            opened(self.yaml, folder).start(None, once=False)
        except SourceUnavailableError:
            return False
        return True

    def feed(self, source, events):
        self.broker.produce(self.topic, events, partitions=range(3))


class Requests:
    """Requests over HTTP."""

    def __init__(self, folder, request):
        self.yaml = "http: {port: 0}"

    def feed(self, source, events):
        for start in range(0, len(events), 100):
            assert post(source.address[1], [json.loads(event) for event in events[start : start + 100]]) == 200


class Telemetry(Requests):
    """Log records of OpenTelemetry."""

    def __init__(self, folder, request):
        self.yaml = "otlp: {port: 0, grpc_port: null, promote: [n]}"

    def feed(self, source, events):
        attributes = [[{"key": "n", "value": {"intValue": json.loads(event)["n"]}}] for event in events]
        logs = [{"scopeLogs": [{"logRecords": [{"attributes": pair} for pair in attributes]}]}]
        assert post(source.address[1], {"resourceLogs": logs}, path="/v1/logs") == 200


class Objects:
    """Objects that appear in a bucket."""

    def __init__(self, folder, request):
        store = request.getfixturevalue("object_store")
        self.prefix = f"law-{uuid.uuid4().hex[:8]}/"
        aws = {"region": REGION, "endpoint": store.endpoint}
        aws |= {"access_key_id": ACCESS_KEY, "secret_access_key": SECRET_KEY}
        bucket = {"name": BUCKET, "filter": {"include_prefix": [self.prefix]}}
        scan = {"buckets": [{"bucket": bucket}], "scheduling": {"interval": "10ms"}}
        self.yaml = "s3: " + json.dumps({"scan": scan, "aws": aws})
        self.store = store_of(AwsAccount(**aws), BUCKET)
        self.made = 0

    def feed(self, source, events):
        for start in range(0, len(events), 500):
            self.made += 1
            obstore.put(self.store, f"{self.prefix}{self.made:05}.ndjson", b"\n".join(events[start : start + 500]))


class Snapshots:
    """Snapshots of a table, written by another engine."""

    def __init__(self, folder, request):
        request.getfixturevalue("spark")
        properties = embedded(folder / "lakehouse")
        (folder / "lakehouse").mkdir()
        self.catalog = SqlCatalog("lakehouse", uri=f"sqlite:///{folder}/lakehouse/catalog.db", warehouse=str(folder))
        self.catalog.create_namespace("law")
        self.catalog.create_table("law.numbers", pa.schema([("n", pa.int64())]))
        given = properties
        self.yaml = f"iceberg: {{tables: [{{table_name: law.numbers}}], polling_interval: 100ms, catalog: {given}}}"

    def feed(self, source, events):
        for start in range(0, len(events), 500):
            rows = pa.table({"n": [json.loads(event)["n"] for event in events[start : start + 500]]})
            self.catalog.load_table("law.numbers").append(rows)


class SparksFiles(Files):
    """Files that Spark finds in a folder."""

    def __init__(self, folder, request):
        super().__init__(folder, request)
        request.getfixturevalue("spark")
        self.yaml = f'spark: {{format: json, schema: "n long", options: {{path: "{folder}/in"}}, poll_interval: 10ms}}'

    def feed(self, source, events):
        self.made += 1
        unpublished = self.folder / f"{self.made}.ndjson"
        unpublished.write_bytes(b"\n".join(events))
        unpublished.rename(self.folder / "in" / unpublished.name)


class Letters:
    """Letters in the source that CONTRIBUTING shows."""

    def __init__(self, folder, request):
        patch = request.getfixturevalue("monkeypatch")
        patch.setattr(calve.sources, "__path__", [*calve.sources.__path__, str(Path(__file__).with_name("new_source"))])
        patch.setitem(PLUGINS.sources, "mailbox", plugins._source_module("mailbox", "settings").SETTINGS)
        self.folder = folder / "law" / "mailbox"
        self.yaml = "mailbox: {}"
        self.made = 0

    def feed(self, source, events):
        for start in range(0, len(events), 500):
            self.made += 1
            letter = self.folder / f"{self.made}.writing"
            letter.write_bytes(b"\n".join(events[start : start + 500]))
            letter.rename(letter.with_suffix(".letter"))


@pytest.fixture(
    params=[
        pytest.param(Files, id="file"),
        pytest.param(GrowingFile, id="file-tail"),
        pytest.param(Requests, id="http"),
        pytest.param(Telemetry, id="otlp"),
        pytest.param(Topic, id="kafka", marks=pytest.mark.services("kafka_broker")),
        pytest.param(Objects, id="s3", marks=pytest.mark.services("object_store")),
        pytest.param(Snapshots, id="iceberg", marks=pytest.mark.spark),
        pytest.param(SparksFiles, id="spark", marks=pytest.mark.spark),
        pytest.param(Letters, id="mailbox"),
    ]
)
def world(request, tmp_path):
    return request.param(tmp_path, request)


def read(source, planned) -> list[bytes]:
    reader = pickle.loads(pickle.dumps(source.reader))
    batches = (pa.Table.from_batches([batch]) for split in planned.splits for batch in reader.read(split))
    return [event for rows in batches for event in with_text(rows)[EVENT].to_pylist()]


def plan_all(source, position, max_bytes=1 << 30):
    """Plan until nothing is left; give the batches and the last position."""
    until(lambda: _waits(source, position), "the source sees what it was fed")
    found = []
    while (planned := source.plan(position, max_bytes)) is not None:
        found.append(planned)
        position = planned.position
    return found, position


def _waits(source, position) -> bool:
    try:
        return bool(source.backlog(position))
    except SourceUnavailableError:  # a new topic finds its leader; the pipeline tries again, too
        return False


def numbers(events) -> list[int]:
    return sorted(int(json.loads(event)["n"]) for event in events)


def test_every_event_is_in_one_batch_and_a_split_reads_the_same_each_time(world, tmp_path):
    source = opened(world.yaml, tmp_path)
    source.start(None, once=False)
    world.feed(source, numbered(0, COUNT))
    batches, position = plan_all(source, None, max_bytes=20_000)
    assert len(batches) > 1 or isinstance(world, Requests | SparksFiles)  # they are divided at coarser places
    first = [read(source, planned) for planned in batches]
    assert numbers(event for events in first for event in events) == list(range(COUNT))
    assert [read(source, planned) for planned in batches] == first
    assert not source.backlog(position)
    stop(source)


def test_a_position_survives_a_restart_and_nothing_comes_twice(world, tmp_path):
    source = opened(world.yaml, tmp_path)
    source.start(None, once=False)
    world.feed(source, numbered(0, 1000))
    batches, position = plan_all(source, None)
    position = json.loads(json.dumps(position))
    for planned in batches:
        source.acknowledge(planned)
        source.acknowledge(planned)  # a crash may repeat it
    stop(source)
    again = opened(world.yaml, tmp_path)
    again.start(position, once=False)
    assert again.plan(position, 1 << 30) is None
    world.feed(again, numbered(1000, 500))
    batches, _ = plan_all(again, position)
    assert numbers(event for planned in batches for event in read(again, planned)) == list(range(1000, 1500))
    stop(again)
    stop(again)


def test_a_batch_that_was_planned_and_not_committed_reads_the_same_after_a_restart(world, tmp_path):
    source = opened(world.yaml, tmp_path)
    source.start(None, once=False)
    world.feed(source, numbered(0, 1000))
    [planned], _ = plan_all(source, None)
    first = read(source, planned)
    stop(source)
    again = opened(world.yaml, tmp_path)
    again.start(planned.position, True, [planned])
    assert read(again, planned) == first
    assert again.plan(planned.position, 1 << 30) is None
    again.acknowledge(planned)
    stop(again)


def test_once_ends_with_what_was_there_at_the_start(world, tmp_path):
    source = opened(world.yaml, tmp_path)
    source.start(None, once=False)
    world.feed(source, numbered(0, 300))
    if not isinstance(world, Requests):
        stop(source)
        source = opened(world.yaml, tmp_path)
        source.start(None, once=True)
        world.feed(source, numbered(300, 300))
    batches, _ = plan_all(source, None)
    assert numbers(event for planned in batches for event in read(source, planned)) == list(range(300))
    stop(source)

"""What every sink promises, whatever it writes to. A new sink is one more class and one more parameter."""

from __future__ import annotations

import dataclasses
import gzip
import json
import os
import pickle
import subprocess
import sys
import uuid
from collections import Counter
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.exceptions import NoSuchTableError

import calve.sinks
from calve.catalog.catalog import Catalog, embedded
from calve.commit.fence import append
from calve.commit.mark import CommitTarget, Mark
from calve.engine import session
from calve.errors import CalveError, Verdict
from calve.event.columns import JSON, VERSION
from calve.observe.log import Log
from calve.pipeline import plugins
from calve.pipeline.plugins import PLUGINS, open_sink, probe_sink
from calve.record.receipt import Failure, Receipt
from calve.settings import SettingsErrors, parse_text
from calve.sinks.sink import Opening
from calve.sources.source import Split
from calve.task.job import Job
from calve.task.task import run_task
from kit.running import Calve
from services.process import free_ports
from services.scripted import Scripted

NEW = Path(__file__).with_name("new")
"""The smallest sink that works."""
YAML = "law:\n  source:\n    http: {{port: 0}}\n  sink:\n    - {sink}\n"
DRIVER_ONLY = ("calve.catalog", "calve.commit", "calve.ledger", "calve.pipeline", "calve.maintenance", "calve.operate")


class Tables:
    """Tables of the embedded catalog."""

    name = "iceberg"
    bad = '{"id": 1, "n": "not a number"}'

    def __init__(self, folder, request):
        request.getfixturevalue("spark")
        self.spark = session.start()
        self.folder = folder
        self.properties = embedded(folder / "lakehouse")
        self.sink = f"iceberg: {{{self._options(self.properties)}}}"
        [nobody] = free_ports(1)
        self.gone = f"iceberg: {{{self._options({'type': 'rest', 'uri': f'http://127.0.0.1:{nobody}'})}}}"

    @staticmethod
    def _options(catalog):
        types = "column_types: {n: long}, on_type_mismatch: dlq"
        return f"table_identifier: law.events, auto_create: true, {types}, catalog: {json.dumps(catalog)}"

    def found(self):
        try:
            return Calve(self.folder, "").rows("law.events").to_pylist()
        except NoSuchTableError:
            return []

    def traces(self):
        catalog = self.folder / "lakehouse"
        return sorted(str(path.relative_to(catalog)) for path in catalog.rglob("*") if path.is_file())


class Documents:
    """Documents of a real node."""

    name = "opensearch"
    bad = '{"id": 1, "n": "not a number"}'

    def __init__(self, folder, request):
        self.spark = None
        self.node = request.getfixturevalue("opensearch")
        self.index = f"law-{uuid.uuid4().hex[:8]}"
        self.node.call("PUT", self.index, {"mappings": {"properties": {"n": {"type": "long"}}}})
        [nobody] = free_ports(1)
        self.sink, self.gone = (
            f"opensearch: {{hosts: ['{address}'], index: {self.index}, document_id: '${{/id}}'}}"
            for address in (self.node.address, f"http://127.0.0.1:{nobody}")
        )

    def found(self):
        return list(self.node.documents(self.index).values())

    def traces(self):
        return sorted(self.node.call("GET", "_all")), self.node.count(self.index)


class Records:
    """Records of a real broker, as a reader of committed ones sees them."""

    name = "kafka"
    bad = '{"id": 1, "n": "not a number", "do": "unknown"}'

    def __init__(self, folder, request):
        self.spark = None
        self.broker = request.getfixturevalue("kafka_broker")
        self.topic = f"law-{uuid.uuid4().hex[:8]}"
        self.broker.create_topic(self.topic, 2)
        [nobody] = free_ports(1)
        self.sink, self.gone = (
            f"kafka: {{bootstrap_servers: '{address}', topic: {self.topic}, key: '${{/id}}', operation: '${{/do}}'}}"
            for address in (self.broker.address, f"127.0.0.1:{nobody}")
        )

    def found(self):
        return [json.loads(record.value()) for record in self.broker.committed(self.topic)]

    def traces(self):
        return [(record.key(), record.value()) for record in self.broker.committed(self.topic)]


class Files:
    """Files that a manifest names."""

    name = "file"
    bad = '{"id": 1, "n": "not a number", "do": "unknown"}'

    def __init__(self, folder, request):
        self.spark = None
        self.folder = folder / "out"
        self.sink = f"file: {{path: {self.folder}, operation: '${{/do}}', compression: gzip}}"
        self.gone = "file: {path: /dev/full/out}"

    def named(self):
        manifests = [json.loads(each.read_bytes()) for each in sorted((self.folder / "_manifests").glob("*.json"))]
        named = [self.folder / file["path"] for manifest in manifests for file in manifest["files"]]
        assert {*named} == {*self.folder.glob("[!_]*")}
        return named

    def found(self):
        lines = [line for file in self.named() for line in gzip.decompress(file.read_bytes()).splitlines()]
        return [json.loads(line)["after"] for line in lines]

    def traces(self):
        return sorted(str(path) for path in self.folder.rglob("*") if path.is_file())


class ParquetFiles(Files):
    """The same as Parquet, whose columns refuse values."""

    bad = '{"id": 1, "n": "not a number"}'

    def __init__(self, folder, request):
        super().__init__(folder, request)
        columns = "columns: [{name: id, type: long}, {name: n, type: long}]"
        self.sink = f"file: {{path: {self.folder}, codec: {{parquet: {{schema: {{{columns}}}}}}}}}"

    def found(self):
        return [row for file in self.named() for row in pq.ParquetFile(file).read().to_pylist()]


class Posts:
    """Requests that a server accepted, each once: it knows the keys."""

    name = "http"
    bad = '{"id": 1, "n": "not a number", "do": "unknown"}'

    def __init__(self, folder, request):
        self.spark = None
        self.server = Scripted(lambda method, path, body: (200, b"")).__enter__()
        request.addfinalizer(lambda: self.server.__exit__())
        [nobody] = free_ports(1)
        self.sink, self.gone = (
            f"http: {{url: '{address}/events', operation: '${{/do}}', max_request_size: 100b}}"
            for address in (self.server.address, f"http://127.0.0.1:{nobody}")
        )

    def found(self):
        return [json.loads(line)["after"] for body in self.traces().values() for line in body.splitlines()]

    def traces(self):
        return {headers["idempotency-key"]: body for method, _, body, headers in self.server.asked if method == "POST"}


class Lines:
    """Files of the sink that CONTRIBUTING shows; its server is a disk."""

    name = "lines"
    bad = '{"id": 1, "n": "bad"}'

    def __init__(self, folder, request):
        patch = request.getfixturevalue("monkeypatch")
        patch.setattr(calve.sinks, "__path__", [*calve.sinks.__path__, str(NEW)])
        settings = plugins._sink_module("lines", "settings").SETTINGS
        self.plugins = dataclasses.replace(PLUGINS, sinks={**PLUGINS.sinks, "lines": settings})
        self.spark = None
        self.folder = folder
        self.sink = f"lines: {{folder: {folder / 'out'}}}"
        self.gone = "lines: {folder: /dev/full/out}"

    def found(self):
        files = sorted((self.folder / "out").glob("*")) if (self.folder / "out").exists() else []
        return [json.loads(line) for file in files for line in file.read_text().splitlines()]

    def traces(self):
        return sorted(map(str, self.folder.rglob("*")))


WORLDS = [
    pytest.param(Tables, id="iceberg", marks=pytest.mark.spark),
    pytest.param(Documents, id="opensearch", marks=pytest.mark.services("opensearch")),
    pytest.param(Records, id="kafka", marks=pytest.mark.services("kafka")),
    pytest.param(Files, id="file"),
    pytest.param(ParquetFiles, id="file-parquet"),
    pytest.param(Posts, id="http"),
    pytest.param(Lines, id="lines"),
]


@pytest.fixture(params=WORLDS)
def world(request, tmp_path):
    return request.param(tmp_path, request)


@dataclasses.dataclass(frozen=True)
class Events:
    """Reads events that the split has; one with `None` among them fails there, as a task does that is killed."""

    def read(self, split):
        events = split.body["events"]
        before = events[: events.index(None)] if None in events else events
        yield pa.record_batch({"event": pa.array([each.encode() for each in before], pa.binary())})
        if None in events:
            raise OSError("the disk is gone")


def parsed(world, sink):
    return parse_text(YAML.format(sink=sink), getattr(world, "plugins", PLUGINS)).pipelines[0]


def opened(world, folder, sink=None):
    [entry] = parsed(world, sink or world.sink).sinks
    keys = []

    def catalog_of(properties):
        keys.append(Catalog(session.start(), dict(properties)))
        return "lake", keys[-1]

    label = getattr(world, "topic", "law")  # one broker remembers the batches of all tests
    return open_sink(Opening(entry, label, {}, str(folder / "dlq"), catalog_of, Log("law")))


def write(sink, events, batch=1, attempt=0):
    """Do what a run does with one batch: pass after pass until all tables fit, then the commit."""
    sink.open()
    sink.begin_batch([])
    receipts, only = [], None
    for number in range(3):
        job = Job(
            pipeline="law",
            run=f"law-{batch}-{attempt}",
            reader=Events(),
            sinks=(sink.job(batch, batch, "law-", False),),
            max_open_writers=10,
            number=number,
            only=only,
            time_tenths=batch,
            split_numbers=[[0]],
            splits=1,
        )
        job = pickle.loads(pickle.dumps(job))
        report = msgspec.json.encode(run_task(job, [Split({"events": events})], 0))
        receipt = msgspec.json.decode(report, type=Receipt | Failure)
        if isinstance(receipt, Failure):
            raise receipt.to_error()
        receipts.append(receipt)
        if not receipt.misfits:
            break
        for misfit in receipt.misfits:
            sink.tables.fit(misfit.target.table, misfit.inferred)
        only = {0: frozenset(misfit.target for misfit in receipt.misfits)}
    for receipt in receipts:
        for one in receipt.tables:
            target = CommitTarget(one.table, one.uuid, one.branch, one.write_mode)
            append(sink.tables.catalogs[one.catalog], target, Mark("law", "state", batch), {batch: one.files})
    return receipts


def events(first, count):
    return [json.dumps({"id": number, "n": number}) for number in range(first, first + count)]


def counted(receipts):
    """Return rows and rejects, as the receipts have them."""
    rows = [one.rows for receipt in receipts for one in (*receipt.tables, *receipt.documents)]
    codes = [codes for receipt in receipts for one in receipt.rejects for codes in one.counts.values()]
    return sum(rows), sum((Counter(each) for each in codes), Counter())


def ids(world):
    return sorted(row["id"] for row in world.found())


def test_every_kind_of_sink_is_under_this_contract():
    kinds = {*plugins._SINKS, "lines"} - {"stdout"}  # which may print a batch again: tests/sinks/test_lines.py
    assert {param.values[0].name for param in WORLDS} == kinds


def test_an_unknown_option_is_refused_with_the_one_that_was_meant(world):
    name = next(field.name for field in dataclasses.fields(parsed(world, world.sink).sinks[0].value))
    wrong = world.sink.replace("{", f"{{{name}x: 1, ", 1)
    with pytest.raises(SettingsErrors) as refused:
        parsed(world, wrong)
    assert any(f"unknown key '{name}x'; did you mean {name}?" in str(each) for each in refused.value.problems)


def test_a_job_brings_nothing_of_the_driver_into_a_task(world, tmp_path):
    sink = opened(world, tmp_path)
    sink.open()
    sink.begin_batch([])
    (tmp_path / "job").write_bytes(pickle.dumps(sink.job(1, 1, "law-", False)))
    code = f"""
import pickle, sys, calve.sinks
calve.sinks.__path__.append({str(NEW)!r})
job = pickle.load(open({str(tmp_path / "job")!r}, "rb"))
assert job.needs is not None and job.conversion_key("a") == job.conversion_key("a")
print([name for name in sys.modules if name.startswith({DRIVER_ONLY!r})])
"""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    said = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert said.stdout == "[]\n", said.stdout + said.stderr


def test_every_event_is_a_row_or_a_reject_with_its_code_once(world, tmp_path):
    given = [*events(10, 5), "not JSON", world.bad, *events(20, 5)]
    rows, codes = counted(write(opened(world, tmp_path), given))
    assert (rows, codes.total(), codes["MALFORMED"]) == (10, 2, 1)
    assert ids(world) == [*range(10, 15), *range(20, 25)]


def test_a_preview_rejects_what_a_task_rejects_and_writes_nothing(world, tmp_path):
    if world.name == "opensearch":
        pytest.skip("only the node knows that a document does not fit its mapping")
    sink = opened(world, tmp_path)
    write(sink, events(1, 3))
    before = world.traces()
    given = [*events(10, 2), world.bad]
    rows = pa.table({"event": [each.encode() for each in given], JSON: given, VERSION: [1, 2, 3]})
    job = sink.job(2, 2, "law-", False)
    [name] = [job.route.table.static]
    found = job.preview(name, rows)
    assert (found.rejects["row"].to_pylist(), found.is_misfit, found.is_absent) == ([2], False, False)
    assert world.traces() == before


def test_a_batch_that_is_written_twice_is_there_once(world, tmp_path):
    write(opened(world, tmp_path), events(1, 20))
    write(opened(world, tmp_path), events(1, 20), attempt=1)
    assert ids(world) == list(range(1, 21))
    write(opened(world, tmp_path), events(21, 5), batch=2)
    assert ids(world) == list(range(1, 26))


def test_an_empty_batch_writes_nothing(world, tmp_path):
    sink = opened(world, tmp_path)
    sink.open()
    before = world.traces()
    receipts = write(sink, [])
    assert counted(receipts) == (0, Counter())
    assert world.traces() == before


def test_a_task_that_fails_leaves_nothing_that_is_doubled_or_lost_later(world, tmp_path):
    write(opened(world, tmp_path), events(1, 3))
    before = world.traces()
    with pytest.raises(CalveError) as failed:
        write(opened(world, tmp_path), [*events(10, 5), None], batch=2)
    assert failed.value.verdict is Verdict.AGAIN
    if world.name == "iceberg":
        assert world.traces() == before
    write(opened(world, tmp_path), events(10, 8), batch=2, attempt=1)
    assert ids(world) == [1, 2, 3, *range(10, 18)]


def test_a_sink_whose_server_is_gone_is_tried_again(world, tmp_path):
    sink = opened(world, tmp_path, world.gone)  # reaches nothing
    with pytest.raises(CalveError) as gone:
        sink.open()
    if world.name not in ("file", "lines"):  # their folder is wrong for good
        assert gone.value.verdict is Verdict.AGAIN
    assert gone.value.hint


def test_a_probe_tells_what_is_wrong_and_leaves_all_as_it_was(world, tmp_path):
    [well], [gone] = parsed(world, world.sink).sinks, parsed(world, world.gone).sinks
    before = world.traces()
    probe_sink(world.name, well.value, world.spark)
    with pytest.raises(CalveError) as wrong:
        probe_sink(world.name, gone.value, world.spark)
    assert str(wrong.value)
    assert world.traces() == before

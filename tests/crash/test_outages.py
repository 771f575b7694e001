"""Servers go away and come back, the driver is told to stop or is killed: nothing is lost, nothing is doubled."""

from __future__ import annotations

import json
import signal
from collections import Counter
from pathlib import Path

import pytest
from pyiceberg.catalog import load_catalog

from kit.running import PATIENCE_SECONDS, Calve, post, until
from services.kafka import Kafka
from services.objects import ObjectStore
from services.process import free_ports

pytestmark = [pytest.mark.crash, pytest.mark.services, pytest.mark.spark]

SINK = """
  sink:
    - iceberg:
        table_identifier: "out.t${/t}"
        auto_create: true
        flush_interval: 100ms
        commit_interval: 200ms
"""
HTTP = "web:\n  source: {{http: {{port: {port}}}}}" + SINK.replace("{/t}", "{{/t}}")
KAFKA = (
    'stream:\n  source:\n    kafka: {{bootstrap_servers: ["{address}"], topics: [{{name: events, group_id: g}}]}}'
    + SINK.replace("{/t}", "{{/t}}")
)
TABLES = 3


@pytest.fixture
def port():
    return free_ports(1)[0]


@pytest.fixture
def calve(spark, tmp_path):
    calve = Calve(tmp_path / "calve", "", spark)
    yield calve
    calve.end()


def _events(start, end):
    return [{"id": number, "t": number % TABLES} for number in range(start, end)]


def _send(port, start, end):
    """Send events in requests of 30; one that is not accepted is sent again."""
    for first in range(start, end, 30):
        block = _events(first, min(first + 30, end))
        until(lambda block=block, first=first: post(port, block, key=f"k{first}") == 200, "the source accepts")


def _ids(catalog):
    found = Counter()
    for number in range(TABLES):
        found.update(catalog.load_table(f"out.t{number}").scan().to_arrow().column("id").to_pylist())
    return found


def _rows(calve, pipeline):
    return sum(table["rows"] for table in calve.status(pipeline).get("tables", {}).values())


def _errors(calve):
    return [line for line in calve.said().splitlines() if " error: " in line and " · " not in line]


def test_a_catalog_and_its_storage_may_be_away_at_the_start_in_mid_stream_and_at_the_end(calve, port, tmp_path):
    with ObjectStore(tmp_path / "store") as store:
        calve.configure(HTTP.format(port=port) + f"        catalog: {json.dumps(store.rest_catalog())}\n")
        store.kill()
        calve.start("--give-up-after", "5s")
        calve.until(lambda: _errors(calve), "it says that the catalog is away")
        store.start()
        _send(port, 0, 300)
        calve.until(lambda: _rows(calve, "web") == 300, "rows are committed")
        store.kill()
        _send(port, 300, 600)
        calve.until(lambda: calve.status("web").get("errors"), "the status tells of the outage")
        _send(port, 600, 900)
        store.start()
        calve.until(lambda: _rows(calve, "web") == 900, "it goes on by itself")
        assert calve.until(lambda: not calve.status("web")["errors"], "the outage is over in the status as well")
        assert len(_errors(calve)) <= 8  # each outage in a sentence for each step, not one for each try
        store.kill()
        _send(port, 900, 1200)
        assert calve.stop() == 1
        assert "Given up" in calve.said()
        assert "Nothing is lost" in calve.said()
        store.start()
        assert calve.once() == 0
        assert _ids(load_catalog("rest", **store.rest_catalog())) == Counter(range(1200))


def test_kafka_may_be_away_at_the_start_and_in_mid_stream(calve, tmp_path):
    with Kafka(tmp_path / "kafka") as broker:
        broker.create_topic("events", partitions=2)
        calve.configure(KAFKA.format(address=broker.address))
        broker.kill()
        ran = calve.call("run", "pipelines.yaml", "--once", "--give-up-after", "2s", "--metrics-port", "0")
        assert ran.exit_code == 1
        assert "does not answer" in ran.output
        assert "Given up" in ran.output
        calve.start()
        calve.until(lambda: calve.status("stream").get("errors"), "it tells that Kafka is away")
        broker.start()
        broker.produce("events", [json.dumps(event) for event in _events(0, 300)])
        calve.until(lambda: _rows(calve, "stream") == 300, "rows are committed")
        broker.kill()
        calve.until(lambda: calve.status("stream")["errors"], "it tells that Kafka is away again")
        broker.start()
        broker.produce("events", [json.dumps(event) for event in _events(300, 600)])
        calve.until(lambda: _rows(calve, "stream") == 600, "it goes on by itself")
        assert calve.stop() == 0
        assert len(_errors(calve)) <= 9
        assert _ids(calve.catalog()) == Counter(range(600))


def test_a_stop_commits_what_was_accepted_and_a_killed_driver_leaves_no_process(calve, port):
    calve.configure(HTTP.format(port=port))
    process = calve.start()
    _send(port, 0, 90)
    assert len(_family(calve)) > 1
    process.kill()
    process.wait()
    until(lambda: not _family(calve), "the JVM and the workers are gone")
    process = calve.start()
    _send(port, 90, 180)
    process.send_signal(signal.SIGINT)  # the tests above have SIGTERM
    assert process.wait(PATIENCE_SECONDS) == 0, calve.said()[-1500:]
    assert _ids(calve.catalog()) == Counter(range(180))
    assert calve.status("web")["lag_bytes"] == 0


def _family(calve):
    """The processes that stand in its folder: the driver, the JVM, Python workers."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            found += [process.name] if (process / "cwd").readlink().is_relative_to(calve.folder) else []
        except OSError:
            continue
    return found

"""A receiver of OpenLineage gets one run: START, RUNNING for each commit with its columns, and COMPLETE or FAIL."""

from __future__ import annotations

import http.server
import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField, StringType

from calve.errors import SettingsError
from calve.notify import sender as module
from calve.notify.event import CloudEvent
from calve.notify.lineage import Lineage
from calve.notify.outbox import Outbox
from calve.notify.receivers import open_receiver
from calve.notify.sender import Sender, Subscription
from calve.observe.log import Log
from calve.observe.report import NotifyReport
from calve.pipeline.lineage import lineage_of
from calve.pipeline.plugins import PLUGINS
from calve.settings import notify, otlp, parse_text
from calve.settings.notify import NotifySettings, OpenLineageReceiver
from calve.state.local_folder import LocalFolder
from kit.running import PATIENCE_SECONDS

pytest.importorskip("openlineage.client", reason="pip install calve[openlineage]")
SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=True),
    NestedField(2, "note", StringType()),
    NestedField(3, "_at", StringType()),
)
COMMITTED = {"catalog": "lakehouse", "table": "shop.orders", "snapshot_id": "7", "rows": 3, "bytes": 90, "files": 1}


class Table:
    """What a lineage asks a loaded table."""

    location, schema = "s3://lake/shop/orders", SCHEMA


class Receiver(http.server.BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        server: Any = self.server
        body = self.rfile.read(int(self.headers["content-length"]))
        is_refused = server.refusals > 0
        server.refusals -= is_refused
        if not is_refused:
            server.got.append((self.path, json.loads(body)))
        self.send_response(503 if is_refused else 201)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.setattr(module, "delay", lambda failures: 0.0)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Receiver) as listening:
        listening.got, listening.refusals = [], 0  # type: ignore[attr-defined]
        thread = threading.Thread(target=listening.serve_forever, args=(0.02,))
        thread.start()
        yield listening
        listening.shutdown()
        thread.join()


def run(url: str, folder: Path, lineage: Lineage, events: list[CloudEvent], is_failed: bool = False) -> NotifyReport:
    subscription = Subscription(NotifySettings(openlineage=OpenLineageReceiver(url=url)))
    state = LocalFolder(folder)
    state.make()
    outbox = Outbox(state, [subscription.key])
    for event in events:
        outbox.add(event)
    outbox.keep(1)
    reports: dict[str, NotifyReport] = {}
    receiver = open_receiver(subscription.settings, lineage)
    sender = Sender(subscription, receiver, outbox, reports.__setitem__, Log("p"))
    sender.start()
    sender.finish(time.monotonic() + PATIENCE_SECONDS, is_failed)
    sender._thread.join(PATIENCE_SECONDS)
    return reports[url]


def url_of(server: Any) -> str:
    return f"http://127.0.0.1:{server.server_port}"


def test_a_run_is_start_running_and_complete_with_columns(server: Any, tmp_path: Path) -> None:
    lineage = Lineage("orders", [("kafka://broker:9092", "orders")], True, frozenset({"_at"}))
    lineage.tables["lakehouse", "shop.orders"] = Table()  # type: ignore[assignment]
    events = [
        CloudEvent.of("orders", "table.committed", "1", COMMITTED, "shop.orders"),
        CloudEvent.of("orders", "rejects", "2", {"codes": {"NO_KEY": 1}}),
        CloudEvent.of("orders", "table.committed", "3", {**COMMITTED, "snapshot_id": None, "table": "shop.others"}),
    ]
    server.refusals = 2
    assert run(url_of(server), tmp_path, lineage, events) == NotifyReport(sent=3)
    assert {path for path, _ in server.got} == {"/api/v1/lineage"}
    runs = [event for _, event in server.got]
    assert [event["eventType"] for event in runs] == ["START", "RUNNING", "RUNNING", "COMPLETE"]
    assert len({event["run"]["runId"] for event in runs}) == 1
    assert {(event["job"]["namespace"], event["job"]["name"]) for event in runs} == {("calve", "orders")}
    assert all(event["inputs"][0]["name"] == "orders" and event["producer"] for event in runs)
    [output] = runs[1]["outputs"]
    facets = output["facets"]
    assert (output["namespace"], output["name"]) == ("s3://lake", "shop/orders")
    assert [(field["name"], field["type"]) for field in facets["schema"]["fields"]] == [
        ("id", "long"),
        ("note", "string"),
        ("_at", "string"),
    ]
    assert facets["symlinks"]["identifiers"] == [{"name": "shop.orders", "namespace": "lakehouse", "type": "TABLE"}]
    assert facets["version"]["datasetVersion"] == "7"
    assert output["outputFacets"]["outputStatistics"]["rowCount"] == 3
    columns = facets["columnLineage"]["fields"]
    assert set(columns) == {"id", "note"}, "a column of metadata does not come from a field"
    [source] = columns["id"]["inputFields"]
    assert (source["namespace"], source["name"], source["field"]) == ("kafka://broker:9092", "orders", "id")
    [unknown] = runs[2]["outputs"]
    assert (unknown["namespace"], unknown["name"]) == ("iceberg://lakehouse", "shop.others")
    assert "schema" not in unknown["facets"]
    assert {output["name"] for output in runs[3]["outputs"]} == {"shop/orders", "shop.others"}


def test_columns_have_no_lineage_where_it_is_not_known(server: Any, tmp_path: Path) -> None:
    lineage = Lineage("orders", [("kafka://broker:9092", "a"), ("kafka://broker:9092", "b")], True)
    lineage.tables["lakehouse", "shop.orders"] = Table()  # type: ignore[assignment]
    run(url_of(server), tmp_path, lineage, [CloudEvent.of("orders", "table.committed", "1", COMMITTED)], is_failed=True)
    runs = [event for _, event in server.got]
    assert [event["eventType"] for event in runs] == ["START", "RUNNING", "FAIL"]
    assert "columnLineage" not in runs[1]["outputs"][0]["facets"]


def test_a_dead_receiver_holds_the_end_of_a_run_no_longer_than_its_time(tmp_path: Path) -> None:
    subscription = Subscription(NotifySettings(openlineage=OpenLineageReceiver(url="http://127.0.0.1:9")))
    state = LocalFolder(tmp_path)
    state.make()
    outbox = Outbox(state, [subscription.key])
    outbox.add(CloudEvent.of("p", "table.committed", "1", COMMITTED))
    outbox.keep(1)
    sender = Sender(subscription, open_receiver(subscription.settings), outbox, lambda *_: None, Log("p"))
    sender.start()
    assert sender.finish(time.monotonic() + 0.2) == 1


@pytest.mark.parametrize(
    ("source", "inputs"),
    [
        (
            'kafka: {bootstrap_servers: ["b:1", "c:2"], topics: [{name: t}, {name: u}]}',
            [("kafka://b:1", "t"), ("kafka://b:1", "u")],
        ),
        ('kafka: {bootstrap_servers: "b:1,c:2", topics: [{pattern: "t.*"}]}', []),
        ('file: {path: ["/in/*.json", "s3://bucket/a/*.json"]}', [("file", "/in/*.json"), ("s3://bucket", "a/*.json")]),
        (
            "postgres: {host: h, username: u, database: shop, ssl_mode: require, tables: {include: [public.a]}}",
            [("postgres://h:5432", "shop.public.a")],
        ),
        (
            "mysql: {host: h, username: u, ssl_mode: require, tables: {include: [shop.a]}}",
            [("mysql://h:3306", "shop.a")],
        ),
        ("mysql: {host: h, username: u, ssl_mode: require}", []),
        ("iceberg: {tables: [{table_name: shop.a}]}", [("iceberg://lakehouse", "shop.a")]),
        ("http: {}", []),
    ],
)
def test_a_source_names_what_it_reads_if_the_configuration_does(source: str, inputs: list[tuple[str, str]]) -> None:
    text = f"p: {{source: {{{source}}}, sink: [{{iceberg: {{table_identifier: a.b, auto_create: true, metadata_columns: {{_at: ingestion_time}}}}}}]}}"
    [pipeline] = parse_text(text, PLUGINS).pipelines
    lineage = lineage_of(pipeline, pipeline.name)
    assert (list(lineage.inputs), lineage.is_by_name, lineage.added) == (inputs, True, {"_at"})


@pytest.mark.parametrize(
    ("key", "extra"),
    [("notify: [{openlineage: {url: 'http://m:1'}}]", "openlineage"), ("otlp: {url: 'http://c:1'}", "otel")],
)
def test_validate_names_the_extra_that_is_missing(key: str, extra: str, monkeypatch: pytest.MonkeyPatch) -> None:

    text = f"p: {{source: {{http: {{}}}}, {key}, sink: [{{iceberg: {{table_identifier: a.b, auto_create: true}}}}]}}"
    assert parse_text(text, PLUGINS).pipelines
    for settings in (notify, otlp):
        monkeypatch.setattr(settings, "is_installed", lambda module: False)
    with pytest.raises(SettingsError, match=rf"pip install 'calve\[{extra}\]'"):
        parse_text(text, PLUGINS)

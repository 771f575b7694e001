"""Receivers get events in order, each at least once, whatever they answer meanwhile."""

from __future__ import annotations

import http.server
import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import pytest

from calve.errors import SinkUnavailableError
from calve.notify import sender as module
from calve.notify.event import CloudEvent
from calve.notify.outbox import Outbox
from calve.notify.receivers import open_receiver
from calve.notify.sender import Sender, Subscription
from calve.observe.log import Log
from calve.observe.report import NotifyReport
from calve.settings.notify import FileReceiver, HttpReceiver, KafkaReceiver, NotifySettings
from calve.state.local_folder import LocalFolder
from kit.running import PATIENCE_SECONDS


class Endpoint(http.server.BaseHTTPRequestHandler):
    """Refuses the first two requests, and notes the others."""

    refusals = 2
    got: ClassVar[list[tuple[str, str, dict]]] = []

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        if type(self).refusals:
            type(self).refusals -= 1
            self.send_error(503)
            return
        self.got.append((self.headers["content-type"], self.headers["authorization"], json.loads(body)))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def url() -> Iterator[str]:
    Endpoint.refusals, Endpoint.got = 2, []
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Endpoint) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/hook?x=1"
        server.shutdown()
        thread.join()


def filled(folder: Path, key: str, *events: tuple[str, str, list[int]]) -> Outbox:
    state = LocalFolder(folder)
    state.make()
    outbox = Outbox(state, [key])
    for event_id, kind, sinks in events:
        outbox.add(CloudEvent.of("p", kind, event_id, {}, "shop.orders", sinks))
    outbox.keep(1)
    return outbox


def sent_by(subscription: Subscription, outbox: Outbox) -> dict[str, NotifyReport]:
    reports: dict[str, NotifyReport] = {}
    receiver = open_receiver(subscription.settings)
    sender = Sender(subscription, receiver, outbox, reports.__setitem__, Log("p"))
    sender.start()
    sender.finish(time.monotonic() + PATIENCE_SECONDS)
    return reports


def test_an_endpoint_that_refuses_gets_everything_later_in_order(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "delay", lambda failures: 0.0)
    settings = NotifySettings(http=HttpReceiver(url=url, headers={"authorization": "secret"}))
    subscription = Subscription(settings)
    outbox = filled(tmp_path, subscription.key, *[(str(number), "rejects", []) for number in range(5)])
    reports = sent_by(subscription, outbox)
    assert [event["id"] for _, _, event in Endpoint.got] == ["0", "1", "2", "3", "4"]
    kind, secret, event = Endpoint.got[0]
    assert (kind, secret) == ("application/cloudevents+json; charset=UTF-8", "secret")
    assert {key: event[key] for key in ("specversion", "source", "type", "subject")} == {
        "specversion": "1.0",
        "source": "calve/p",
        "type": "rejects",
        "subject": "shop.orders",
    }
    assert reports == {url.partition("?")[0]: NotifyReport(sent=5)}


def test_a_receiver_gets_only_the_types_and_the_sinks_that_it_asks_for(tmp_path: Path) -> None:
    path = tmp_path / "out" / "events.ndjson"
    settings = NotifySettings(file=FileReceiver(path=path), events=["table.committed"])
    subscription = Subscription(settings, frozenset({1}))
    events = [("a", "table.committed", [0]), ("b", "table.committed", [0, 1]), ("c", "rejects", [1])]
    outbox = filled(tmp_path / "state", subscription.key, *events)
    path.parent.mkdir()
    path.write_text('{"cut')
    sent_by(subscription, outbox)
    cut, line = path.read_text().splitlines()
    assert (cut, json.loads(line)["id"]) == ('{"cut', "b")


def test_the_end_of_a_run_does_not_wait_for_a_dead_receiver_beyond_its_time(tmp_path: Path) -> None:
    subscription = Subscription(NotifySettings(http=HttpReceiver(url="http://127.0.0.1:9/")))
    outbox = filled(tmp_path, subscription.key, ("a", "rejects", []))
    reports: dict[str, NotifyReport] = {}
    sender = Sender(subscription, open_receiver(subscription.settings), outbox, reports.__setitem__, Log("p"))
    sender.start()
    assert sender.finish(time.monotonic() + 0.2) == 1
    assert outbox.waiting(subscription.key) == (1, 0)


@pytest.mark.parametrize(
    "settings",
    [
        NotifySettings(http=HttpReceiver(url="http://127.0.0.1:9/")),
        NotifySettings(file=FileReceiver(path=Path(__file__).parent)),
    ],
)
def test_a_probe_says_what_a_receiver_lacks(settings: NotifySettings) -> None:
    with pytest.raises(SinkUnavailableError, match="gets no events"):
        open_receiver(settings).probe()


@pytest.mark.services
def test_a_topic_gets_events_by_table(kafka_broker, tmp_path: Path) -> None:
    from confluent_kafka import Consumer

    topic = "told"
    kafka_broker.create_topic(topic, partitions=3)
    settings = NotifySettings(kafka=KafkaReceiver(bootstrap_servers=kafka_broker.address, topic=topic))
    subscription = Subscription(settings)
    open_receiver(settings).probe()
    outbox = filled(tmp_path, subscription.key, *[(str(number), "rejects", []) for number in range(5)])
    assert sent_by(subscription, outbox) == {settings.address: NotifyReport(sent=5)}
    consumer = Consumer({"bootstrap.servers": kafka_broker.address, "group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    records = consumer.consume(5, PATIENCE_SECONDS)
    consumer.close()
    assert [json.loads(record.value())["id"] for record in records] == ["0", "1", "2", "3", "4"]
    assert {record.key() for record in records} == {b"shop.orders"}
    missing = NotifySettings(kafka=KafkaReceiver(bootstrap_servers=kafka_broker.address, topic=f"{topic}-missing"))
    with pytest.raises(SinkUnavailableError, match="gets no events"):
        open_receiver(missing).probe()

"""Objects that a queue announces: read once, and their messages deleted after the commit only."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from calve.errors import SourceError, SourceUnavailableError
from calve.sources.s3.queue import Queue
from calve.sources.s3.settings import S3SourceSettings, Sqs
from calve.sources.s3.source import S3Source, check
from calve.sources.source import Planned
from kit.running import until
from services.objects import BUCKET, ObjectStore
from services.queue import SqsQueue
from sources.s3.test_notifications import record
from sources.s3.world import ALL, World, read, texts

pytestmark = pytest.mark.services


class Announced(World):
    """A prefix whose objects are announced by a queue."""

    def __init__(self, store: ObjectStore, folder: Path, queue: SqsQueue) -> None:
        super().__init__(store, folder)
        self.queue = queue
        self.running: list[S3Source] = []

    def announce(self, *names: str, data: bytes = b'{"a":1}\n', **more: Any) -> str:
        """Write objects, and send one message about all of them."""
        tags = {name: self.put(name, data).strip('"') for name in names}
        more = {"size": len(data)} | more
        records = [record(self.prefix + name, eTag=tag, **more) for name, tag in tags.items()]
        for one in records:
            one["s3"]["bucket"]["name"] = BUCKET
        return self.queue.send({"Records": records})

    def start(self, position: Any = None, once: bool = True, pending: tuple[Planned, ...] = (), **options: Any):
        times = {"visibility_timeout": timedelta(seconds=60), "wait_time": timedelta(0)}
        sqs = Sqs(queue_url=self.queue.url, **(times | options.pop("times", {})))
        opened = self.source(sqs=sqs, **options)
        self.running.append(opened)
        opened.start(json.loads(json.dumps(position)), once, pending)
        return opened

    def plan(self, opened: S3Source, position: Any = None) -> Planned:
        until(lambda: opened.backlog(position), "objects arrive")
        planned = opened.plan(position, ALL)
        assert planned
        return planned


@pytest.fixture
def world(object_store: ObjectStore, tmp_path: Path) -> Iterator[Announced]:
    with SqsQueue() as queue:
        made = Announced(object_store, tmp_path, queue)
        yield made
        for opened in made.running:
            opened.stop()


def test_a_run_with_once_ends_although_known_messages_come_again_and_again(
    world: Announced, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As many as cannot be hidden in time; what is behind them stays in the queue."""
    for number in range(12):
        world.announce(f"{number}.ndjson")
    receive = Queue.receive
    monkeypatch.setattr(Queue, "receive", lambda queue, wait, _: receive(queue, wait, 0))
    assert len(world.names(world.plan(world.start()))) == 10
    assert len(world.queue.messages) == 12


def test_messages_that_take_long_to_hide_are_hidden_for_longer(
    world: Announced, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(12):
        world.announce(f"{number}.ndjson")
    extend, hidden = Queue.extend, []

    def slow(queue: Queue, messages: list[Any], seconds: float) -> None:
        hidden.append(seconds)
        time.sleep(0.6)
        extend(queue, messages, seconds)

    monkeypatch.setattr(Queue, "extend", slow)
    world.start(once=False, times={"visibility_timeout": timedelta(seconds=2)})
    until(lambda: hidden and hidden[-1] > 2.3, "the messages are hidden for longer")


def test_a_message_is_deleted_when_all_its_objects_are_committed_and_not_before(world: Announced) -> None:
    world.announce("a.ndjson", "b.ndjson")
    world.announce("c.ndjson")
    opened = world.start()
    first = opened.plan(None, 1)
    assert first
    second = opened.plan(first.position, ALL)
    assert second
    assert sorted(world.names(first) + world.names(second)) == ["a.ndjson", "b.ndjson", "c.ndjson"]
    assert len(texts(opened, first) + texts(opened, second)) == 3
    opened.acknowledge(first)
    assert len(world.queue.messages) == 2
    opened.acknowledge(second)
    opened.acknowledge(second)
    assert not world.queue.messages
    assert not opened.backlog(second.position)
    assert all(headers["authorization"].startswith("AWS4-HMAC-SHA256") for headers in world.queue.asked)


def test_a_message_that_comes_again_is_not_read_again(world: Announced) -> None:
    world.announce("a.ndjson")
    opened = world.start(once=False)
    planned = world.plan(opened)
    world.queue.redeliver()
    until(lambda: len(world.queue.received) > 1, "it comes again while its batch runs")
    assert not opened.backlog(planned.position)
    opened.acknowledge(planned)
    until(lambda: not world.queue.messages, "it is deleted by its newest handle")
    world.announce("a.ndjson")  # the same content is announced again
    until(lambda: opened.backlog(planned.position) or not world.queue.messages, "it is deleted at once")
    assert not opened.backlog(planned.position)


def test_after_a_kill_a_message_comes_again_and_its_object_is_read_once(world: Announced) -> None:
    world.announce("a.ndjson")
    killed = world.start()
    planned = world.plan(killed)
    killed.stop()
    world.queue.redeliver()
    again = world.start(planned.position, pending=(planned,))
    assert not again.backlog(planned.position)
    assert world.queue.messages
    again.acknowledge(planned)
    assert not world.queue.messages
    world.announce("b.ndjson")
    assert world.names(world.plan(world.start(planned.position), planned.position)) == ["b.ndjson"]


def test_a_commit_whose_message_could_not_be_deleted_is_not_read_again(world: Announced) -> None:
    world.announce("a.ndjson")
    opened = world.start()
    planned = world.plan(opened)
    world.queue.refuses = "ServiceUnavailable"
    with pytest.raises(SourceError):
        opened.acknowledge(planned)
    opened.stop()
    world.queue.refuses = ""
    world.queue.redeliver()
    again = world.start(planned.position)
    assert not again.backlog(planned.position)
    assert not world.queue.messages


def test_objects_are_not_lost_when_a_message_beside_them_cannot_be_deleted(
    world: Announced, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.announce("a.ndjson")
    first = world.start()
    planned = world.plan(first)
    first.acknowledge(planned)
    world.announce("a.ndjson")
    world.announce("b.ndjson")

    def refuses(*_: object) -> None:
        raise SourceUnavailableError("away", step="read")

    with monkeypatch.context() as patch:
        patch.setattr("calve.sources.s3.queue.Queue.delete", refuses)
        opened = world.start(planned.position)
        with pytest.raises(SourceUnavailableError, match="away"):
            opened.backlog(planned.position)
    second = world.plan(opened, planned.position)
    assert world.names(second) == ["b.ndjson"]
    opened.acknowledge(second)
    assert not world.queue.messages


def test_messages_are_hidden_as_long_as_their_batch_runs(world: Announced) -> None:
    name = world.announce("a.ndjson")
    opened = world.start(once=False, times={"visibility_timeout": timedelta(seconds=6)})
    world.plan(opened)
    until(lambda: world.queue.extended.count(name) > 2, "the timeout is extended")
    assert world.queue.received == [name]


@pytest.mark.parametrize("on_error", ["retain_messages", "delete_messages"])
def test_other_messages_stay_or_are_deleted_and_tests_are_deleted(
    world: Announced, on_error: str, caplog: pytest.LogCaptureFixture
) -> None:
    kept = {world.queue.send("hello"), world.queue.send({"a": 1})}
    world.queue.send({"Service": "Amazon S3", "Event": "s3:TestEvent"})
    world.queue.send({"Records": [record("x", "ObjectRemoved:Delete")]})
    world.announce("a.ndjson")
    opened = world.start(on_error=on_error)
    planned = world.plan(opened)
    opened.acknowledge(planned)
    assert set(world.queue.messages) == (kept if on_error == "retain_messages" else set())
    assert caplog.text.count("it is not JSON") == 1


def test_an_announced_object_that_does_not_exist_or_has_no_codec_is_a_reject(world: Announced) -> None:
    one = record(world.prefix + "nothing.ndjson")
    one["s3"]["bucket"]["name"] = BUCKET
    del one["s3"]["object"]["size"]
    world.queue.send({"Records": [one]})
    world.announce("a.unknown")
    opened = world.start()
    planned = world.plan(opened)
    reasons = [batch["malformed"][0].as_py() for batch in read(opened, planned)]
    assert sorted("was gone" in reason or "set `codec`" in reason for reason in reasons) == [True, True]
    opened.acknowledge(planned)
    assert not world.queue.messages


def test_a_size_that_is_not_announced_is_asked_for(world: Announced) -> None:
    world.announce("a.ndjson", size=None)
    opened = world.start()
    assert texts(opened, world.plan(opened)) == [b'{"a":1}']


def test_objects_are_deleted_before_their_message(world: Announced) -> None:
    world.announce("a.ndjson")
    opened = world.start(delete_s3_objects_on_read=True)
    planned = world.plan(opened)
    opened.acknowledge(planned)
    assert not world.queue.messages
    [batch] = read(opened, planned)
    assert "was gone" in batch["malformed"][0].as_py()


def test_a_queue_that_refuses_ends_the_run_and_one_that_is_silent_is_tried_again(world: Announced) -> None:
    settings = S3SourceSettings(aws=world.aws, sqs=Sqs(queue_url=world.queue.url))
    check(settings)
    assert not world.queue.received
    world.queue.refuses = "AccessDenied"
    with pytest.raises(SourceError, match="AccessDenied") as raised:
        check(settings)
    assert not isinstance(raised.value, SourceUnavailableError)
    silent = S3SourceSettings(aws=world.aws, sqs=Sqs(queue_url="http://127.0.0.1:1/q"))
    with pytest.raises(SourceUnavailableError, match="does not answer"):
        check(silent)

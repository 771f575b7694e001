"""The queue of the s3 source against ElasticMQ: what our own small queue says of SQS's protocol holds there, too."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from datetime import timedelta
from pathlib import Path

import pytest

from calve.errors import SourceError
from calve.sources.s3.queue import Message, Queue
from calve.sources.s3.settings import AwsAccount, S3SourceSettings, Sqs
from calve.sources.s3.source import check
from kit.running import until
from services.elasticmq import ElasticMq
from services.objects import ObjectStore
from sources.s3.test_queue import Announced
from sources.s3.world import texts

pytestmark = pytest.mark.services


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ElasticMq]:
    with ElasticMq(tmp_path_factory.mktemp("elasticmq")) as started:
        yield started


def test_objects_are_received_hidden_extended_redelivered_and_deleted(
    server: ElasticMq, object_store: ObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    extend, extended = Queue.extend, list[Message]()

    def noted(queue: Queue, messages: Sequence[Message], seconds: float) -> None:
        extend(queue, messages, seconds)
        extended.extend(messages)

    monkeypatch.setattr(Queue, "extend", noted)
    world = Announced(object_store, tmp_path, server)  # type: ignore[arg-type]
    check(S3SourceSettings(aws=world.aws, sqs=Sqs(queue_url=server.url)))
    world.announce("a.ndjson", "b.ndjson")
    killed = world.start(once=False, times={"visibility_timeout": timedelta(seconds=9)})
    planned = world.plan(killed)
    assert sorted(world.names(planned)) == ["a.ndjson", "b.ndjson"]
    until(lambda: extended, "it is hidden for as long as its batch runs")
    until(lambda: server.counts() == (0, 1), "it is hidden")
    killed.stop()
    until(lambda: "calve-sqs" not in [one.name for one in threading.enumerate()], "its last long poll has ended")
    server.ask("ChangeMessageVisibility", ReceiptHandle=extended[-1].handle, VisibilityTimeout=0)
    again = world.start(planned.position, once=False, pending=(planned,))
    until(lambda: server.counts() == (0, 1), "it is delivered again")
    assert not again.backlog(planned.position)  # its objects are in the uncommitted batch
    assert len(texts(again, planned)) == 2
    again.acknowledge(planned)
    until(
        lambda: not again.backlog(planned.position) and server.counts() == (0, 0), "it is deleted by its newest handle"
    )
    again.stop()


def test_handles_of_messages_that_are_gone_and_queues_that_do_not_exist_are_understood(server: ElasticMq) -> None:
    sqs = Sqs(queue_url=server.url, visibility_timeout=timedelta(seconds=30))
    queue = Queue(sqs, AwsAccount(region="eu-central-1", access_key_id="a", secret_access_key="b"))
    ids = {server.send("one"), server.send("two")}
    found = queue.receive(1, 30)
    found += queue.receive(1, 30) if len(found) < 2 else []
    assert {one.id for one in found} == ids
    queue.extend(found, 60)
    queue.delete(found)
    queue.delete(found)
    queue.extend(found, 60)
    assert queue.receive(0, 30) == []
    assert server.counts() == (0, 0)
    other = Sqs(queue_url=server.url.replace("events", "others"))
    with pytest.raises(SourceError, match="refuses"):
        Queue(other, AwsAccount(region="eu-central-1", access_key_id="a", secret_access_key="b")).check()

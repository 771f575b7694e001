"""The topic of dead letters: each is there once, whatever came before, and a replay finds it."""

from __future__ import annotations

import dataclasses
import json
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Message

from calve.dead_letters.reader import Unreadable, read, stores_at, summarise
from calve.dead_letters.replay.selection import ReplaySelection
from calve.dead_letters.replay.source import RejectsSource
from calve.dead_letters.settings import KafkaDeadLetters
from calve.dead_letters.topic import LetterTopic
from calve.errors import SinkRefusedError, SinkUnavailableError
from calve.event.columns import EVENT
from calve.sinks.kafka import brokers, letters, transaction
from calve.sinks.kafka.letters import TopicLetters
from calve.state.local_folder import LocalFolder
from services.kafka import Kafka
from services.process import free_ports

pytestmark = pytest.mark.services("kafka")


class Died(Exception):
    """Stands for the end of the process."""


@pytest.fixture(autouse=True)
def no_senders() -> Iterator[None]:
    """Keep no client of the broker."""
    yield
    transaction._open.clear()


class Outbox:
    """A folder of dead letters, and the topic that they go to."""

    def __init__(self, kafka: Kafka, folder: Path) -> None:
        self.kafka, self.folder, self.topic = kafka, folder / "dlq", f"dead-{uuid.uuid4().hex[:8]}"
        self.settings = KafkaDeadLetters(
            topic=self.topic, bootstrap_servers=kafka.address, create_topic=True, number_of_partitions=2
        )
        self.state = self.topic[5:]
        self.folder.mkdir()

    def reject(self, batch: int, *events: str | dict[str, Any], name: str = "law", part: str = "0-0-0") -> str:
        labels = {
            "pipeline": "law",
            "sink": "iceberg",
            "table": "a.b",
            "code": "NO_KEY",
            "metadata": {"kafka_offset": 1},
        }
        entries = [labels | (event if isinstance(event, dict) else {"event": event}) for event in events]
        file = f"{name}-{self.state}-{batch:08d}-abcdef-{part}.ndjson"
        (self.folder / file).write_text("".join(json.dumps(entry) + "\n" for entry in entries))
        return file

    def send(self, committed: int = 0, name: str = "law") -> None:
        """Send as a new process would."""
        transaction._open.clear()
        topic = TopicLetters(self.settings, str(self.folder), name)
        topic.open()
        topic.send(self.state, committed)

    @property
    def records(self) -> list[Message]:
        return self.kafka.committed(self.topic)

    @property
    def values(self) -> list[str]:
        return sorted((record.value() or b"").decode() for record in self.records)

    @property
    def files(self) -> list[str]:
        return sorted(file.name for file in self.folder.glob("*.ndjson"))

    def replay(self) -> list[str]:
        """Send all that waits again, as the next replay."""
        selection = ReplaySelection("law", {"iceberg": 0})
        topics = [LetterTopic.of(self.settings)]
        folder = LocalFolder(self.folder.parent / "replay")
        source = RejectsSource(
            folder, [str(self.folder)], selection, {"kafka_offset": pa.int64()}, "law.replay-", topics
        )
        source.find_files()
        position = None
        source.start(position, True)
        events: list[str] = []
        while planned := source.plan(position, 1):
            for split in planned.splits:
                assert split.body["storage"] == {}
                for batch in source.reader.read(split):
                    events += [event.decode() for event in batch[EVENT].to_pylist()]
            source.acknowledge(planned)
            position = None
            source.start(position, True)
        source.finish()
        return sorted(events)


@pytest.fixture
def outbox(kafka_broker: Kafka, tmp_path: Path) -> Outbox:
    return Outbox(kafka_broker, tmp_path)


@pytest.mark.parametrize("point", ["task.before-send", "task.after-send", "letters.after-send"])
def test_each_letter_is_there_once_wherever_the_process_dies(
    outbox: Outbox, point: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    outbox.reject(1, "a", {"event": "b", "count": 2}, part="0-0-0")
    outbox.reject(1, "c", part="0-0-1")
    with monkeypatch.context() as patch:

        def dies(at: str) -> None:
            if at == point:
                raise Died

        patch.setattr(letters, "stop_at", dies)
        patch.setattr(transaction, "stop_at", dies)
        with pytest.raises(Died):
            outbox.send()
    if point != "task.before-send":
        (outbox.folder / outbox.files[0]).unlink()  # some files were removed, too
    outbox.reject(2, "d")
    outbox.send()
    outbox.send()
    assert (outbox.values, outbox.files) == (["a", "b", "b", "c", "d"], [])
    ids = [header for record in outbox.records for header in record.headers() if header[0] == "calve.id"]
    assert len({*ids}) == 5
    if point == "letters.after-send":
        assert outbox.replay() == ["a", "b", "b", "c", "d"]
        assert outbox.replay() == []
        stores = stores_at([str(outbox.folder)])
        assert summarise("law", stores).counts == {("a.b", "NO_KEY"): 5}
        assert sorted(content.event or "" for store in stores for content, _ in read(store) if not isinstance(content, Unreadable)) == outbox.values  # fmt: skip


def test_files_of_a_replay_or_of_an_open_commit_wait_and_records_of_others_count_for_nobody(outbox: Outbox) -> None:
    outbox.reject(1, "a")
    at_commit = outbox.reject(2, "late", part="0-12345678-at-commit")
    replayed = outbox.reject(1, "again", name="law.replay")
    outbox.send(committed=1)
    assert (outbox.values, outbox.files) == (["a"], sorted([at_commit, replayed]))
    outbox.kafka.produce(outbox.topic, ["of another program"])
    assert outbox.replay() == ["a"]
    outbox.send(committed=2)
    outbox.send(name="law.replay")
    assert (outbox.values, outbox.files) == (["a", "again", "late", "of another program"], [])
    assert outbox.replay() == ["again", "late"]


def test_what_the_topic_does_not_take_stays_in_a_file_and_is_replayed(outbox: Outbox) -> None:
    outbox.kafka.create_topic(outbox.topic, 1, max_message_bytes="2000")
    outbox.reject(1, "a", "x" * 5000, "b")
    outbox.send()
    outbox.send()
    assert (outbox.values, outbox.files) == (["a", "b"], ["kept-law-00000001.ndjson"])
    assert outbox.replay() == ["a", "b", "x" * 5000]


def test_without_the_broker_all_letters_stay_and_without_the_topic_the_reason_is_said(outbox: Outbox) -> None:
    outbox.reject(1, "a")
    away = dataclasses.replace(outbox.settings, bootstrap_servers=f"127.0.0.1:{free_ports(1)[0]}")
    sender = TopicLetters(away, str(outbox.folder), "law")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(brokers, "ANSWER_SECONDS", 0.5)
        patch.setattr(transaction, "ANSWER_SECONDS", 0.5)
        with pytest.raises(SinkUnavailableError):
            sender.send(outbox.state, 0)
        patch.setattr(brokers, "_MISSING_SECONDS", 0.0)
        missing = dataclasses.replace(outbox.settings, create_topic=False)
        with pytest.raises(SinkRefusedError, match=f"Kafka refuses the topic {outbox.topic}"):
            TopicLetters(missing, str(outbox.folder), "law").open()
    assert len(outbox.files) == 1
    outbox.send()
    assert (outbox.values, outbox.files) == (["a"], [])

"""Sends a sink's dead letters to their topic; runs on the driver.

Published files of dead letters are the outbox: some of them are one transaction, and then removed. Before it, their
names are written down under a number, which the transaction has as its mark (`transaction.send`). So after a kill the
same files are sent under the same number, or only removed.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

import msgspec

from calve import structs
from calve.dead_letters.settings import KafkaDeadLetters
from calve.dead_letters.topic import KEPT, LetterTopic, note, note_name, record_of
from calve.observe.log import Log
from calve.observe.state_folder import Folder
from calve.sinks.kafka.refusals import RecordRefusals
from calve.sinks.kafka.settings import KafkaSinkSettings, TargetTopic
from calve.sinks.kafka.sink import check
from calve.sinks.kafka.transaction import send
from calve.sinks.records.record import OutgoingRecord
from calve.state.location import state_folder_at
from calve.state.values import encoded
from calve.stop_point import stop_at

__all__ = ["TopicLetters", "probe"]

_SUFFIX, _AT_COMMIT = ".ndjson", "-at-commit.ndjson"
_MOST_FILES, _MOST_BYTES = 100, 64 << 20
"""The most files of one transaction, and their bytes, if it has several."""
_PATIENT = {"transaction.timeout.ms": "300000"}
"""A file may have all events of a batch."""


class _Sent(msgspec.Struct):
    """The last transaction: its number, and the files in it."""

    number: int = 0
    files: list[str] = []


class TopicLetters:
    """The topic of the dead letters of a sink. `send` may be called by any thread.

    Args:
        settings: Where the topic is.
        outbox: The folder of the published files, which gets a note about the topic.
        name: The pipeline's name, or that of its replay: its files begin with it.
    """

    def __init__(self, settings: KafkaDeadLetters, outbox: str, name: str) -> None:
        self._settings = _sink_settings(settings)
        self._topic = LetterTopic.of(settings)
        self._outbox, self._name = outbox, name
        self._folder = state_folder_at(outbox)
        self._lock = threading.Lock()
        self._log = Log(name)

    def open(self) -> None:
        """Connect to the brokers, create the topic if it may be, and write down where it is.

        Raises:
            CalveError: The brokers do not answer, or the topic cannot be written.
        """
        check(self._settings, creates=True)
        self._folder.put(note_name(self._topic.topic), encoded(note(self._topic)))

    def send(self, state_id: str, committed: int) -> None:
        """Send all published files; may be repeated.

        Args:
            state_id: Makes the transactional id unique.
            committed: The last committed batch: files that commits of later ones write may still change.

        Raises:
            SinkUnavailableError: The brokers do not answer; all that is not sent stays.
            CalveError: They refuse the topic, or the disk refuses.
        """
        with self._lock:
            record = self._folder.get(self._record_name)
            sent = structs.decode(record.content, _Sent) if record else _Sent()
            waiting = self._waiting(committed)
            if sent.files and waiting.keys() & {*sent.files}:
                self._send(state_id, sent)
                waiting = {file: size for file, size in waiting.items() if file not in sent.files}
            while waiting:
                sent = _Sent(sent.number + 1, _first(waiting))
                self._folder.put(self._record_name, encoded(msgspec.to_builtins(sent)))
                self._send(state_id, sent)
                waiting = {file: size for file, size in waiting.items() if file not in sent.files}

    @property
    def _record_name(self) -> str:
        return f"sent.{self._name}.json"

    def _waiting(self, committed: int) -> dict[str, int]:
        """Return the published files whose content is final, and their sizes."""
        return {
            name: info.size or 0
            for info in Folder.at(self._outbox).file_infos()
            if (name := str(info.base_name)).startswith(f"{self._name}-") and name.endswith(_SUFFIX)
            if not name.endswith(_AT_COMMIT) or _batch_of(name) <= committed
        }

    def _send(self, state_id: str, sent: _Sent) -> None:
        topic = self._topic.topic
        label = f"calve-{self._name}-{state_id[:8]}-dlq-{topic}"
        refusals = send(self._settings, label, sent.number, {topic}, lambda: _records(self._outbox, topic, sent.files))
        stop_at("letters.after-send")
        if refusals:
            self._keep(sent, refusals)
        self._folder.remove(sent.files)

    def _keep(self, sent: _Sent, refusals: RecordRefusals) -> None:
        """Keep the entries that the topic does not take in a file, unless that was done before."""
        records = list(_lines(self._outbox, sent.files))
        reasons = {}
        for at, (file, line, start, content) in enumerate(records):
            for record in _of_line(self._topic.topic, (file, line, start), content):
                if reason := refusals.reason(record):
                    reasons[at] = reason
        if reasons:
            name = f"{KEPT}{self._name}-{sent.number:08d}{_SUFFIX}"
            self._folder.create(name, b"".join(records[at][3] + b"\n" for at in reasons))
            self._log.warning(
                f"{len(reasons)} dead letters stay in {self._outbox}/{name}: {next(iter(reasons.values()))}",
                hint=f"Raise max.message.bytes of the topic {self._topic.topic}; `calve dlq` has them all",
            )


def _first(sizes: Mapping[str, int]) -> list[str]:
    """Return the first files, as many as one transaction has."""
    files: list[str] = []
    size_bytes = 0
    for file, file_bytes in sizes.items():
        size_bytes += file_bytes
        if files and (size_bytes > _MOST_BYTES or len(files) == _MOST_FILES):
            break
        files.append(file)
    return files


def _sink_settings(settings: KafkaDeadLetters) -> KafkaSinkSettings:
    target = TargetTopic(
        name=settings.topic,
        create_topic=settings.create_topic,
        number_of_partitions=settings.number_of_partitions,
        replication_factor=settings.replication_factor,
    )
    return KafkaSinkSettings(
        bootstrap_servers=settings.bootstrap_servers,
        topic=target,
        encryption=settings.encryption,
        authentication=settings.authentication,
        client_properties=_PATIENT | settings.client_properties,
    )


def probe(settings: KafkaDeadLetters) -> None:
    """Check that the brokers answer, and that the topic exists and may be written.

    Raises:
        CalveError: It is not so.
    """
    check(_sink_settings(settings), creates=False)


def _batch_of(name: str) -> int:
    """Return the batch of a file that a commit wrote (`…-batch-nonce-sink-table-at-commit.ndjson`)."""
    return int(name.removesuffix(_AT_COMMIT).rsplit("-", 4)[1])


def _lines(outbox: str, files: Sequence[str]) -> Iterator[tuple[str, int, int, bytes]]:
    """Yield the entries of files: file, line, first byte and content; a file that is gone has none."""
    folder = Folder.at(outbox)
    for file in files:
        start = 0
        with suppress(FileNotFoundError):
            for line, content in enumerate(folder.lines(file), 1):
                yield file, line, start, content
                start += len(content) + 1


def _records(outbox: str, topic: str, files: Sequence[str]) -> Iterator[OutgoingRecord]:
    for file, line, start, content in _lines(outbox, files):
        yield from _of_line(topic, (file, line, start), content)


def _of_line(topic: str, place: tuple[str, int, int], content: bytes) -> Iterator[OutgoingRecord]:
    """Yield the records of an entry: one for each of its equal events."""
    entry: dict[str, Any] = msgspec.json.decode(content)
    for number in range(int(entry.get("count", 1))):
        key, value, headers = record_of(entry, (*place, place[2] + len(content) + 1), number)
        yield OutgoingRecord(topic, key, value, headers, 0, place[1])

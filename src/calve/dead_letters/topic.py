"""Dead letters in a Kafka topic: the record of an entry, the note with its location, and how entries are read.

A folder of dead letters is the outbox of a topic: its files are sent, and then removed (`calve.sinks.kafka.letters`). A
record keeps file and position of its entry there, so that a replay knows it wherever it is. Files whose names begin
with `kept-` are not sent: they have entries that the topic does not take.
"""

from __future__ import annotations

import base64
import contextlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import msgspec
from confluent_kafka import IsolationLevel, KafkaError, KafkaException, Message, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from calve import structs
from calve.dead_letters.settings import KafkaDeadLetters
from calve.errors import SourceError
from calve.event.columns import WITHHELD
from calve.observe.state_folder import Folder
from calve.sources.kafka.client import ClientTrouble, translate
from calve.sources.kafka.consumer import Range, messages
from calve.sources.kafka.settings import RECORD

__all__ = ["KEPT", "LetterRecord", "LetterTopic", "note", "note_name", "record_of", "topics_in"]

KEPT = "kept-"
_PREFIX = "calve."
_ID = "calve.id"
"""File, line, first byte, end, and the number among equal events; the first header behind those of the original."""
_TEXTS = ("pipeline", "sink", "table", "code", "field", "reason", "timestamp")
_TOLD = ("security.protocol", "sasl.mechanism", "sasl.username", "ssl.ca.location")
_POSITIONS = (("kafka_topic", "kafka_partition", "kafka_offset"), ("file_path", "file_row"))
_ANSWER_SECONDS = 15.0
_WAIT_SECONDS = _ANSWER_SECONDS + 1


class _Original(msgspec.Struct, array_like=True):
    """Key and headers of the original record, as in `RECORD`."""

    key: bytes | None = None
    headers: list[tuple[str, bytes | None]] = []


class LetterRecord(NamedTuple):
    """The record of a dead letter."""

    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]


class _Place(NamedTuple):
    """The entry of a record in the outbox."""

    file: str
    line: int
    start: int
    end: int


def record_of(entry: Mapping[str, Any], place: tuple[str, int, int, int], number: int) -> LetterRecord:
    """Return the record of an entry: the original value, key and headers, and behind these why it was rejected.

    Args:
        entry: The entry, as in a file.
        place: Its file, line, first byte and end.
        number: Which of its equal events this is.
    """
    metadata = dict(entry.get("metadata") or {})
    original = metadata.pop(RECORD, None)
    record = structs.decode(original.encode(), _Original) if original else _Original()
    event = entry.get("event")
    is_text = entry.get("event_encoding") != "base64"
    value = None if event is None else event.encode() if is_text else base64.b64decode(event)
    position = next((names for names in _POSITIONS if metadata.get(names[0]) is not None), ())
    texts = {name: str(entry[name]) for name in _TEXTS if entry.get(name) is not None}
    texts |= {"position": "/".join(str(metadata.get(name)) for name in position)} if position else {}
    texts["metadata"] = msgspec.json.encode(metadata).decode()
    own: list[tuple[str, bytes | None]] = [(_ID, ":".join(map(str, (*place, number))).encode())]
    own += [(_PREFIX + name, text.encode()) for name, text in texts.items()]
    return LetterRecord(record.key, value, [*record.headers, *own])


def _place_of(message: Message) -> _Place | None:
    """Return the place of a record's entry; None: it is of another program."""
    ids = [value for name, value in message.headers() or () if name == _ID]
    with contextlib.suppress(ValueError, UnicodeDecodeError):
        file, line, start, end, _ = ((ids and ids[-1]) or b"").decode().rsplit(":", 4)
        return _Place(file, int(line), int(start), int(end))
    return None


def _entry(message: Message) -> dict[str, Any]:
    """Return the entry of a record with a place, as in a file."""
    headers = message.headers() or []
    first = max(at for at, (name, _) in enumerate(headers) if name == _ID)
    own = {name.removeprefix(_PREFIX): (value or b"").decode(errors="replace") for name, value in headers[first:]}
    entry: dict[str, Any] = {name: own[name] for name in _TEXTS if name in own}
    value = message.value()
    try:
        entry["event"] = None if value is None else value.decode()
    except UnicodeDecodeError:
        entry |= {"event": base64.b64encode(value).decode(), "event_encoding": "base64"}
    metadata = _metadata(own.get("metadata", ""))
    if message.key() is not None or first:
        metadata[RECORD] = msgspec.json.encode((message.key(), headers[:first])).decode()
    return {"code": "", **entry, "metadata": metadata}


def _metadata(text: str) -> dict[str, Any]:
    with contextlib.suppress(ValueError, RecursionError):
        metadata = json.loads(text)
        return metadata if isinstance(metadata, dict) else {}
    return {}


class _IndexedFile(NamedTuple):
    """The entries of a file: without events by their first bytes, and the offsets of their records by partition."""

    entries: dict[int, dict[str, Any]]
    offsets: dict[int, list[int]]


@dataclass(frozen=True)
class LetterTopic:
    """A topic of dead letters; it is read once, when its entries are asked for.

    Attributes:
        servers: The brokers.
        topic: The topic.
        client: librdkafka's properties; notes have them without secrets.
        outbox: The folder whose files are sent there; empty if unknown.
    """

    servers: str
    topic: str
    client: Mapping[str, Any] = field(default_factory=dict, repr=False)
    outbox: str = field(default="", compare=False)

    @staticmethod
    def of(settings: KafkaDeadLetters) -> LetterTopic:
        """Return the topic of a sink's settings."""
        return LetterTopic(settings.servers, settings.topic, settings.client())

    @staticmethod
    def at(location: str, client: Mapping[str, Any]) -> LetterTopic:
        """Return the topic of a `location`."""
        servers, _, topic = location.removeprefix("kafka://").rpartition("/")
        return LetterTopic(servers, topic, client)

    @staticmethod
    def is_at(location: str) -> bool:
        """Return whether a location of dead letters is a topic."""
        return location.startswith("kafka://")

    @property
    def location(self) -> str:
        """Brokers and topic, as a URI."""
        return f"kafka://{self.servers}/{self.topic}"

    @property
    def path(self) -> str:
        """The same, for messages."""
        return self.location

    @property
    def open_storage(self) -> dict[str, Any]:
        """The properties of the client that are not secret."""
        return {name: value for name, value in self.client.items() if name in _TOLD}

    def files(self) -> list[str]:
        """Return the files that its entries were in, sorted.

        Raises:
            SourceError: The topic cannot be read.
        """
        return sorted(self._index)

    def chosen(self, file: str) -> Iterator[tuple[_Place, int, dict[str, Any]]]:
        """Yield the entries of a file in order, with place and size, without events: enough to select entries."""
        for start, entry in sorted(self._index[file].entries.items()):
            content = {name: value for name, value in entry.items() if name not in ("line", "end", "size")}
            yield _Place(file, entry["line"], start, entry["end"]), entry["size"], content

    def offsets(self, file: str) -> list[list[int]]:
        """Return partition, first offset and end of the records of a file."""
        return [[partition, *span] for partition, span in sorted(self._index[file].offsets.items())]

    def entries(self) -> Iterator[tuple[_Place, dict[str, Any]]]:
        """Yield every entry with its place, partition by partition.

        Raises:
            SourceError: The topic cannot be read.
        """
        for message in self._messages(self._bounds()):
            if place := _place_of(message):
                yield place, _entry(message)

    def lines(
        self, file: str, offsets: Sequence[Sequence[int]], spans: Sequence[Sequence[int]]
    ) -> Iterator[tuple[int, bytes]]:
        """Yield line number and NDJSON line of a file's entries in the spans, in order.

        Args:
            file: The file.
            offsets: Where its records are (`offsets`).
            spans: First byte, end, line and number of events of runs of entries.

        Raises:
            SourceError: The topic cannot be read, or lacks an entry of the spans.
        """
        entries: dict[int, tuple[int, dict[str, Any]]] = {}
        counts: dict[int, int] = {}
        for message in self._messages(offsets):
            place = _place_of(message)
            if place and place.file == file and any(start <= place.start < end for start, end, *_ in spans):
                entries.setdefault(place.start, (place.line, _entry(message)))
                counts[place.start] = counts.get(place.start, 0) + 1
        if sum(counts.values()) != sum(span[3] for span in spans):
            raise SourceError(
                f"The topic {self.topic} no longer has the dead letters of this replay",
                step="read",
                target=self.location,
                hint="Its retention (retention.ms) removed them; replay again those that it still has",
            )
        for start, (line, entry) in sorted(entries.items()):
            yield line, msgspec.json.encode(entry | {"count": counts[start]})

    @cached_property
    def _index(self) -> dict[str, _IndexedFile]:
        files: dict[str, _IndexedFile] = {}
        for message in self._messages(self._bounds()):
            if not (place := _place_of(message)):
                continue
            file = files.setdefault(place.file, _IndexedFile({}, {}))
            span = file.offsets.setdefault(message.partition(), [message.offset(), 0])
            span[1] = message.offset() + 1
            if equal := file.entries.get(place.start):
                equal["count"] += 1
                continue
            entry = _entry(message)
            metadata = {WITHHELD: withheld} if (withheld := entry["metadata"].get(WITHHELD)) else None
            content = {name: entry[name] for name in _TEXTS if name in entry} | {"metadata": metadata, "count": 1}
            file.entries[place.start] = content | {"line": place.line, "end": place.end, "size": len(message)}
        return files

    def _messages(self, bounds: Iterable[Sequence[int]]) -> Iterator[Message]:
        client = {"bootstrap.servers": self.servers, **self.client, "isolation.level": "read_committed"}
        client |= {"group.id": "calve-dead-letters", "auto.offset.reset": "error"}
        for partition, start, end in bounds:
            for block in messages(client, Range(self.topic, partition, start, end)) if start < end else ():
                yield from block

    def _bounds(self) -> list[tuple[int, int, int]]:
        """Return first offset and end of each partition; nothing if there is no such topic."""
        trouble = ClientTrouble({"bootstrap.servers": self.servers, **self.client})
        try:
            admin = AdminClient(trouble.client)
            asked = admin.describe_topics(TopicCollection([self.topic]), request_timeout=_ANSWER_SECONDS)
            partitions = [
                TopicPartition(self.topic, part.id) for part in asked[self.topic].result(_WAIT_SECONDS).partitions
            ]
            ends = [
                admin.list_offsets(
                    dict.fromkeys(partitions, spec),
                    isolation_level=IsolationLevel.READ_COMMITTED,
                    request_timeout=_ANSWER_SECONDS,
                )
                for spec in (OffsetSpec.earliest(), OffsetSpec.latest())
            ]
            return [
                (at.partition, *(answers[at].result(_WAIT_SECONDS).offset for answers in ends)) for at in partitions
            ]
        except TimeoutError as error:
            raise trouble.unavailable(f"topic {self.topic}") from error
        except KafkaException as error:
            if error.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                return []
            raise translate(error, f"topic {self.topic}", trouble) from error


def note_name(topic: str) -> str:
    """Return the name of the note about a topic."""
    return f"topic.{topic}.json"


def note(topic: LetterTopic) -> dict[str, Any]:
    """Return the note about a topic: the properties of its client without possible secrets."""
    return {"servers": topic.servers, "topic": topic.topic, "client": topic.open_storage}


def topics_in(folder: Folder, own: Sequence[LetterTopic], more: Mapping[str, Any]) -> list[LetterTopic]:
    """Return the topics of the notes in a folder.

    Args:
        folder: The folder.
        own: Topics whose clients are known.
        more: Properties of the clients of other topics.

    Raises:
        OSError: The folder or a note cannot be read.
    """
    names = [str(info.base_name) for info in folder.file_infos()]
    contents = [json.loads(folder.read(name)) for name in names if name.startswith("topic.") and name.endswith(".json")]
    clients = {topic.location: topic.client for topic in own}
    topics = [LetterTopic(text["servers"], text["topic"], {**text["client"], **more}, folder.path) for text in contents]
    return [LetterTopic(at.servers, at.topic, clients.get(at.location, at.client), at.outbox) for at in topics]

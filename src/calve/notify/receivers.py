"""How events reach an HTTP endpoint, a Kafka topic or a file."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Protocol

from calve.credentials import in_short
from calve.errors import SinkUnavailableError
from calve.notify.event import MEDIA_TYPE, CloudEvent
from calve.notify.http_post import HttpPost
from calve.notify.lineage import Lineage
from calve.notify.open_lineage import OpenLineage
from calve.settings.notify import FileReceiver, HttpReceiver, KafkaReceiver, NotifySettings, OpenLineageReceiver

__all__ = ["Receiver", "open_receiver"]

_KAFKA_SECONDS = 10.0
_HINT = "The events wait in the state and are sent when it answers"


class Receiver(Protocol):
    """A receiver of events; used by one thread.

    Attributes:
        at_once: How many events it gets in one call; they come again if it fails.
    """

    at_once: int

    def begin(self) -> None:
        """Note that a run begins.

        Raises:
            SinkUnavailableError: The receiver does not answer; repeat the call.
        """
        return

    def end(self, is_failed: bool) -> None:
        """Note that a run has ended.

        Raises:
            SinkUnavailableError: The receiver does not answer.
        """
        return

    def send(self, events: Sequence[CloudEvent]) -> None:
        """Send events in order; on return the receiver has all of them.

        Raises:
            SinkUnavailableError: It is unknown which of them it has; repeat the call.
        """
        ...

    def probe(self) -> None:
        """Check that the receiver answers; send nothing.

        Raises:
            SinkUnavailableError: It does not.
        """
        ...


def open_receiver(settings: NotifySettings, lineage: Lineage | None = None) -> Receiver:
    """Return the receiver of some settings; it connects with the first call. `lineage` is what is known of it."""
    receiver = settings.receiver
    if isinstance(receiver, HttpReceiver):
        return _Http(receiver, settings.address)
    if isinstance(receiver, KafkaReceiver):
        return _Kafka(receiver, settings.address)
    if isinstance(receiver, OpenLineageReceiver):
        return OpenLineage(receiver, lineage or Lineage(""))
    return _File(receiver, settings.address)


class _Http(Receiver):
    at_once = 1

    def __init__(self, settings: HttpReceiver, address: str) -> None:
        self._address = address
        headers = {"content-type": f"{MEDIA_TYPE}; charset=UTF-8", **settings.headers}
        self._post = HttpPost(settings.url, headers, settings.timeout)

    def send(self, events: Sequence[CloudEvent]) -> None:
        for event in events:
            if failure := self._post.send(event.encoded())[0]:
                raise _failure(self._address, failure)

    def probe(self) -> None:
        if failure := self._post.probe():
            raise _failure(self._address, failure)


class _Kafka(Receiver):
    at_once = 100

    def __init__(self, settings: KafkaReceiver, address: str) -> None:
        self._settings = settings
        self._address = address
        self._client: Any = None

    def send(self, events: Sequence[CloudEvent]) -> None:
        from confluent_kafka import KafkaException

        failed: list[str] = []

        def on_delivery(error: Any, _: Any) -> None:
            if error is not None:
                failed.append(error.str())

        producer = self._producer()
        headers = {"content-type": f"{MEDIA_TYPE}; charset=UTF-8"}
        try:
            for event in events:
                key = (event.subject or event.source).encode()
                producer.produce(self._settings.topic, event.encoded(), key, headers=headers, on_delivery=on_delivery)
            unsent = producer.flush(2 * _KAFKA_SECONDS)
        except (KafkaException, BufferError) as error:
            self._client = None
            raise _failure(self._address, in_short(error)) from error
        if failed or unsent:
            self._client = None  # what it still holds must not arrive after later events
            raise _failure(self._address, failed[0] if failed else "it does not answer")

    def probe(self) -> None:
        from confluent_kafka import KafkaException

        try:
            topic = self._producer().list_topics(self._settings.topic, _KAFKA_SECONDS).topics[self._settings.topic]
        except KafkaException as error:
            raise _failure(self._address, in_short(error)) from error
        if topic.error is not None:
            raise _failure(self._address, topic.error.str())

    def _producer(self) -> Any:
        from confluent_kafka import KafkaException, Producer

        if self._client is None:
            own = {
                "bootstrap.servers": self._settings.servers,
                "enable.idempotence": True,
                "allow.auto.create.topics": False,
                "delivery.timeout.ms": int(_KAFKA_SECONDS * 1000),
                "log_level": 0,
            }
            try:
                self._client = Producer(own | self._settings.client_properties)
            except (KafkaException, ValueError, TypeError) as error:
                raise _failure(self._address, in_short(error)) from error
        return self._client


class _File(Receiver):
    at_once = 100

    def __init__(self, settings: FileReceiver, address: str) -> None:
        self._path = settings.path.expanduser().absolute()
        self._address = address

    def send(self, events: Sequence[CloudEvent]) -> None:
        lines = b"".join(event.encoded() + b"\n" for event in events)
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._path.open("ab+") as file:
                if file.seek(0, os.SEEK_END) and (file.seek(-1, os.SEEK_END), file.read(1))[1] != b"\n":
                    lines = b"\n" + lines  # a kill has cut the last line, whose event comes again
                file.write(lines)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise _failure(self._address, error.strerror or str(error)) from error

    def probe(self) -> None:
        folder = next(folder for folder in self._path.parents if folder.exists())
        target = self._path if self._path.exists() else folder
        if self._path.is_dir() or not os.access(target, os.W_OK):
            raise _failure(self._address, "it cannot be written")


def _failure(address: str, reason: str) -> SinkUnavailableError:
    return SinkUnavailableError(f"{address} gets no events: {reason}", step="notify", target=address, hint=_HINT)

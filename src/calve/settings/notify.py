"""The options of `notify`: who is sent what happened to the tables of a pipeline or a sink."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from importlib.util import find_spec
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from calve.errors import SettingsError
from calve.settings.option import option

__all__ = [
    "EVENTS",
    "FileReceiver",
    "HttpReceiver",
    "KafkaReceiver",
    "NotifySettings",
    "OpenLineageReceiver",
    "check_url",
    "is_installed",
]

EventType = Literal[
    "table.committed", "commit.complete", "partition.complete", "table.held", "schema.changed", "rejects"
]
EVENTS: tuple[EventType, ...] = (
    "table.committed",
    "commit.complete",
    "partition.complete",
    "table.held",
    "schema.changed",
    "rejects",
)
"""All types of events."""


def is_installed(module: str) -> bool:
    """Return whether a module of an extra is there, without importing more of it than its packages."""
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def check_url(url: str) -> None:
    """Refuse what is no HTTP address, or has a password.

    Raises:
        SettingsError: It is wrong.
    """
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise SettingsError("expected an address like https://example.com/calve")
    if parts.username or parts.password:
        raise SettingsError("an address cannot have a password; set it in `headers`, e.g. `authorization`")


@dataclass(frozen=True)
class HttpReceiver:
    """An HTTP endpoint: one POST for each event, answered with any status from 200 to 299."""

    url: str = option(doc="The address.", check=check_url)
    headers: dict[str, str] = option(
        {}, 'Headers of each request, e.g. `{authorization: "Bearer ${env:TOKEN}"}`.', secret=True
    )
    timeout: timedelta = option(
        timedelta(seconds=10), "How long an answer may take.", minimum=timedelta(milliseconds=100)
    )


@dataclass(frozen=True)
class KafkaReceiver:
    """A Kafka topic. The key of a record is the name of the table, so that the events of a table stay in order."""

    bootstrap_servers: str | list[str] = option(doc="Brokers for the first connection, as host:port.", minimum=1)
    topic: str = option(doc="The topic; it must exist.", minimum=1, maximum=249)
    client_properties: dict[str, str] = option(
        {}, "Properties of librdkafka, e.g. for TLS and a login (`security.protocol`, `sasl.password`).", secret=True
    )

    @property
    def servers(self) -> str:
        """The brokers as librdkafka writes them."""
        given = self.bootstrap_servers
        return given if isinstance(given, str) else ",".join(given)


@dataclass(frozen=True)
class FileReceiver:
    """A local file that gets one line for each event."""

    path: Path = option(doc="The file; its folder is created.")


@dataclass(frozen=True)
class OpenLineageReceiver:
    """A receiver of OpenLineage, such as Marquez or DataHub: START, RUNNING for each commit, COMPLETE or FAIL."""

    url: str = option(
        doc="The address, e.g. `http://marquez:5000`; without a path `/api/v1/lineage` is added.", check=check_url
    )
    headers: dict[str, str] = option(
        {}, 'Headers of each request, e.g. `{authorization: "Bearer ${env:TOKEN}"}`.', secret=True
    )
    namespace: str = option("calve", "The namespace of the job; its name is that of the pipeline.", minimum=1)
    timeout: timedelta = option(
        timedelta(seconds=10), "How long an answer may take.", minimum=timedelta(milliseconds=100)
    )

    def check(self) -> Iterator[tuple[str, str]]:
        """Refuse it without OpenLineage's client."""
        if not is_installed("openlineage.client"):
            yield "", "needs openlineage-python: pip install 'calve[openlineage]'"


@dataclass(frozen=True)
class NotifySettings:
    """A receiver of events about tables, as CloudEvents in JSON."""

    http: HttpReceiver | None = option(None, "Send to an HTTP endpoint.")
    kafka: KafkaReceiver | None = option(None, "Send to a Kafka topic.")
    file: FileReceiver | None = option(None, "Append to a local file.")
    openlineage: OpenLineageReceiver | None = option(
        None, "Send the commits as run events of OpenLineage (`pip install 'calve[openlineage]'`)."
    )
    events: list[EventType] = option([], "The types of events to send. Default: all.")

    @property
    def receiver(self) -> HttpReceiver | KafkaReceiver | FileReceiver | OpenLineageReceiver:
        """The only receiver that is set."""
        receiver = self.http or self.kafka or self.file or self.openlineage
        assert receiver is not None  # guaranteed by `check`
        return receiver

    @property
    def address(self) -> str:
        """Where the events go, without secrets."""
        receiver = self.receiver
        if isinstance(receiver, HttpReceiver | OpenLineageReceiver):
            return receiver.url.partition("?")[0]
        if isinstance(receiver, KafkaReceiver):
            return f"kafka://{receiver.servers}/{receiver.topic}"
        return str(receiver.path.expanduser().absolute())

    def check(self) -> Iterator[tuple[str, str]]:
        """Reject everything but exactly one receiver."""
        if sum(receiver is not None for receiver in (self.http, self.kafka, self.file, self.openlineage)) != 1:
            yield "", "set one of http, kafka, file and openlineage; for several receivers, list several entries"

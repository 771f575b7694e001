"""Streams of numbered events, each with one server behind a proxy; what arrived is read past the proxy."""

from __future__ import annotations

import io
import itertools
import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import fastavro
from pyiceberg.catalog import load_catalog
from pyiceberg.catalog.sql import SqlCatalog

from kit.running import Calve
from services.faulty import FAULTS, NONE, Fault, FaultyProxy
from services.kafka import Kafka
from services.objects import ObjectStore
from services.opensearch import OpenSearch
from services.registry import Registry, framed

__all__ = ["SERVERS", "STATE", "Stream", "catalog", "kafka", "opensearch", "registry", "state", "store"]

STATE = "state"
EVENTS = 20
SINK = {
    "auto_create": True,
    "schema": {"columns": [{"name": "id", "type": "long"}]},
    "flush_interval": "300ms",
    "commit_interval": "500ms",
}
SERVERS = {
    "store": "S3 with a table's files",
    "catalog": "REST catalog",
    "kafka": "Kafka",
    "opensearch": "OpenSearch",
    "registry": "schema registry",
    STATE: "S3 with the state",
}


@dataclass
class Stream:
    """One pipeline with its events.

    Attributes:
        name: The pipeline's, and its server's.
        proxy: Stands before the server.
        source: The pipeline's `source:`.
        sink: The pipeline's `sink:`.
        send: Sends events with these numbers.
        read: Reads what has arrived.
        sent: How many events were sent.
    """

    name: str
    proxy: FaultyProxy
    source: dict[str, Any]
    sink: dict[str, Any]
    send: Callable[[list[int]], None]
    read: Callable[[], Counter[int]]
    sent: int = field(default=0)

    @property
    def yaml(self) -> dict[str, Any]:
        """The pipeline."""
        return {self.name: {"source": self.source, "sink": [self.sink]}}

    @property
    def faults(self) -> list[Fault]:
        """What can happen to its server: Kafka does not speak HTTP."""
        return [fault for fault in (NONE, *FAULTS) if not fault.status or self.name != "kafka"]

    def give(self) -> None:
        """Send the next events."""
        self.send(list(range(self.sent, self.sent + EVENTS)))
        self.sent += EVENTS


def store(calve: Calve, objects: ObjectStore) -> Stream:
    """Tables whose files are in S3, behind the proxy; their catalog is a local database."""
    proxy = FaultyProxy(urlsplit(objects.endpoint).port or 0, _s3_error)
    database = calve.folder / "store.db"
    place = {"warehouse": objects.place("faults"), "jdbc.schema-version": "V1"}
    theirs = {"type": "jdbc", "name": "store", "uri": f"jdbc:sqlite:{database}", **place, **objects.s3_file_io()}
    sink = {"iceberg": {"table_identifier": "faults.store", "catalog": theirs | {"s3.endpoint": proxy.address}, **SINK}}

    def read() -> Counter[int]:
        found = SqlCatalog("store", uri=f"sqlite:///{database}", **objects.s3_file_io()).load_table("faults.store")
        return Counter(found.scan().to_arrow()["id"].to_pylist())

    return Stream("store", proxy, *_files(calve, "store", sink), read)


def catalog(calve: Calve, objects: ObjectStore) -> Stream:
    """Tables of a REST catalog behind the proxy; their files are not."""
    proxy = FaultyProxy(urlsplit(objects.rest_address).port or 0, _rest_error)
    theirs = objects.rest_catalog()
    theirs |= {"uri": proxy.address, "oauth2-server-uri": f"{proxy.address}/v1/oauth/tokens"}
    sink = {"iceberg": {"table_identifier": "faults.catalog", "catalog": theirs, **SINK}}

    def read() -> Counter[int]:
        found = load_catalog("direct", **objects.rest_catalog()).load_table("faults.catalog")
        return Counter(found.scan().to_arrow()["id"].to_pylist())

    return Stream("catalog", proxy, *_files(calve, "catalog", sink), read)


def state(calve: Calve, objects: ObjectStore) -> Stream:
    """A pipeline whose state is in S3, behind the proxy."""
    proxy = FaultyProxy(urlsplit(objects.endpoint).port or 0, _s3_error)
    sink = {"iceberg": {"table_identifier": "out.state", **SINK}}
    return Stream(STATE, proxy, *_files(calve, STATE, sink), lambda: _local(calve, STATE))


def kafka(calve: Calve, proxy: FaultyProxy, broker: Kafka) -> Stream:
    """A topic of a broker behind the proxy, which the broker knows."""
    broker.create_topic("faults", partitions=2)
    topic = {"name": "faults", "serde_format": "json", "group_id": "faults"}
    source = {"kafka": {"bootstrap_servers": [f"127.0.0.1:{proxy.port}"], "topics": [topic]}}
    sink = {"iceberg": {"table_identifier": "out.kafka", **SINK}}

    def send(numbers: list[int]) -> None:
        broker.produce("faults", [f'{{"id": {number}}}' for number in numbers], partitions=(0, 1))

    return Stream("kafka", proxy, source, sink, send, lambda: _local(calve, "kafka"))


def opensearch(calve: Calve, node: OpenSearch) -> Stream:
    """An index of a node behind the proxy."""
    proxy = FaultyProxy(node.port, _opensearch_error)
    sink = {"opensearch": {"hosts": [proxy.address], "index": "faults", "document_id": "${/id}", "flush_timeout": 300}}
    return Stream(
        "opensearch",
        proxy,
        *_files(calve, "opensearch", sink),
        lambda: Counter(one["id"] for one in node.documents("faults").values()),
    )


def registry(calve: Calve, broker: Kafka, theirs: Registry) -> Stream:
    """A topic in Avro; each block of events has a schema that was not asked for before."""
    proxy = FaultyProxy(urlsplit(theirs.url).port or 0, _registry_error)
    broker.create_topic("avro", partitions=1)
    topic = {"name": "avro", "serde_format": "avro", "group_id": "avro"}
    servers = {"bootstrap_servers": [broker.address], "topics": [topic], "schema": {"registry_url": proxy.address}}
    sink = {"iceberg": {"table_identifier": "out.registry", **SINK}}

    def send(numbers: list[int]) -> None:
        fields = [{"name": "id", "type": "long", "doc": f"from {numbers[0]}"}]
        schema = {"type": "record", "name": "Event", "fields": fields}
        number, values = theirs.register("avro-value", schema), []
        for each in numbers:
            value = io.BytesIO()
            fastavro.schemaless_writer(value, fastavro.parse_schema(dict(schema)), {"id": each})
            values.append(framed(number, value.getvalue()))
        broker.produce("avro", values)

    return Stream("registry", proxy, {"kafka": servers}, sink, send, lambda: _local(calve, "registry"))


def _files(
    calve: Calve, name: str, sink: dict[str, Any]
) -> tuple[dict[str, Any], dict[str, Any], Callable[[list[int]], None]]:
    folder = calve.folder / "in" / name
    folder.mkdir(parents=True, exist_ok=True)
    names = itertools.count()

    def send(numbers: list[int]) -> None:
        new = folder / "_new"
        new.write_text("".join(f'{{"id": {number}}}\n' for number in numbers))
        new.rename(folder / f"{next(names):06}.ndjson")

    source = {"file": {"path": f"{Path('in') / name}/*.ndjson", "poll_interval": "200ms"}}
    return source, sink, send


def _local(calve: Calve, name: str) -> Counter[int]:
    return Counter(calve.rows(f"out.{name}")["id"].to_pylist())


def _s3_error(code: int) -> bytes:
    names = {403: "ExpiredToken", 409: "ConditionalRequestConflict", 429: "SlowDown", 500: "InternalError"}
    name = names.get(code, "ServiceUnavailable")
    return f'<?xml version="1.0"?><Error><Code>{name}</Code><Message>from the proxy</Message></Error>'.encode()


def _rest_error(code: int) -> bytes:
    names = {403: "ForbiddenException", 409: "CommitFailedException", 429: "TooManyRequestsException"}
    names |= {500: "InternalServerError"}
    name = names.get(code, "ServiceUnavailableException")
    return json.dumps({"error": {"message": "from the proxy", "type": name, "code": code}}).encode()


def _opensearch_error(code: int) -> bytes:
    names = {403: "security_exception", 409: "version_conflict_engine_exception", 429: "circuit_breaking_exception"}
    error = {"type": names.get(code, "server_error"), "reason": "from the proxy"}
    return json.dumps({"error": error, "status": code}).encode()


def _registry_error(code: int) -> bytes:
    return json.dumps({"error_code": code * 100 + 1, "message": "from the proxy"}).encode()

"""Topics with a schema registry become tables: types from the schemas, versions in mid-stream, poison, an outage."""

from __future__ import annotations

import datetime as dt
import io
import json
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from kit.debezium_avro import KEY_SCHEMA, avro_schema, encoded
from kit.debezium_events import SCHEMA, Changes
from kit.running import Calve
from serde.protobuf import versions as protobuf
from serde.protobuf.test_versions import registered
from services.kafka import Kafka
from services.registry import Registry, framed

pytestmark = [pytest.mark.spark, pytest.mark.services]

EVENTS = 3000
YAML = """
versions:
  source:
    kafka:
      bootstrap_servers: ["{address}"]
      topics: [{{name: versions, serde_format: avro}}]
      schema: {{registry_url: "{url}", api_key: calve, api_secret: secret}}
  sink:
    - iceberg: {{table_identifier: main.versions, auto_create: true, schema_evolution: true}}
texts:
  source:
    kafka:
      bootstrap_servers: ["{address}"]
      topics: [{{name: texts, serde_format: json_schema}}]
      schema: {{registry_url: "{url}", api_key: calve, api_secret: secret, key_format: avro}}
  sink:
    - iceberg: {{table_identifier: main.texts, auto_create: true, schema_evolution: true, metadata_columns: {{_key: kafka_key}}}}
changes:
  source:
    kafka:
      bootstrap_servers: ["{address}"]
      topics: [{{name: changes, serde_format: debezium}}]
      schema: {{registry_url: "{url}", api_key: calve, api_secret: secret}}
  sink: [{{iceberg: {{table_identifier: main.changes, {keyed}}}}}]
same:
  source: {{kafka: {{bootstrap_servers: ["{address}"], topics: [{{name: same, serde_format: debezium}}]}}}}
  sink: [{{iceberg: {{table_identifier: main.same, {keyed}}}}}]
messages:
  source:
    kafka:
      bootstrap_servers: ["{address}"]
      topics: [{{name: messages, serde_format: protobuf}}]
      schema: {{registry_url: "{url}", api_key: calve, api_secret: secret}}
  sink:
    - iceberg: {{table_identifier: main.messages, auto_create: true, schema_evolution: true}}
"""
KEYED = "auto_create: true, identifier_columns: [id], write_mode: merge-on-read"
TEXTS = [
    {"type": "object", "properties": {"id": {"type": "integer"}, "day": {"type": "string", "format": "date"}}},
    {"type": "object", "properties": {"id": {"type": "integer"}, "late": {"type": ["number", "null"]}}},
]


def _record(*fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "record", "name": "Order", "namespace": "shop", "fields": list(fields)}


def _field(name: str, kind: Any, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, **more}


_AT = {"type": "long", "logicalType": "timestamp-micros"}
_PRICE = {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}
_PLACE = {"type": "record", "name": "Place", "fields": [_field("city", "string"), _field("zip", ["null", "int"])]}
VERSIONS = [
    _record(_field("id", "int", doc="the number"), _field("customer", "string"), _field("weight", "float")),
    _record(
        _field("id", "long"), _field("buyer", "string", aliases=["customer"]), _field("at", ["null", _AT], default=None)
    ),
    _record(
        _field("id", "long"),
        _field("buyer", "string", aliases=["customer"]),
        _field("weight", "double", default=0.5),
        _field("price", _PRICE),
        _field("place", _PLACE),
        _field("tags", {"type": "array", "items": "string"}),
    ),
]


def _row(number: int) -> dict[str, Any]:
    """A row of the table, with the values of all versions."""
    return {
        "id": number + (1 << 40 if number % 3 else 0),
        "customer": f"kund\u00e9-{number}",
        "weight": number * 0.25,
        "at": dt.datetime(2026, 1, 1, tzinfo=dt.UTC) + dt.timedelta(microseconds=number),
        "price": Decimal(number) / 100,
        "place": {"city": f"c{number % 7}", "zip": None if number % 2 else number},
        "tags": [f"t{one}" for one in range(number % 4)],
    }


def _events(ids: list[int]) -> Iterator[tuple[bytes, dict[str, Any]]]:
    """The versions in turn, and the row that each event becomes."""
    parsed = [fastavro.parse_schema(json.loads(json.dumps(one))) for one in VERSIONS]
    for number in range(EVENTS):
        version, row, out = number % 3, _row(number), io.BytesIO()
        value = {**row, "buyer": row["customer"]}
        names = [each["name"] for each in VERSIONS[version]["fields"]]
        fastavro.schemaless_writer(out, parsed[version], {name: value[name] for name in names})
        kept = {"customer" if name == "buyer" else name for name in names}
        yield framed(ids[version], out.getvalue()), {name: row[name] if name in kept else None for name in row}


def test_three_versions_in_mid_stream_and_poison_become_one_table_and_dead_letters(kafka_broker: Kafka, calve) -> None:
    with Registry(login=("calve", "secret")) as registry:
        ids = [registry.register("versions-value", one) for one in VERSIONS]
        made = list(_events(ids))
        good = framed(ids[0], b"\2\2a\0\0\0\0")
        poison = [b"{}", b"\1" + good[1:], framed(99, b"\2"), good[:-1], good + b"\0", None]
        events = [value for value, _ in made]
        kafka_broker.create_topic("versions", partitions=2)
        kafka_broker.produce("versions", [*events[:1000], *poison, *events[1000:]], partitions=range(2))
        kafka_broker.create_topic("texts")
        numbers = [registry.register("texts-value", one, kind="JSON") for one in TEXTS]
        texts = [b'{"id":1,"day":"2026-01-09"}', b'{"id":2,"late":0.5}', b"{"]
        key = registry.register("texts-key", "long")
        keys = [framed(key, b"\x0e"), b"plain", framed(key, b"\x02")]
        values = [framed(numbers[at % 2], text) for at, text in enumerate(texts)]
        kafka_broker.produce("texts", values, keys=keys)
        _produce_messages(kafka_broker, registry)
        _produce_changes(kafka_broker, registry)
        registry.failures = 3
        job: Calve = calve(YAML.format(address=kafka_broker.address, url=registry.url, keyed=KEYED))
        assert job.once() == 0, job.said()[-3000:]
        assert "does not answer" in job.said()
        found = job.rows("main.versions")
        _check_columns(found.schema)
        rows = sorted(found.to_pylist(), key=lambda row: row["customer"])
        assert rows == sorted((row for _, row in made), key=lambda row: str(row["customer"]))
        rows_of_texts = job.rows("main.texts").sort_by("id").to_pylist()
        assert rows_of_texts == [
            {"id": 1, "day": dt.date(2026, 1, 9), "_key": "7", "late": None},
            {"id": 2, "day": None, "_key": "plain", "late": 0.5},
        ]
        [letter] = job.dead_letters("texts")
        assert (letter["code"], letter["event"]) == ("MALFORMED", framed(numbers[0], b"{").decode())
        letters = sorted(((one["code"], one["reason"]) for one in job.dead_letters("versions")), key=str)
        assert [code for code, _ in letters] == ["MALFORMED", *["UNDECODABLE"] * 4, "UNKNOWN_SCHEMA"]
        _check_messages(job)
        _check_changes(job)


def _check_columns(schema: pa.Schema) -> None:
    types = {field.name: field.type for field in schema}
    assert schema.field("id").metadata[b"doc"] == b"the number"
    assert types["id"] == pa.int64()
    assert types["weight"] == pa.float64()
    assert types["at"] == pa.timestamp("us", "UTC")
    assert types["price"] == pa.decimal128(10, 2)
    assert [field.name for field in types["place"]] == ["city", "zip"]
    assert set(types) == {"id", "customer", "weight", "at", "price", "place", "tags"}


def _produce_messages(broker: Kafka, registry: Registry) -> None:
    ids = registered(registry)
    events = list(protobuf.events(ids, EVENTS))
    broker.create_topic("messages", partitions=2)
    broker.produce("messages", [*events[:700], *protobuf.poison(ids[0]), *events[700:]], partitions=range(2))


def _check_messages(job: Calve) -> None:
    """The same for Protobuf, whose events have other fields and types."""
    found = job.rows("main.messages")
    types = {field.name: field.type for field in found.schema}
    assert types.keys() == protobuf.COLUMNS.keys()
    assert [types[name] for name in ("id", "weight", "at")] == [pa.int64(), pa.float64(), pa.timestamp("us", "UTC")]
    rows = [each | {"counts": each["counts"] and dict(each["counts"])} for each in found.to_pylist()]
    rows = [
        each | {"lines": each["lines"] or None} for each in rows
    ]  # PyIceberg 0.12 reads a null list of structs as []
    expected = [row | {"lines": row["lines"] or None} for row in map(protobuf.row, range(EVENTS))]
    assert sorted(rows, key=_customer) == sorted(expected, key=_customer)
    letters = job.dead_letters("messages")
    assert sorted(one["reason"] for one in letters) == sorted(protobuf.poison(0).values())


def _produce_changes(broker: Kafka, registry: Registry) -> None:
    """The same changes in Avro, with their keys, and in JSON; then a delete whose envelope has no row, and poison."""
    records = list(Changes(EVENTS, 500, wrapped=True))
    key = max(key for key, _ in records)
    deleted = {"before": None, "after": None, "source": {}, "op": "d", "ts_ms": None}
    records += [(key, json.dumps({"schema": SCHEMA, "payload": deleted}).encode()), (key, b"{}")]
    broker.create_topic("same")
    broker.produce("same", [value for _, value in records], keys=[key for key, _ in records])
    of_value = registry.register("changes-value", avro_schema(SCHEMA))
    of_key = registry.register("changes-key", avro_schema(KEY_SCHEMA))
    payloads = [json.loads(value)["payload"] for _, value in records[:-1] if value is not None]
    made = iter(encoded(of_value, SCHEMA, payloads))
    values = [None if value is None else next(made, value) for _, value in records]
    broker.create_topic("changes")
    broker.produce("changes", values, keys=encoded(of_key, KEY_SCHEMA, [json.loads(key) for key, _ in records]))


def _check_changes(job: Calve) -> None:
    found, same = (job.rows(f"main.{name}") for name in ("changes", "same"))
    assert found.schema == same.schema
    assert found.schema.field("amount").type == pa.decimal128(12, 2)
    assert found.sort_by("id").to_pylist() == same.sort_by("id").to_pylist()
    assert 300 < len(found) < 500
    assert job.status("changes")["passed_over"] == job.status("same")["passed_over"] > 0
    [letter], [other] = job.dead_letters("changes"), job.dead_letters("same")
    assert (letter["code"], letter["event"], other["code"]) == ("UNDECODABLE", "{}", "MALFORMED")


def _customer(row: dict[str, Any]) -> str:
    return str(row["customer"])

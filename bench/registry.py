"""Kafka → one Iceberg table: the same events as JSON, as Avro and as Protobuf, each also of three versions of a schema.

    make bench-registry BENCH="--events 1000000 --rounds 3"

Each reads its topic (4 partitions) from the same broker into a fresh table, in a process of its own; they take turns.
Start-up is included, and CPU seconds are those of the run, the broker and the registry. Rows and sums are compared.
"""

from __future__ import annotations

import io
import json
import tempfile
from collections.abc import Callable, Iterator
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import fastavro
import pyarrow.compute as pc

from bench.calve_run import calve_run
from bench.measure import Figures, medians, parser, ratio, take_turns
from bench.registry_messages import as_protobuf, message_schema
from bench.report import table
from kit.running import Calve
from services.kafka import STEADY, Kafka
from services.registry import Registry, framed

YAML = """
{name}:
  source:
    kafka:
      bootstrap_servers: ["{address}"]
      topics: [{{name: {name}, serde_format: {format}}}]
      {schema}
  sink:
    - iceberg: {{table_identifier: bench.events, auto_create: true, schema_evolution: true, commit_interval: 10s}}
"""
_AT = {"type": "long", "logicalType": "timestamp-micros"}
_PRICE = {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2}
FIELDS: list[tuple[str, Any]] = [
    ("id", "long"),
    ("at", _AT),
    ("user", "long"),
    ("name", "string"),
    ("country", {"type": "enum", "name": "Country", "symbols": ["NO", "SE", "DK"]}),
    ("score", "double"),
    ("price", _PRICE),
    ("ok", "boolean"),
    ("note", ["null", "string"]),
    ("tags", {"type": "array", "items": "string"}),
]
VERSIONS = (7, 9, 10)
"""How many of the fields each version has."""


def schema(fields: int) -> dict[str, Any]:
    """Return a version of the schema."""
    described = [{"name": name, "type": kind} for name, kind in FIELDS[:fields]]
    return {"type": "record", "name": "Event", "fields": described}


def event(number: int) -> dict[str, Any]:
    """Make one event."""
    return {
        "id": number,
        "at": 1_767_225_600_000_000 + number * 1_000,
        "user": number * 7919 % 100_003,
        "name": f"customer number {number % 50_000}",
        "country": ("NO", "SE", "DK")[number % 3],
        "score": number % 977 / 8,
        "price": Decimal(number % 100_000) / 100,
        "ok": number % 2 == 0,
        "note": None if number % 4 else f"note {number % 100}",
        "tags": [f"t{number % 5}", "all"],
    }


def as_json(count: int) -> Iterator[bytes]:
    """Yield the events as JSON."""
    for number in range(count):
        yield json.dumps(event(number) | {"price": float(event(number)["price"])}, separators=(",", ":")).encode()


def as_avro(count: int, ids: list[int], fields: tuple[int, ...]) -> Iterator[bytes]:
    """Yield the events as Avro, the versions in turn."""
    parsed = [fastavro.parse_schema(schema(each)) for each in fields]
    for number in range(count):
        out, version = io.BytesIO(), number % len(fields)
        fastavro.schemaless_writer(out, parsed[version], event(number))
        yield framed(ids[version], out.getvalue())


def run(name: str, yaml: str, count: int, folder: Path, number: int) -> Figures:
    """Run one contender, and check its table."""
    place = folder / f"{name}-{number}"
    found = calve_run(place, yaml, count)
    rows = Calve(place, yaml).rows("bench.events")
    sums = [len(rows), *(pc.sum(rows[column]).as_py() for column in ("id", "user", "score"))]
    events = map(event, range(count))
    users, scores = zip(*((one["user"], one["score"]) for one in events), strict=True)
    if sums != [count, count * (count - 1) // 2, sum(users), sum(scores)]:
        raise SystemExit(f"The table of {name} is wrong: {sums}")
    return found


def main(count: int, rounds: int) -> None:
    """Measure."""
    with tempfile.TemporaryDirectory() as temporary, Registry() as registry:
        folder = Path(temporary)
        with Kafka(folder, options=STEADY) as broker:
            topics = {"json": as_json(count)}
            for name, fields in {"avro": VERSIONS[-1:], "versions": VERSIONS}.items():
                ids = [registry.register(f"{name}-value", schema(each)) for each in fields]
                topics[name] = as_avro(count, ids, fields)
            for name, fields in {"protobuf": VERSIONS[-1:], "protobuf-versions": VERSIONS}.items():
                ids = [registry.register(f"{name}-value", message_schema(each), "PROTOBUF") for each in fields]
                topics[name] = as_protobuf(count, ids, fields, event)
            contenders: dict[str, Callable[[int], Figures]] = {}
            for name, values in topics.items():
                broker.create_topic(name, partitions=4)
                broker.produce(name, values, partitions=range(4))
                place = "" if name == "json" else f'schema: {{registry_url: "{registry.url}"}}'
                format = name.replace("-versions", "").replace("versions", "avro")
                yaml = YAML.format(name=name, address=broker.address, format=format, schema=place)
                contenders[name] = partial(run, name, yaml, count, folder)
            results = take_turns(contenders, rounds)
    print(table(medians(results)))
    for name in ("avro", "versions", "protobuf", "protobuf-versions"):
        for key in ("inside events/s", "CPU s/M"):
            print(f"{name} against json, {key}: {ratio(results, key, name, 'json'):.2f}")


if __name__ == "__main__":
    given = parser(__doc__, 1_000_000, 3).parse_args()
    main(given.events, given.rounds)

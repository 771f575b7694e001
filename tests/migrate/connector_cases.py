"""Configurations of Kafka Connect's Iceberg sink, each with records of a topic of its own.

`record_connector.py` runs them with the real sink, and keeps what it wrote in `connector_rows.json`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

from pyiceberg.table import StaticTable

from services.kafka import Kafka

__all__ = ["CASES", "ROWS", "TIME_MS", "Case", "config", "produce", "rows"]

ROWS = Path(__file__).with_name("connector_rows.json")
"""The rows that the real sink wrote: case → table → rows as JSON."""
TIME_MS = 1_760_000_000_000
"""The time of every record."""
_SMT = "org.apache.kafka.connect.transforms."
_ICEBERG_SMT = "org.apache.iceberg.connect.transforms."
_DEBEZIUM_SMT = "io.debezium.transforms."


class Case(NamedTuple):
    """A connector, and the values of its records.

    `differs` says why Calve deliberately writes something else; `rows` is then what it writes.
    """

    properties: dict[str, str]
    records: list[Any]
    differs: str = ""
    rows: dict[str, list[Any]] | None = None


def config(name: str, warehouse: Path) -> dict[str, str]:
    """Return the whole configuration of a case, with its catalog in a folder."""
    return {
        "connector.class": "org.apache.iceberg.connect.IcebergSinkConnector",
        "topics": f"sink-{name}",
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter.schemas.enable": "false",
        "iceberg.catalog": "ice",
        "iceberg.catalog.type": "hadoop",
        "iceberg.catalog.warehouse": f"file://{warehouse}",
        "iceberg.tables.auto-create-enabled": "true",
        "iceberg.tables.evolve-schema-enabled": "true",
        "iceberg.control.topic": f"control-{name}",
        "iceberg.control.commit.interval-ms": "1000",
        **CASES[name].properties,
    }


def _transform(kind: str, **options: str) -> dict[str, str]:
    named = {f"transforms.t.{name.replace('_', '.')}": value for name, value in options.items()}
    return {"transforms": "t", "transforms.t.type": kind, **named}


def _regexes(field: str, **tables: str) -> dict[str, str]:
    named = {f"iceberg.table.db.{table}.route-regex": pattern for table, pattern in tables.items()}
    return {"iceberg.tables": ",".join(f"db.{table}" for table in tables), "iceberg.tables.route-field": field, **named}


def _dynamic(field: str) -> dict[str, str]:
    return {"iceberg.tables.dynamic-enabled": "true", "iceberg.tables.route-field": field}


def _field(name: str, kind: str, optional: bool = True) -> dict[str, Any]:
    return {"field": name, "type": kind, "optional": optional}


_ROW = {
    "type": "struct",
    "optional": True,
    "name": "V",
    "fields": [_field("id", "int64", False), _field("name", "string")],
}
_SOURCE_FIELDS = [
    _field(name, "string") for name in ("version", "connector", "name", "db", "schema", "table", "snapshot")
]
_SOURCE = {
    "type": "struct",
    "fields": [*_SOURCE_FIELDS, _field("ts_ms", "int64"), _field("lsn", "int64")],
    "optional": False,
}
_ENVELOPE = {
    "type": "struct",
    "name": "shop.Envelope",
    "optional": False,
    "fields": [
        _ROW | {"field": "before"},
        _ROW | {"field": "after"},
        _SOURCE | {"field": "source"},
        _field("op", "string"),
        _field("ts_ms", "int64"),
    ],
}
_WITH_SCHEMA = {"value.converter.schemas.enable": "true", "iceberg.tables.default-id-columns": "id"}


def _change(number: int, table: str) -> dict[str, Any]:
    source = {
        "version": "3.0",
        "connector": "postgresql",
        "name": "s",
        "db": "shop",
        "schema": "public",
        "table": table,
    }
    after = {"id": number, "name": f"n{number}"}
    source |= {"ts_ms": TIME_MS + number, "snapshot": "false", "lsn": 100 + number}
    payload = {"before": None, "after": after, "source": source, "op": "c", "ts_ms": TIME_MS + 10 + number}
    return {"schema": _ENVELOPE, "payload": payload}


_CONNECT = "org.apache.kafka.connect.data."
_TYPES = [
    _field("id", "int64", False),
    _field("small", "int8"),
    _field("share", "float"),
    _field("amount", "bytes") | {"name": _CONNECT + "Decimal", "parameters": {"scale": "2"}},
    _field("day", "int32") | {"name": _CONNECT + "Date"},
    _field("at", "int64") | {"name": _CONNECT + "Timestamp"},
    _field("raw", "bytes"),
    _field("note", "string") | {"default": "none"},
    _field("tags", "array") | {"items": {"type": "string"}},
    _field("counts", "map") | {"keys": {"type": "int32"}, "values": {"type": "int64"}},
    _field("place", "struct")
    | {"fields": [_field("city", "string"), _field("at", "int64") | {"name": _CONNECT + "Timestamp"}]},
]


def _typed(number: int, **fields: Any) -> dict[str, Any]:
    """Return a plain record in Connect's JSON with schema."""
    row = {"id": number, "small": -number, "share": 1.5, "amount": "AME=", "day": 20454, "at": TIME_MS, "raw": "AP8="}
    row |= {"note": "n", "tags": ["a", "b"], "counts": [[7, number]], "place": {"city": "Bern", "at": TIME_MS + 1}}
    return {"schema": {"type": "struct", "fields": _TYPES, "optional": False}, "payload": {**row, **fields}}


_PLAIN: list[Any] = [{"id": 1, "v": "a"}, {"id": 2, "v": None}, {"id": 3, "v": "c", "in": {"x": 1, "l": [1, 2]}}]
_KINDS: list[Any] = [
    {"id": number, "kind": kind}
    for number, kind in enumerate([1, 12, -3, 1.5, True, False, "1", "true", "order", "", None, "orders"])
] + [{"id": 99}]
CASES: dict[str, Case] = {
    "plain": Case({"iceberg.tables": "db.plain"}, _PLAIN),
    "two-tables": Case({"iceberg.tables": "db.two_a,db.two_b"}, _PLAIN),
    "text-regexes": Case(
        _regexes("kind", orders="orders?", visits="visit|VISIT", rest="other.*"),
        [
            {"id": n, "kind": kind}
            for n, kind in enumerate(["order", "orders", "visit", "VISIT", "other1", "x", "Order"])
        ],
    ),
    "number-regexes": Case(
        _regexes("kind", ones="1", digits="-?[0-9]+", floats=r"[0-9]+\.[0-9]+"),
        _KINDS,
        "the type of a column is that of all values, not of the first one",
        {
            "db.ones": [{"id": 0, "kind": "1"}, {"id": 6, "kind": "1"}],
            "db.digits": [{"id": n, "kind": kind} for n, kind in ((0, "1"), (1, "12"), (2, "-3"), (6, "1"))],
        },
    ),
    "boolean-regexes": Case(
        _regexes("kind", yes="true", no="[f].*"),
        [{"id": number, "kind": kind} for number, kind in enumerate([True, False, "true", "false", "x", None])],
        "the type of a column is that of all values, not of the first one",
        {
            "db.yes": [{"id": 0, "kind": "true"}, {"id": 2, "kind": "true"}],
            "db.no": [{"id": 1, "kind": "false"}, {"id": 3, "kind": "false"}],
        },
    ),
    "nested-regexes": Case(
        _regexes("meta.kind", nested_a="1", nested_b="b"),
        [{"id": 1, "meta": {"kind": 1}}, {"id": 2, "meta": {"kind": "b"}}, {"id": 3, "meta": {"kind": None}}],
    ),
    "dynamic": Case(_dynamic("route"), [{"id": 1, "route": "db.dyn_a"}, {"id": 2, "route": "db.dyn_b"}]),
    "dynamic-own-settings": Case(
        _dynamic("route") | {"iceberg.table.db.own_a.partition-by": "bucket(id, 4)"},
        [{"id": 1, "route": "db.own_a"}, {"id": 2, "route": "db.own_b"}],
    ),
    "metadata-nested": Case(
        {"iceberg.tables": "db.nested"}
        | _transform(
            _ICEBERG_SMT + "KafkaMetadataTransform",
            field_name="x",
            nested="true",
        )
        | {"transforms.t.field_name": "_place", "transforms.t.external_field": "env,prod"},
        _PLAIN,
    ),
    "inserted": Case(
        {"iceberg.tables": "db.inserted"}
        | _transform(
            _SMT + "InsertField$Value",
            topic_field="_topic",
            partition_field="_part",
            offset_field="_offset",
            static_field="_static",
            static_value="s",
        ),
        _PLAIN,
    ),
    "replaced": Case(
        {"iceberg.tables": "db.replaced"} | _transform(_SMT + "ReplaceField$Value", exclude="in", renames="v:w"), _PLAIN
    ),
    "kept": Case({"iceberg.tables": "db.kept"} | _transform(_SMT + "ReplaceField$Value", include="id,v"), _PLAIN),
    "cast": Case(
        {"iceberg.tables": "db.cast"} | _transform(_SMT + "Cast$Value", spec="id:string,n:int64,b:boolean"),
        [{"id": 1, "n": "12", "b": "true"}, {"id": 2, "n": 13, "b": False}],
    ),
    "flattened": Case(
        {"iceberg.tables": "db.flat"} | _transform(_SMT + "Flatten$Value", delimiter="_"),
        [{"id": 1, "in": {"x": 1, "deep": {"y": "z"}}}],
    ),
    "copied": Case(
        {"iceberg.tables": "db.copied"}
        | _transform(_ICEBERG_SMT + "CopyValue", source_field="id", target_field="id_copy"),
        [{"id": 1}, {"id": 2}],
    ),
    "with-schema": Case(
        {"iceberg.tables": "db.typed", "value.converter.schemas.enable": "true"},
        [_typed(1), _typed(2, amount=None, day=None, at=None, tags=[], counts=[], place=None), _typed(3, place={})],
    ),
    "with-schema-by-table": Case(
        _regexes("note", typed_a="a.*", typed_b="b")
        | {"value.converter.schemas.enable": "true", "iceberg.table.db.typed_a.partition-by": "day(at), bucket(id, 4)"},
        [_typed(number, note=note) for number, note in enumerate(["a", "b", "ab", "c"])],
    ),
    "unwrapped": Case(
        {"iceberg.tables": "db.unwrapped"} | _WITH_SCHEMA | _transform(_DEBEZIUM_SMT + "ExtractNewRecordState"),
        [_change(number, "orders") for number in range(3)],
    ),
    "unwrapped-by-table": Case(
        _regexes("__table", un_orders="orders", un_rest="customers|1")
        | _WITH_SCHEMA
        | _transform(_DEBEZIUM_SMT + "ExtractNewRecordState", add_fields="op,table,source.ts_ms,source.lsn"),
        [_change(number, table) for number, table in enumerate(["orders", "customers", "orders", "x"])],
    ),
    "unwrapped-dynamic": Case(
        _dynamic("_t")
        | _WITH_SCHEMA
        | _transform(_DEBEZIUM_SMT + "ExtractNewRecordState", add_fields="table:t,db", add_fields_prefix="_"),
        [_change(number, f"db.und_{number % 2}") for number in range(4)],
    ),
    "debezium": Case(
        _dynamic("_cdc.target")
        | _WITH_SCHEMA
        | _transform(_ICEBERG_SMT + "DebeziumTransform")
        | {"transforms.t.cdc.target.pattern": "db.cdc_{table}"},
        [_change(number, table) for number, table in enumerate(["orders", "customers", "orders"])],
        "the connector adds a struct _cdc to each row; Calve applies the changes",
        {
            "db.cdc_orders": [{"id": 0, "name": "n0"}, {"id": 2, "name": "n2"}],
            "db.cdc_customers": [{"id": 1, "name": "n1"}],
        },
    ),
}


def produce(broker: Kafka) -> None:
    """Send the records of all cases, each to its topic."""
    producer = broker.producer()
    for name, case in CASES.items():
        broker.create_topic(f"sink-{name}", **{"retention.ms": "-1"})
        for record in case.records:
            producer.produce(f"sink-{name}", json.dumps(record).encode(), timestamp=TIME_MS)
    broker.arrived(producer)


def rows(warehouse: Path) -> dict[str, list[Any]]:
    """Return the rows of all tables in a Hadoop catalog, without fields that are null, in order of their texts."""
    tables = {}
    for folder in sorted(path.parent for path in warehouse.glob("*/*/metadata")):
        versions = (folder / "metadata").glob("v*.metadata.json")
        newest = max(versions, key=lambda path: int(path.name[1:].split(".")[0]), default=None)
        if newest is None:
            continue  # being created
        table = StaticTable.from_metadata(str(newest)).scan().to_arrow()
        texts = sorted(json.dumps(_without_nulls(row), default=str) for row in table.to_pylist())
        tables[f"{folder.parent.name}.{folder.name}"] = list(map(json.loads, texts))
    return tables


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_nulls(part) for name, part in sorted(value.items()) if part is not None}
    return [_without_nulls(part) for part in value] if isinstance(value, list) else value

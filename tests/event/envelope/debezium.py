"""Records as Debezium's connectors and Kafka Connect's JsonConverter write them."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from typing import Any

__all__ = ["envelope", "field", "schema", "text", "unscaled", "wrapped"]

SOURCE = {
    "version": "3.3.1.Final",
    "connector": "postgresql",
    "name": "shop",
    "ts_ms": 1767225600000,
    "snapshot": "false",
    "db": "shop",
    "sequence": '["24023128","24023560"]',
    "schema": "public",
    "table": "customers",
    "txId": 555,
    "lsn": 24023128,
    "xmin": None,
}


def field(name: str, kind: str, logical: str | None = None, **more: Any) -> dict[str, Any]:
    """Give a column's Connect schema."""
    named = {"name": logical, "version": 1} if logical else {}
    return {"type": kind, "optional": True, **named, **more, "field": name}


def schema(columns: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Give the schema of an envelope around rows of these columns."""
    row = {"type": "struct", "fields": list(columns), "optional": True, "name": "shop.public.customers.Value"}
    parts = [{**row, "field": "before"}, {**row, "field": "after"}, field("op", "string"), field("ts_ms", "int64")]
    return {"type": "struct", "fields": parts, "optional": False, "name": "shop.public.customers.Envelope"}


def envelope(operation: str, before: Any = None, after: Any = None, **source: Any) -> dict[str, Any]:
    """Give an envelope; `source` overrides what it tells of its origin."""
    told = {"source": {**SOURCE, **source}, "transaction": None, "op": operation, "ts_ms": 1767225600123}
    return {"before": before, "after": after, **told}


def wrapped(columns: Sequence[dict[str, Any]], payload: Any) -> dict[str, Any]:
    """Put an envelope beside its schema."""
    return {"schema": schema(columns), "payload": payload}


def text(value: Any) -> bytes:
    """Write a record as the JsonConverter does: compact, not only ASCII."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def unscaled(number: int) -> str:
    """Write a decimal's unscaled value as Connect does."""
    size = (8 + (number + (number < 0)).bit_length()) // 8
    return base64.b64encode(number.to_bytes(size, "big", signed=True)).decode()

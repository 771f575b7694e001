"""Changes of a table as Debezium tells them, made up: many keys, each with a life of its own, and an oracle."""

from __future__ import annotations

import base64
import json
import random
from collections.abc import Callable, Iterator
from typing import Any

__all__ = ["SCHEMA", "Changes", "lives"]


def _field(name: str, kind: str, logical: str = "", **parameters: str) -> dict[str, Any]:
    named = {"name": logical, "version": 1} if logical else {}
    told = {"parameters": parameters} if parameters else {}
    return {"type": kind, "optional": name != "id", **named, **told, "field": name}


_DIGITS = {"scale": "2", "connect.decimal.precision": "12"}
_COLUMNS = [
    _field("id", "int64"),
    _field("name", "string"),
    _field("city", "string"),
    _field("amount", "bytes", "org.apache.kafka.connect.data.Decimal", **_DIGITS),
    _field("visits", "int32"),
    _field("score", "double"),
    _field("active", "boolean"),
    _field("born", "int32", "io.debezium.time.Date"),
    _field("changed", "int64", "io.debezium.time.MicroTimestamp"),
]
_SOURCE = [
    *(_field(name, "string") for name in ("version", "connector", "name", "db", "schema", "table", "snapshot")),
    *(_field(name, "int64") for name in ("ts_ms", "txId", "lsn", "xmin")),
]
SCHEMA: dict[str, Any] = {
    "type": "struct",
    "fields": [
        {"type": "struct", "fields": _COLUMNS, "optional": True, "name": "shop.customers.Value", "field": "before"},
        {"type": "struct", "fields": _COLUMNS, "optional": True, "name": "shop.customers.Value", "field": "after"},
        {"type": "struct", "fields": _SOURCE, "optional": False, "name": "Source", "field": "source"},
        _field("op", "string"),
        _field("ts_ms", "int64"),
    ],
    "optional": False,
    "name": "shop.customers.Envelope",
    "version": 2,
}
_CITIES = ("Bern", "Basel", "Genève", "Zürich", "Chur")


def lives(
    count: int, keys: int, chosen: random.Random, row: Callable[[int, int], str]
) -> Iterator[tuple[int, int, str | None, str | None]]:
    """Yield changes as their number, a key, and its row before and after; a tenth of those of a row delete it.

    Args:
        count: How many.
        keys: Of how many keys.
        chosen: What decides.
        row: Makes the row of a key and a number.
    """
    rows: dict[int, str] = {}
    for number in range(count):
        key = chosen.randrange(keys)
        before = rows.get(key)
        if before is not None and chosen.random() < 0.1:
            del rows[key]
            yield number, key, before, None
            continue
        rows[key] = row(key, number)
        yield number, key, before, rows[key]


class Changes:
    """A stream of changes.

    Args:
        count: How many.
        keys: Of how many keys.
        wrapped: Whether each has the `schema` beside its `payload`.
        seed: What decides.

    Attributes:
        rows: What the table holds after the changes that were taken: values as they are meant, by key.
    """

    def __init__(self, count: int, keys: int, wrapped: bool = False, seed: int = 1) -> None:
        self._count, self._keys, self._wrapped = count, keys, wrapped
        self._chosen = random.Random(seed)
        self._begin = json.dumps({"schema": SCHEMA}, separators=(",", ":"))[:-1] + ',"payload":' if wrapped else ""
        self.rows: dict[int, dict[str, Any]] = {}

    def __iter__(self) -> Iterator[tuple[bytes, bytes | None]]:
        """Yield keys and values of records; a delete is followed by its tombstone, which does not count."""
        for number, key, before, after in lives(self._count, self._keys, self._chosen, self._row):
            record_key = b'{"id":%d}' % key
            word = "d" if after is None else "u" if before else "c"
            yield record_key, self._envelope(before or "null", after or "null", word, number)
            if after is None:
                del self.rows[key]
                yield record_key, None

    def _row(self, key: int, number: int) -> str:
        cents, city = number * 37 % 10_000_019 - 500, _CITIES[number % len(_CITIES)]
        born, changed = number % 20_000 - 3_000, 1_767_225_600_000_000 + number * 1_003
        score, visits = round(self._chosen.random() * 100, 2), number % 1000
        self.rows[key] = {"id": key, "city": city, "cents": cents, "born": born, "changed": changed, "score": score}
        return (
            f'{{"id":{key},"name":"customer {key:x}","city":"{city}","amount":"{_unscaled(cents)}","visits":{visits},'
            f'"score":{score!r},"active":{"true" if number % 2 else "false"},"born":{born},"changed":{changed}}}'
        )

    def _envelope(self, before: str, after: str, operation: str, number: int) -> bytes:
        at = 1_767_225_600_000 + number
        payload = (
            f'{{"before":{before},"after":{after},"source":{{"version":"3.3.1.Final","connector":"postgresql",'
            f'"name":"shop","ts_ms":{at},"snapshot":"false","db":"shop","sequence":"[\\"{number}\\",\\"{number}\\"]",'
            f'"schema":"public","table":"customers","txId":{number},"lsn":{number * 8},"xmin":null}},'
            f'"transaction":null,"op":"{operation}","ts_ms":{at + 7}}}'
        )
        return f"{self._begin}{payload}}}".encode() if self._wrapped else payload.encode()


def _unscaled(number: int) -> str:
    size = (8 + (number + (number < 0)).bit_length()) // 8
    return base64.b64encode(number.to_bytes(size, "big", signed=True)).decode()

"""Keys in Avro become texts: records as JSON, other types as their values; what cannot be decoded rejects its record."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from calve.event.columns import EVENT, MALFORMED, ORIGINAL
from calve.event.envelope.decoder import RECORD_KEY
from calve.serde.decoder import DecodedRows, SchemaDecoder
from calve.serde.settings import SchemaSettings, Serde
from serde.avro.test_decoder import record
from serde.avro.values import encoded
from services.registry import Registry, framed


@pytest.fixture
def registry() -> Iterator[Registry]:
    with Registry() as started:
        started.register("s-value", record("int"))
        yield started


def in_column(key: bytes | None) -> str | None:
    """A key as the source has it."""
    try:
        return None if key is None else key.decode()
    except UnicodeDecodeError:
        return base64.b64encode(key or b"").decode()


def decode(
    registry: Registry, *keys: bytes | None, values: list[bytes | None] | None = None, **schema: Any
) -> DecodedRows:
    settings = SchemaSettings(registry_url=registry.url, **{"key_format": "avro", **schema})
    values = values or [framed(1, b"\x02")] * len(keys)
    columns = {EVENT: pa.array(values, pa.binary()), RECORD_KEY: pa.array(map(in_column, keys), pa.string())}
    columns[MALFORMED] = pa.array(["broken" if key == b"broken" else None for key in keys], pa.string())
    return SchemaDecoder(Serde("avro", settings, ("s-value",))).decode(pa.table(columns))


ID = {"type": "record", "name": "Key", "fields": [{"name": "id", "type": "long"}, {"name": "of", "type": "string"}]}
DAY = {"type": "int", "logicalType": "date"}
KEYS: list[tuple[Any, Any, str | None]] = [
    ("string", 'kunde "é"', 'kunde "é"'),
    ("long", -(2**62), str(-(2**62))),
    ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, "B", "B"),
    (ID, {"id": 7, "of": "x"}, '{"id":7,"of":"x"}'),
    ({"type": "array", "items": "int"}, [1, 2], "[1,2]"),
    (["null", "string"], None, None),
    (["null", "string"], "null", "null"),
    (DAY, 1, "1970-01-02"),
]


def test_keys_of_any_type_become_their_text(registry: Registry) -> None:
    keys = [
        framed(registry.register(f"s{at}-key", kind), encoded(kind, value)) for at, (kind, value, _) in enumerate(KEYS)
    ]
    found = decode(registry, *keys)
    assert found.rows[RECORD_KEY].to_pylist() == [text for _, _, text in KEYS]
    assert not len(found.rejects)


def test_keys_without_an_id_stay_as_they_are(registry: Registry) -> None:
    keys = [b"plain", b"", None, b"\xff\x00", b"\0\0\0"]
    assert decode(registry, *keys).rows[RECORD_KEY].to_pylist() == [in_column(key) for key in keys]


def test_keys_stay_as_they_are_by_default(registry: Registry) -> None:
    key = framed(registry.register("s-key", "string"), encoded("string", "a"))
    assert decode(registry, key, key_format="text").rows[RECORD_KEY].to_pylist() == [in_column(key)]


def test_a_key_that_cannot_be_decoded_rejects_its_record_once(registry: Registry) -> None:
    number = registry.register("s-key", "string")
    good, cut = framed(number, encoded("string", "a")), framed(number, b"\x08a")
    text = registry.register("t-key", {"type": "object"}, kind="JSON")
    keys = [good, cut, framed(99, b"a"), framed(text, b"{}"), cut, b"broken", good]
    value = framed(1, b"\x02")
    found = decode(registry, *keys, values=[value, value, value, value, None, value, b"no value"])
    assert found.rows[RECORD_KEY].to_pylist() == ["a"]
    assert found.rows[ORIGINAL].to_pylist() == [value]
    rejects = {row["row"]: (row["code"], row["reason"]) for row in found.rejects.to_pylist()}
    assert len(rejects) == len(found.rejects) == 6
    assert [rejects[row][0] for row in (1, 2, 3, 4)] == [
        "UNDECODABLE",
        "UNKNOWN_SCHEMA",
        "UNKNOWN_SCHEMA",
        "UNDECODABLE",
    ]
    assert all(rejects[row][1].startswith("the key: ") for row in (1, 2, 3, 4))
    assert rejects[5] == ("MALFORMED", "broken")
    assert "magic byte" in rejects[6][1]


def test_keys_in_avro_need_a_registry() -> None:
    [(key, reason)] = SchemaSettings(inline_schema='"int"', key_format="avro").check()
    assert (key, "needs registry_url" in reason) == ("key_format", True)

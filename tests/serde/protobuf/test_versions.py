"""Versions of a schema in mid-stream, with references and a message that is not the first, and poison among them."""

from __future__ import annotations

import pyarrow as pa
import pytest

from calve.event.columns import EVENT, ORIGINAL, TYPED
from calve.serde.decoder import DecodedRows, SchemaDecoder
from calve.serde.settings import SchemaSettings, Serde
from serde.protobuf import versions
from services.registry import Registry


def registered(registry: Registry) -> list[int]:
    registry.register("place", versions.PLACE, "PROTOBUF")
    references = [(), (), [("place.proto", "place", 1)]]
    return [
        registry.register("orders-value", text, "PROTOBUF", references=each)
        for text, each in zip(versions.VERSIONS, references, strict=True)
    ]


def decode(registry: Registry, values: list[bytes], **schema: str) -> DecodedRows:
    serde = Serde("protobuf", SchemaSettings(registry_url=registry.url, **schema), ("orders-value",))
    return SchemaDecoder(serde).decode(pa.table({EVENT: pa.array(values, pa.binary())}))


def test_versions_and_poison_become_rows_and_rejects_in_order() -> None:
    with Registry() as registry:
        ids = registered(registry)
        events, poison = list(versions.events(ids, 30)), versions.poison(ids[0])
        found = decode(registry, [*events[:10], *poison, *events[10:]])
    assert [each["reason"] for each in found.rejects.to_pylist()] == list(poison.values())
    assert {each["code"] for each in found.rejects.to_pylist()} == {"UNDECODABLE"}
    assert found.rows[ORIGINAL].to_pylist() == events
    names = list(versions.COLUMNS)
    rows = found.rows[TYPED].to_pylist(maps_as_pydicts="strict")
    assert [{name: row[name] for name in names} for row in rows] == [versions.row(number) for number in range(30)]


def test_nanoseconds_make_the_rows_of_a_batch_texts_that_keep_them() -> None:
    with Registry() as registry:
        ids = registered(registry)
        header = b"\0" + ids[1].to_bytes(4, "big") + b"\0"
        found = decode(registry, [header + b"\x08\1\x22\2\x08\1", header + b"\x08\2\x22\4\x08\1\x10\1"])
    assert found.rows[EVENT].to_pylist() == [
        b'{"id":1,"customer":"","at":"1970-01-01T00:00:01Z","color":"NONE"}',
        b'{"id":2,"customer":"","at":"1970-01-01T00:00:01.000000001Z","color":"NONE"}',
    ]


@pytest.mark.parametrize("version", ["1", "2"])
def test_a_chosen_version_gives_all_events_its_columns(version: str) -> None:
    with Registry() as registry:
        ids = registered(registry)
        found = decode(registry, list(versions.events(ids, 2)), version=version)
    columns = {"1": ["id", "customer", "weight"], "2": ["id", "customer", "at", "color"]}
    assert found.rows[TYPED].chunk(0).type.names == columns[version]

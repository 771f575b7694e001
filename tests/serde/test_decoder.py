"""Values with a registry: versions in one batch, poison, and a registry that does not answer, which costs no event."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from calve.errors import SourceError, SourceUnavailableError
from calve.event.columns import EVENT, MALFORMED, ORIGINAL, SCHEMA, TYPED
from calve.serde.decoder import DecodedRows, SchemaDecoder, check
from calve.serde.settings import SchemaSettings, Serde
from serde.avro.test_decoder import record
from serde.avro.values import encoded
from services.registry import Registry, framed


@pytest.fixture
def registry() -> Iterator[Registry]:
    with Registry() as started:
        yield started


def decode(url: str, *values: bytes | None, **schema: Any) -> DecodedRows:
    """Decode with settings of a registry's; each batch has offsets."""
    decoder = SchemaDecoder(Serde("avro", SchemaSettings(registry_url=url, **schema), ("s",)))
    events = pa.table({EVENT: pa.array(values, pa.binary()), "kafka_offset": range(len(values))})
    return decoder.decode(events)


def test_versions_in_one_batch_stay_in_order_with_their_own_declarations(registry: Registry) -> None:
    kinds = [record("int"), record("long", "string")]
    ids = [registry.register("s", kind) for kind in kinds]
    values = [
        framed(ids[number % 2], encoded(kinds[number % 2], {"f0": number, "f1": str(number)})) for number in range(6)
    ]
    found = decode(registry.url, *values)
    assert not len(found.rejects)
    assert found.rows[TYPED].to_pylist() == [
        {"f0": number, "f1": str(number) if number % 2 else None} for number in range(6)
    ]
    assert found.rows[ORIGINAL].to_pylist() == values
    assert found.rows["kafka_offset"].to_pylist() == list(range(6))
    assert len(set(found.rows[SCHEMA].to_pylist())) == 2
    assert registry.asked == [f"/schemas/ids/{number}" for number in ids]


def test_as_texts_rows_lack_what_the_version_of_their_schema_lacks(registry: Registry) -> None:
    kinds = [record("int"), record("long", ["null", "string"])]
    ids = [registry.register("s", kind) for kind in kinds]
    values = [framed(ids[0], b"\x02"), framed(ids[1], b"\x04\x00"), framed(ids[0], b"\x06"), None]
    decoder = SchemaDecoder(Serde("avro", SchemaSettings(registry_url=registry.url), ("s",)))
    rows = decoder.decode(pa.table({EVENT: pa.array(values, pa.binary())}), as_text=True).rows
    assert rows[EVENT].to_pylist() == [b'{"f0":1}', b'{"f0":2,"f1":null}', b'{"f0":3}']


def test_a_field_that_changes_its_type_goes_on_as_text(registry: Registry) -> None:
    kinds = [record("int"), record("string")]
    ids = [registry.register("s", kind) for kind in kinds]
    texts = [framed(ids[0], b"\x02"), framed(ids[1], b"\x02a"), framed(ids[0], b"\x04")]
    found = decode(registry.url, *texts)
    assert found.rows[EVENT].to_pylist() == [b'{"f0":1}', b'{"f0":"a"}', b'{"f0":2}']


def test_what_has_no_schema_or_does_not_follow_it_is_rejected_alone(registry: Registry) -> None:
    good, other = registry.register("s", record("int")), registry.register("o", "{}", kind="JSON")
    recursive = registry.register("r", record({"type": "array", "items": "R"}))
    values = [b"", b"\0\0\0\0", b"\1\0\0\0\1\2", framed(77, b"\2"), framed(other, b"{}"), framed(recursive, b"\0")]
    found = decode(registry.url, *values, framed(good, b"\2"), framed(good, b"\2\2"), None)
    assert found.rows[TYPED].to_pylist() == [{"f0": 1}]
    rejects = [(one["row"], one["code"], one["reason"]) for one in found.rejects.to_pylist()]
    assert rejects == [
        (0, "UNDECODABLE", "the value has 0 bytes: no magic byte and schema id before it"),
        (1, "UNDECODABLE", "the value has 4 bytes: no magic byte and schema id before it"),
        (2, "UNDECODABLE", "the value begins with the byte 0x01, not with the magic byte 0 and a schema id"),
        (3, "UNKNOWN_SCHEMA", "the schema registry has no schema with the id 77"),
        (4, "UNKNOWN_SCHEMA", "the schema 2 is of type JSON, not AVRO"),
        (
            5,
            "UNKNOWN_SCHEMA",
            "the schema 3 cannot be used: the type R contains itself, and a table has no recursive columns",
        ),
        (7, "UNDECODABLE", "the value has 1 bytes more than its schema"),
        (8, "MALFORMED", "the record has no value"),
    ]


def test_what_a_source_rejects_stays_rejected_for_its_reason(registry: Registry) -> None:
    events = pa.table({EVENT: pa.array([b"x"], pa.binary()), MALFORMED: ["cut off"]})
    found = SchemaDecoder(Serde("avro", SchemaSettings(registry_url=registry.url))).decode(events)
    assert [one["reason"] for one in found.rejects.to_pylist()] == ["cut off"]
    assert not len(found.rows)


def test_a_schema_with_references_is_read_with_them(registry: Registry) -> None:
    place = {"type": "record", "name": "a.Place", "fields": [{"name": "zip", "type": "int"}]}
    registry.register("place", place)
    number = registry.register("s", record("a.Place"), references=[("a.Place", "place", 1)])
    assert decode(registry.url, framed(number, b"\x0a")).rows[TYPED].to_pylist() == [{"f0": {"zip": 5}}]


def test_a_version_decides_the_columns_and_fills_in_defaults(registry: Registry) -> None:
    number = registry.register("s", record("int", "string"))
    new = {**record("long"), "fields": [*record("long")["fields"], {"name": "n", "type": "int", "default": 9}]}
    registry.register("s", new)
    found = decode(registry.url, framed(number, b"\x02\x02a"), version="2")
    assert found.rows[TYPED].to_pylist() == [{"f0": 1, "n": 9}]
    missing = decode(registry.url, framed(number, b"\x02\x02a"), version="3")
    assert "no version 3 of s" in missing.rejects["reason"][0].as_py()


def test_a_check_finds_what_would_reject_all_events(registry: Registry) -> None:
    serde = Serde("avro", SchemaSettings(registry_url=registry.url), ("s", "t"))
    registry.register("s", record("int"))
    with pytest.raises(SourceError, match="has no schema of the subject t"):
        check(serde)
    registry.register("t", record("int"))
    check(serde)
    registry.register("t", record({"type": "array", "items": "R"}))
    with pytest.raises(SourceError, match="R contains itself"):
        check(serde)
    with pytest.raises(SourceError, match="it is not JSON"):
        check(Serde("avro", SchemaSettings(inline_schema="{"), ("s",)))


def test_a_given_schema_needs_no_registry() -> None:
    schema = SchemaSettings(inline_schema='{"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}]}')
    found = SchemaDecoder(Serde("avro", schema)).decode(pa.table({EVENT: pa.array([b"\x02", b""], pa.binary())}))
    assert found.rows[TYPED].to_pylist() == [{"a": 1}]
    assert found.rejects["code"].to_pylist() == ["UNDECODABLE"]


def test_a_registry_that_does_not_answer_rejects_no_event(registry: Registry) -> None:
    number = registry.register("s", record("int"))
    registry.failures = 1
    with pytest.raises(SourceUnavailableError, match="status 503"):
        decode(registry.url, framed(number, b"\x02"))
    assert len(decode(registry.url, framed(number, b"\x02")).rows) == 1
    with pytest.raises(SourceUnavailableError, match="status 404"):
        decode(f"{registry.url}/wrong", framed(number, b"\x02"))
    registry.stop()
    assert len(decode(registry.url, framed(number, b"\x02")).rows) == 1  # it is known
    with pytest.raises(SourceUnavailableError, match="does not answer"):
        decode(registry.url, framed(number + 1, b"\x02"))


@pytest.mark.parametrize(
    ("demands", "right", "wrong"),
    [
        ({"token": "t"}, {"bearer_token": "t"}, {"bearer_token": "u"}),
        (
            {"login": ("u", "p")},
            {"schema_registry_api_key": "u", "schema_registry_api_secret": "p"},
            {"schema_registry_api_key": "u", "schema_registry_api_secret": "q"},
        ),
    ],
)
def test_a_login_is_sent_and_a_wrong_one_stops_with_a_hint(demands: Any, right: Any, wrong: Any) -> None:
    with Registry(**demands) as registry:
        number = registry.register("s", record("int"))
        assert len(decode(registry.url, framed(number, b"\x02"), **right).rows) == 1
        with pytest.raises(SourceError, match="refuses the login") as caught:
            decode(registry.url, framed(number, b"\x02"), **wrong)
        assert not isinstance(caught.value, SourceUnavailableError)

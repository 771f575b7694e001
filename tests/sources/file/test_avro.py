"""Avro files: fastavro's rows with every codec; a damaged file yields its whole blocks and one reject."""

from __future__ import annotations

import io
import json
import random
import zlib
from typing import Any

import fastavro
import pyarrow as pa
import pytest
import zstandard

from calve.event.columns import MALFORMED, SCHEMA, TYPED
from calve.sources.file.codec import FilePart, read_part
from calve.sources.file.settings import FileSettings
from serde.avro.values import encoded

SCHEMA_OF_ROWS = {
    "type": "record",
    "name": "R",
    "fields": [{"name": "id", "type": "long"}, {"name": "name", "type": ["null", "string"]}],
}
ROWS = [{"id": number, "name": None if number % 3 else f"n{number}"} for number in range(5000)]
_SYNC = bytes(range(16))


def _file(codec: str) -> bytes:
    out = io.BytesIO()
    fastavro.writer(out, SCHEMA_OF_ROWS, ROWS, codec=codec, sync_interval=4000, sync_marker=_SYNC)
    return out.getvalue()


def _by_hand(data: bytes, count: int, codec: str = "null", schema: Any = SCHEMA_OF_ROWS) -> bytes:
    """A file with one block."""
    head = fastavro.parse_schema({"type": "map", "values": "bytes"})
    out = io.BytesIO()
    metadata = {"avro.schema": json.dumps(schema).encode(), "avro.codec": codec.encode()}
    fastavro.schemaless_writer(out, head, metadata)
    sizes = encoded({"type": "record", "name": "S", "fields": [{"name": "n", "type": "long"}]}, {"n": count})
    sizes += encoded({"type": "record", "name": "S", "fields": [{"name": "n", "type": "long"}]}, {"n": len(data)})
    return b"Obj\x01" + out.getvalue() + _SYNC + sizes + data + _SYNC


def _read(data: bytes) -> tuple[list[Any], list[str]]:
    """The rows of a file, and the reasons of rejects."""
    part = FilePart("a.avro", 0, len(data), len(data), 0)
    batches = list(read_part(pa.BufferReader(data), part, FileSettings(path="a.avro")))
    rows = [row for batch in batches if TYPED in batch.schema.names for row in batch[TYPED].to_pylist()]
    numbers = [n for batch in batches if TYPED in batch.schema.names for n in batch["file_row"].to_pylist()]
    assert numbers == list(range(1, len(rows) + 1))
    assert all('"int64"' in batch[SCHEMA][0].as_py() for batch in batches if TYPED in batch.schema.names)
    rejects = [batch[MALFORMED].to_pylist() for batch in batches if MALFORMED in batch.schema.names]
    return rows, [reason for reasons in rejects for reason in reasons]


@pytest.mark.parametrize("codec", ["null", "deflate", "bzip2", "xz"])
def test_the_rows_of_a_file_are_those_that_fastavro_wrote(codec: str) -> None:
    assert _read(_file(codec)) == (ROWS, [])


def test_a_block_of_zstandard_is_read() -> None:
    data = b"".join(encoded(SCHEMA_OF_ROWS, row) for row in ROWS[:10])
    assert _read(_by_hand(zstandard.compress(data), 10, "zstandard")) == (ROWS[:10], [])
    assert "cannot be read after row 0" in _read(_by_hand(b"xx", 1, "zstandard"))[1][0]


def test_a_snappy_block_has_a_checksum() -> None:
    data = b"".join(encoded(SCHEMA_OF_ROWS, row) for row in ROWS[:10])
    packed: bytes = pa.compress(data, codec="snappy", asbytes=True)
    checksum = zlib.crc32(data).to_bytes(4, "big")
    assert _read(_by_hand(packed + checksum, 10, "snappy")) == (ROWS[:10], [])
    assert "wrong checksum" in _read(_by_hand(packed + b"abcd", 10, "snappy"))[1][0]


@pytest.mark.parametrize("codec", ["null", "deflate"])
def test_a_damaged_file_yields_whole_rows_and_one_reject(codec: str) -> None:
    whole, chance = _file(codec), random.Random(1)
    for _ in range(60):
        data = bytearray(whole)
        at = chance.randrange(len(data))
        if chance.random() < 0.5:
            del data[at:]
        else:
            data[at] ^= 1 << chance.randrange(8)
        rows, reasons = _read(bytes(data))
        assert len(reasons) <= 1
        assert len(rows) <= len(ROWS)
        assert len(data) == len(whole) or rows == ROWS[: len(rows)]


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "ends early"),
        (b"PAR1", "does not begin with Obj1"),
        (_by_hand(b"", 0, "lz4"), "the unknown codec 'lz4'"),
        (_by_hand(b"", 0, schema="int"), "not records"),
        (_by_hand(b"\x02\x00\x00", 1), "1 bytes more"),
        (_by_hand(b"\x02", 1), "the value ends early"),
        (_by_hand(b"\x02\x00", 1)[:-1] + b"x", "the mark after a block is missing"),
        (_by_hand(b"xx", 1, "deflate"), "cannot be read after row 0"),
        (_by_hand(b"", 0)[:-18] + b"\x02\xfe\xff\xff\xff\x7f", "can be read"),
    ],
)
def test_a_file_that_cannot_be_read_says_why(data: bytes, reason: str) -> None:
    reasons = _read(data)[1]
    assert [reason in one for one in reasons] == [True], reasons

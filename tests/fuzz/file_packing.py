"""Packs texts as files, in members, and cuts them off; says what must come of each file."""

from __future__ import annotations

import gzip
import io
import itertools
import random
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import zstandard
from pyarrow import orc, parquet

from calve.sources.file.codec_settings import CodecSettings
from fuzz.csv_cases import csv_content
from fuzz.file_cases import Content, content

__all__ = ["Packed", "packed"]


_ORC_END_BYTES = 30
"""An ORC file that lacks less than this may still be whole for its reader."""


@dataclass(frozen=True)
class Packed:
    """A file.

    Attributes:
        suffix: The end of its name.
        data: Its bytes.
        codec: Its codec; None: that of its name.
        rows: The events that must come of it, in order.
        maybe: Events that may come after these, the first ones first: of the record in which the file ends.
        rejects: How few and how many texts are rejected.
        is_cut: Whether one reject must say that the file is cut off.
        is_partial: Whether the last event is of a record that was cut off, so that its last cell may be empty.
    """

    suffix: str
    data: bytes
    codec: CodecSettings | None
    rows: list[Any]
    maybe: list[Any]
    rejects: tuple[int, int]
    is_cut: bool = False
    is_partial: bool = False


def packed(rng: random.Random) -> Packed:
    """Return a random file."""
    if rng.random() < 0.05:
        return _typed(rng)
    text = csv_content(rng) if rng.random() < 0.4 else content(rng)
    compression = rng.choice(["", "", "gz", "gz", "zst"])
    if not compression:
        size = len(text.text)
        if rng.random() < 0.4:
            size = rng.randrange(text.uncut_bytes, size + 1)
            size -= (size - len(text.bom)) % text.unit_bytes
        return _plain(text, text.text[:size], text.suffix, text.text[:size])
    members = _members(rng, text.text, compression)
    suffix = f"{text.suffix}.{compression}"
    if rng.random() < 0.6:
        return _plain(text, text.text, suffix, b"".join(members))
    return _cut(rng, text, suffix, members, compression)


def _typed(rng: random.Random) -> Packed:
    """Return a Parquet or ORC file, which has nothing without its end."""
    rows = [{"id": rng.randrange(10**6), "s": rng.choice(["", "a\nb", "é", None])} for _ in range(rng.randrange(1, 30))]
    table = pa.Table.from_pylist(rows, pa.schema([("id", pa.int64()), ("s", pa.string())]))
    suffix, file = rng.choice(["parquet", "orc"]), io.BytesIO()
    if suffix == "parquet":
        parquet.write_table(table, file, row_group_size=7)
    else:
        orc.write_table(table, file)
    data = file.getvalue()
    if rng.random() < 0.5:
        return Packed(suffix, data, None, rows, [], (0, 0))
    return Packed(suffix, data[: rng.randrange(1, len(data) - _ORC_END_BYTES)], None, [], [], (1, 1))


def _members(rng: random.Random, data: bytes, compression: str) -> list[bytes]:
    pack = (lambda part: gzip.compress(part, 1, mtime=0)) if compression == "gz" else zstandard.compress
    places = sorted({0, len(data), *(rng.randrange(len(data) + 1) for _ in range(rng.choice([0, 0, 1, 3])))})
    parts = [data[start:end] for start, end in itertools.pairwise(places)] or [b""]
    return [pack(part) for part in parts]


def _whole(text: Content, size: int) -> tuple[int, int]:
    """Return how many pieces the first bytes of a text have, and where these end."""
    count, end = 0, len(text.bom)
    for piece in text.pieces:
        if end + len(piece.text) > size:
            break
        count, end = count + 1, end + len(piece.text)
    return count, end


def _plain(text: Content, data: bytes, suffix: str, file: bytes) -> Packed:
    """Return a file that is whole, or whose end nobody can know to be cut off."""
    count, end = _whole(text, len(data))
    rows = [row for piece in text.pieces[:count] for row in piece.rows]
    rejects = sum(piece.rejects for piece in text.pieces[:count])
    rest = data[end:]
    if len(data) < len(text.bom):
        return Packed(suffix, file, text.codec, [], [], (0, 1))
    if not rest:
        return Packed(suffix, file, text.codec, rows, [], (rejects, rejects))
    piece = text.pieces[count]
    is_whole = text.suffix == "json" and rest.strip() == piece.text.strip()
    partial = piece if is_whole else text.partial(rest)
    if partial is None:
        fewest = rejects + 1 - _continues(text, count)
        return Packed(suffix, file, text.codec, rows, piece.rows, (fewest, rejects + 1))
    total = rejects + partial.rejects
    return Packed(suffix, file, text.codec, [*rows, *partial.rows], [], (total, total), is_partial=bool(partial.rows))


def _continues(text: Content, count: int) -> bool:
    """Return whether the next piece may be a part of the last of so many, which then continues after its line."""
    return text.suffix == "json" and count > 0 and text.pieces[count - 1].text.endswith((b"[\n", b":\n"))


def _cut(rng: random.Random, text: Content, suffix: str, members: Sequence[bytes], compression: str) -> Packed:
    """Return a compressed file that is cut in the middle of a member."""
    at = rng.randrange(len(members))
    size = rng.randrange(1, len(members[at]))
    known = b"".join(_unpack(member, compression) for member in members[:at])
    if compression == "gz":
        known += zlib.decompressobj(wbits=31).decompress(members[at][:size])
    count, _ = _whole(text, len(known))
    pieces = text.pieces
    rows = [row for piece in pieces[:count] for row in piece.rows]
    maybe = [
        row for piece in (pieces[count:] if compression == "zst" else pieces[count : count + 1]) for row in piece.rows
    ]
    rejects = sum(piece.rejects for piece in pieces[:count])
    most = sum(piece.rejects for piece in pieces) if compression == "zst" else rejects
    if text.suffix == "json" and count < len(pieces) and known.endswith(pieces[count].text.rstrip()):
        most += pieces[count].rejects  # it has ended, although its line has not
    if count and text.suffix == "json":
        rejects -= pieces[count - 1].rejects  # nobody knows that it has ended, so it is a part of the last reject
    file = b"".join(members[:at]) + members[at][:size]
    return Packed(suffix, file, text.codec, rows, maybe, (rejects + 1, most + 1), is_cut=True)


def _unpack(member: bytes, compression: str) -> bytes:
    return (
        gzip.decompress(member)
        if compression == "gz"
        else zstandard.ZstdDecompressor().decompressobj().decompress(member)
    )

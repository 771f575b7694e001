"""Writes typed columns as JSON text, column by column; values stay exact."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Sequence
from decimal import Decimal
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from calve.arrays import text_buffers

__all__ = ["inferred_json", "plain_texts", "to_json", "unquoted", "value_texts"]

_BYTES = 256 << 20
"""Larger tables are divided, because the text of a column must stay below 2 GiB."""
_NULL = pa.scalar(b"null")
_SPECIAL = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}
_NUMBER = r"\A-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]{1,3})?\z"
_ESCAPED = [*b'\\"', *range(0x20)]


def to_json(table: pa.Table, decimals_as_strings: bool = False) -> pa.ChunkedArray:
    """Return each row of a table as the text of a JSON object (binary).

    Integers and decimals keep all their digits; decimals are numbers or strings. Dates and times are ISO 8601 with as
    many digits of a second as the value needs, with `Z` where the column has a time zone. Durations are ISO 8601
    (`PT1.5S`). Binary is Base64, a UUID its usual text. NaN and infinities, which JSON lacks, are strings. A map is an
    object; with nested keys it is an array of `[key, value]`. A text that is not UTF-8 stays as it is; its row is later
    rejected as malformed.
    """
    return _rows(table, partial(value_texts, decimals_as_strings=decimals_as_strings))


def inferred_json(table: pa.Table) -> pa.ChunkedArray:
    """Return each row of a table of strings as `to_json` does, but numbers and booleans as such."""
    return _rows(table, _inferred)


def _rows(table: pa.Table, write: Callable[[pa.Array], pa.Array]) -> pa.ChunkedArray:
    half = len(table) // 2
    if table.nbytes > _BYTES and half:
        return pa.chunked_array([*_rows(table[:half], write).chunks, *_rows(table[half:], write).chunks])
    texts = [write(_one_array(column)) for column in table.columns]
    return pa.chunked_array([_object(table.column_names, texts, len(table))], pa.binary())


def _inferred(column: pa.Array) -> pa.Array:
    is_number = pc.match_substring_regex(column, _NUMBER)
    texts = pc.if_else(pc.fill_null(is_number, False), column.cast(pa.binary()), value_texts(column))
    for word in ("true", "false"):
        is_word = pc.equal(pc.ascii_lower(column), word)
        texts = pc.if_else(pc.fill_null(is_word, False), pa.scalar(word.encode()), texts)
    return texts


def _one_array(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks or [pa.array([], column.type)])


def _object(names: Sequence[str], values: Sequence[pa.Array], count: int) -> pa.Array:
    """Return the texts of objects from the texts of their values."""
    if not values:
        return pa.repeat(pa.scalar(b"{}"), count)
    pieces: list[pa.Array | pa.Scalar] = []
    for index, (name, value) in enumerate(zip(names, values, strict=True)):
        start = f"{',' if index else '{'}{json.dumps(name, ensure_ascii=False)}:"
        pieces += [pa.scalar(start.encode()), value]
    return _joined(*pieces, pa.scalar(b"}"))


def value_texts(column: pa.Array, decimals_as_strings: bool = False) -> pa.Array:
    """Return the JSON text of each value (binary, no nulls)."""
    kind, write = column.type, partial(value_texts, decimals_as_strings=decimals_as_strings)
    if isinstance(kind, pa.BaseExtensionType):
        column = column.storage
        return _each(column, _uuid) if kind.extension_name == "arrow.uuid" else write(column)
    if pa.types.is_dictionary(kind):
        return write(column.dictionary_decode())
    if pa.types.is_run_end_encoded(kind):
        return write(pc.run_end_decode(column))
    if pa.types.is_null(kind):
        return pa.repeat(_NULL, len(column))
    text = _nested(column, write) if pa.types.is_nested(kind) else _scalar(column)
    text = _quoted(text) if decimals_as_strings and pa.types.is_decimal(kind) else text
    return pc.fill_null(text, _NULL)


def plain_texts(column: pa.Array) -> pa.Array:
    """Return the values as a column of strings has them (binary, with nulls)."""
    kind = column.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return column.cast(pa.binary())
    if pa.types.is_dictionary(kind):
        return plain_texts(column.dictionary_decode())
    texts = value_texts(column)  # only strings have escapes
    if not (pa.types.is_nested(kind) or pa.types.is_integer(kind) or pa.types.is_decimal(kind)):
        texts = pc.replace_substring_regex(texts, b'^"(.*)"$', rb"\1")
    return pc.if_else(column.is_valid(), texts, pa.scalar(None, pa.binary()))


def unquoted(text: str) -> str:
    """Return the JSON text of a value for people: a string without quotes, a null as `NULL`."""
    return "NULL" if text == "null" else str(json.loads(text)) if text.startswith('"') else text


def _nested(column: pa.Array, write: Callable[[pa.Array], pa.Array]) -> pa.Array:
    kind = column.type
    if pa.types.is_struct(kind):
        text = _object([field.name for field in kind], [write(inner) for inner in column.flatten()], len(column))
        return pc.if_else(column.is_valid(), text, pa.scalar(None, pa.binary()))
    if pa.types.is_map(kind):
        start, end = column.offsets[0].as_py(), column.offsets[-1].as_py()
        as_pairs = pa.types.is_nested(kind.key_type)
        first, between, last = (b"[", b",", b"]") if as_pairs else (b"", b":", b"")
        keys, values = write(column.keys[start:end]), write(column.items[start:end])
        keys = keys if as_pairs else _as_strings(keys)
        texts = _joined(pa.scalar(first), keys, pa.scalar(between), values, pa.scalar(last))
        return _listed(column, pc.subtract(column.offsets, start), texts, b"[]" if as_pairs else b"{}")
    lengths = pc.fill_null(pc.list_value_length(column), 0).to_numpy()
    offsets = pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int32())
    return _listed(column, offsets, write(pc.list_flatten(column)), b"[]")


def _listed(column: pa.Array, offsets: pa.Array, texts: pa.Array, brackets: bytes) -> pa.Array:
    """Join the texts of the elements of each list."""
    lists = pa.ListArray.from_arrays(offsets, texts)
    start, end = pa.scalar(brackets[:1]), pa.scalar(brackets[1:])
    joined = _joined(start, pc.binary_join(lists, pa.scalar(b",")), end)
    return pc.if_else(column.is_valid(), joined, pa.scalar(None, pa.binary()))


def _as_strings(texts: pa.Array) -> pa.Array:
    """Return the texts of a map's keys as JSON strings."""
    bare = pc.invert(pc.starts_with(texts, b'"'))
    return pc.if_else(bare, _joined(pa.scalar(b'"'), texts, pa.scalar(b'"')), texts)


def _scalar(column: pa.Array) -> pa.Array:
    """Return the JSON text of each value that is not null."""
    kind = column.type
    if pa.types.is_boolean(kind) or pa.types.is_integer(kind):
        return column.cast(pa.string()).cast(pa.binary())
    if pa.types.is_floating(kind):
        return _floats(column)
    if pa.types.is_decimal(kind):
        return _decimals(column)
    if pa.types.is_duration(kind):
        return _each(column.cast(pa.int64()), _duration(kind.unit))
    if pa.types.is_temporal(kind) and not pa.types.is_interval(kind):
        return _quoted(_temporal(column).cast(pa.binary()))
    if any(test(kind) for test in (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)):
        return _quoted(_escaped(column.cast(pa.binary())))
    return _each(column.cast(pa.binary()), base64.b64encode)


def _floats(column: pa.Array) -> pa.Array:
    texts = column.cast(pa.string())
    if not pc.all(pc.is_finite(column)).as_py():
        for number, word in _SPECIAL.items():
            texts = pc.if_else(pc.equal(texts, number), f'"{word}"', texts)
    if not pa.types.is_float64(column.type):  # its shortest text may be another whole number: 257851860 for 257851856
        exact = column.cast(pa.float64()).cast(pa.string())
        texts = pc.if_else(pc.match_substring_regex(texts, r"^-?[0-9]{8,}$"), exact, texts)
    return pc.replace_substring_regex(texts, r"^(-?[0-9]+)$", r"\1.0").cast(pa.binary())


def _decimals(column: pa.Array) -> pa.Array:
    """Write decimals with all their digits; Arrow writes small ones, and those of a negative scale, as `0E-10`."""
    texts = column.cast(pa.string())
    short = pc.fill_null(pc.match_substring(texts, "E"), False)
    if pc.any(short).as_py():
        plain = [f"{Decimal(text):f}" for text in texts.filter(short).to_pylist()]
        texts = pc.replace_with_mask(texts, short, pa.array(plain, pa.string()))
    return texts.cast(pa.binary())


def _temporal(column: pa.Array) -> pa.Array:
    kind = column.type
    if pa.types.is_date(kind):
        return column.cast(pa.date32(), safe=False).cast(pa.string())
    zone = pa.types.is_timestamp(kind) and kind.tz
    texts = (column.cast(pa.timestamp(kind.unit)) if zone else column).cast(pa.string())
    if kind.unit != "s":
        texts = pc.ascii_rtrim(pc.ascii_rtrim(texts, "0"), ".")
    texts = pc.replace_substring(texts, " ", "T") if pa.types.is_timestamp(kind) else texts
    return pc.binary_join_element_wise(texts, "Z", "") if zone else texts


def _duration(unit: str) -> Callable[[int], bytes]:
    digits = {"s": 0, "ms": 3, "us": 6, "ns": 9}[unit]

    def text(value: int) -> bytes:
        seconds, rest = divmod(abs(value), 10**digits)
        fraction = f".{rest:0{digits}d}".rstrip("0") if rest else ""
        return f"PT{'-' * (value < 0)}{seconds}{fraction}S".encode()

    return text


def _uuid(value: bytes) -> bytes:
    digits = value.hex()
    return "-".join([digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]]).encode()


def _each(column: pa.Array, text: Callable[[Any], bytes]) -> pa.Array:
    """Write values one by one as strings that need no escapes."""
    texts = pa.array([None if value is None else text(value) for value in column.to_pylist()], pa.binary())
    return pc.fill_null(_quoted(texts), _NULL)


def _escaped(texts: pa.Array) -> pa.Array:
    """Escape the characters that JSON does not allow in a string; absent characters cost nothing."""
    offsets, data = text_buffers(texts)
    counts = np.bincount(np.frombuffer(data[offsets[0] : offsets[-1]], np.uint8), minlength=256)
    for code in _ESCAPED:
        if counts[code]:
            texts = pc.replace_substring(texts, bytes([code]), json.dumps(chr(code))[1:-1].encode())
    return texts


def _quoted(texts: pa.Array) -> pa.Array:
    return _joined(pa.scalar(b'"'), texts, pa.scalar(b'"'))


def _joined(*pieces: pa.Array | pa.Scalar) -> pa.Array:
    return pc.binary_join_element_wise(*pieces, pa.scalar(b""))

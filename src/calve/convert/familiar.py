"""Which events tell nothing new about fields that were seen before: a proof that is far cheaper than looking anew.

An event is familiar when each of its fields has been seen, is there once and not null, and its value is of a kind that
joins into the known one without changing it. Whatever is not proven here is not new: it is looked at in full.
"""

from __future__ import annotations

import json

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from calve.convert.digits import long_numbers, with_extreme_exponents
from calve.convert.fields import ALL_FIELDS, Fields
from calve.convert.kinds import MICROSECONDS, TIMESTAMP
from calve.convert.node import Kind, Node, join
from calve.convert.select import distinct, literal
from calve.convert.stamps import read_stamps
from calve.convert.structure import from_structure
from calve.event import duck
from calve.event.columns import JSON
from calve.event.scan import Texts

__all__ = ["familiar"]

_Mask = npt.NDArray[np.bool_]
_SURE_DIGITS, _MOST_DIGITS = 15, 18  # of whole numbers: that every double keeps, that 64 bits do
_MOST_FIELDS = 100  # of one struct: every row costs something for each of them, whether it has it or not


def familiar(texts: pa.Array, known: Node, fields: Fields = ALL_FIELDS) -> _Mask:
    """Say of JSON texts whether joining them into a known struct certainly changes nothing.

    Args:
        texts: No nulls; read leniently by DuckDB, so that rows `Texts.lenient` names, or with numbers whose digits are
            lost (`digits.long_numbers`), must not be believed.
        known: A struct.
        fields: The fields that count; all that are known do.
    """
    names = list(known.fields)
    if not distinct(names) or not 0 < len(names) <= _MOST_FIELDS or not len(texts):
        return np.zeros(len(texts), bool)
    try:
        leaves = _leaves(texts, known)
        proven, found = _start(texts, b"{"), np.zeros(len(texts), np.int32)
        for leaf, node in zip(leaves, known.fields.values(), strict=True):
            present = leaf.is_valid().to_numpy(zero_copy_only=False)
            found += present
            proven &= ~present | _adds_nothing(leaf, node)
            if node.kind is Kind.DOUBLE:
                proven &= ~_may_be_tiny(leaf, texts)
        scan = Texts(texts)
        if int(found.sum()) != scan.count_colons():
            odd = np.flatnonzero(proven & (found != scan.colons_by_row()))
            proven[odd] = found[odd] == _count_fields(texts.take(pa.array(odd)), fields)
    except duckdb.InvalidInputException:
        return np.zeros(len(texts), bool)
    return proven


def _leaves(texts: pa.Array, known: Node) -> list[pa.Array]:
    """Give the fields' values, each as JSON, or raw where the kind does not matter."""
    spec = {name: "VARCHAR" if node.kind is Kind.MIXED else "JSON" for name, node in known.fields.items()}
    columns = [f"CAST(struct_extract(s, {literal(name)}) AS VARCHAR) AS c{i}" for i, name in enumerate(spec)]
    source = f"SELECT json_transform(json, {literal(json.dumps(spec))}) AS s FROM events"
    found = duck.run(f"SELECT {', '.join(columns)} FROM ({source})", events=pa.table({JSON: texts}))
    return [duck.whole(column) for column in found.columns]


def _count_fields(texts: pa.Array, fields: Fields) -> npt.NDArray[np.int64]:
    if not len(texts):
        return np.zeros(0, np.int64)
    keys = "json_keys(json)"
    for names, kept in ((fields.include, ""), (fields.exclude, "NOT ")):
        if names:
            listed = f"json_transform({literal(json.dumps(sorted(names)))}, '[\"VARCHAR\"]')"
            keys = f"list_filter({keys}, lambda k: {kept}list_contains({listed}, k))"
    found = duck.run(f"SELECT len({keys}) AS n FROM events", events=pa.table({JSON: texts}))
    count: npt.NDArray[np.int64] = duck.whole(found["n"]).to_numpy(zero_copy_only=False)
    return count


def _adds_nothing(leaf: pa.Array, node: Node) -> _Mask:
    match node.kind:
        case Kind.MIXED:
            return np.ones(len(leaf), bool)
        case Kind.STRING:
            return _start(leaf, b'"')
        case Kind.MOMENT | Kind.NANOS:
            return _start(leaf, b'"') & _moments(leaf, node.kind)
        case Kind.BOOLEAN:
            return _start(leaf, b"tf")
        case Kind.DIGITS:
            return _start(leaf, b"-0123456789")
        case Kind.DOUBLE:
            return _start(leaf, b"-0123456789") & (_has_fraction(leaf) | _survives_double(leaf))
        case Kind.WIDE_LONG:
            return _start(leaf, b"-0123456789") & ~_has_fraction(leaf)
        case Kind.LONG:
            return _start(leaf, b"-0123456789") & ~_has_fraction(leaf) & _survives_double(leaf)
        case Kind.STRUCT | Kind.LIST:
            return _nested(leaf, node)
    return np.zeros(len(leaf), bool)


def _start(texts: pa.Array, characters: bytes) -> _Mask:
    """Say which texts start with one of these characters."""
    ends, data = _buffers(texts)
    filled = ends[1:] > ends[:-1]
    table = np.zeros(256, bool)
    table[list(characters)] = True
    if filled.all():
        return table[data[ends[:-1]]]
    filled[filled] = table[data[ends[:-1][filled]]]
    return filled


def _has_fraction(numbers: pa.Array) -> _Mask:
    ends, data = _buffers(numbers)
    data = data[ends[0] : ends[-1]]
    at = np.flatnonzero((data == ord(".")) | ((data | 32) == ord("e")))
    mask = np.zeros(len(numbers), bool)
    mask[np.searchsorted(ends, at + ends[0], side="right") - 1] = True
    return mask


def _survives_double(numbers: pa.Array) -> _Mask:
    """Say which whole numbers a double certainly keeps."""
    lengths = np.diff(_buffers(numbers)[0])
    mask: _Mask = lengths <= _SURE_DIGITS
    if not mask.all() and len(at := np.flatnonzero(~mask & (lengths <= _MOST_DIGITS) & ~_has_fraction(numbers))):
        values = numbers.take(pa.array(at)).cast(pa.int64()).to_numpy()
        mask[at] = values.astype(np.float64).astype(np.int64) == values
    return mask


def _may_be_tiny(numbers: pa.Array, texts: pa.Array) -> _Mask:
    """Say which numbers may have been others that DuckDB made zero, or are so small that digits were lost."""
    tiny = pc.or_(pc.is_in(numbers, pa.array(["0.0", "-0.0"], numbers.type)), pc.match_substring(numbers, "e-3"))
    mask: _Mask = tiny.fill_null(False).to_numpy(zero_copy_only=False).copy()
    at = np.flatnonzero(mask)
    mask[at] = with_extreme_exponents(texts.take(pa.array(at)))
    return mask


def _moments(leaf: pa.Array, kind: Kind) -> _Mask:
    proven: _Mask = read_stamps(leaf, 6)[1]
    rest = np.flatnonzero(~proven)
    pattern = MICROSECONDS if kind is Kind.MOMENT else TIMESTAMP
    found = pc.match_substring_regex(leaf.take(pa.array(rest)), f'^"{pattern}"$').fill_null(False)
    proven[rest] = found.to_numpy(zero_copy_only=False)
    return proven


def _buffers(texts: pa.Array) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint8]]:
    _, offsets, data = texts.buffers()
    kind = np.int64 if pa.types.is_large_string(texts.type) else np.int32
    ends = np.frombuffer(offsets, kind)[texts.offset : texts.offset + len(texts) + 1]
    return ends.astype(np.int64, copy=False), np.frombuffer(data or b"", np.uint8)


def _nested(leaf: pa.Array, node: Node) -> _Mask:
    proven = np.zeros(len(leaf), bool)
    at = np.flatnonzero(_start(leaf, b"{" if node.kind is Kind.STRUCT else b"["))
    texts = leaf.take(pa.array(at))
    proven[at] = familiar(texts, node) if node.kind is Kind.STRUCT else _same_lists(texts, node)
    return proven


def _same_lists(texts: pa.Array, node: Node) -> _Mask:
    proven = np.zeros(len(texts), bool)
    if not len(texts):
        return proven
    events = pa.table({JSON: texts, "row": pa.array(np.arange(len(texts)))})
    sql = "SELECT json_structure(json)::VARCHAR AS shape, list(row) AS rows FROM events GROUP BY shape"
    groups = duck.run(sql, events=events)
    for shape, rows in zip(groups["shape"].to_pylist(), groups["rows"], strict=True):
        if '"JSON"' not in shape and join(node, from_structure(json.loads(shape))) == node:
            proven[rows.values.to_numpy()] = True
    proven[long_numbers(texts, Texts(texts)).wide] = False
    return proven & ~with_extreme_exponents(texts)

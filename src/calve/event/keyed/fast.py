"""Adds keys to rows column by column, where texts alone decide; `exact` does it for all other records."""

from __future__ import annotations

import json
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from calve.compiled import events as core
from calve.event.envelope.schema import Field
from calve.event.json_text import value_texts
from calve.event.keyed.exact import NUMBERS, RecordKey
from calve.event.validate_json import picked_array

__all__ = ["KeyForm", "merged"]

_EMPTY, _COMMA, _END = (pa.scalar(text, pa.binary()) for text in (b"{}", b",", b"}"))
_LAST = 2**31 - 1
"""The end of any text; without an end Arrow 26 takes short texts for negative ones."""
_NULL = pa.scalar(None, pa.binary())


class KeyForm(NamedTuple):
    """What the keys of records have in common.

    Attributes:
        key: One of them.
        declared: The schema that it was decoded by, or None.
        is_single: Whether it is a single value.
    """

    key: RecordKey
    declared: Field | None
    is_single: bool


def merged(values: pa.Array, keys: pa.Array, form: KeyForm) -> pa.Array | None:
    """Return the rows of records with the columns of their keys; null where only the exact way knows. None: everywhere.

    Args:
        values: The rows (binary); null: the record has no value.
        keys: The keys (string).
        form: What keys probably are.
    """
    names = list(form.key.row)
    texts = _single(keys, names[0], form.declared) if form.is_single else _objects(keys, names)
    own = None if texts is None else _picked(values, names)
    if texts is None or own is None:
        return None
    has_key = pc.fill_null(pc.equal(own, texts), False)
    if form.is_single and form.declared is None:  # the text of a number
        has_key = pc.or_(has_key, pc.fill_null(pc.equal(own, _wrapped(names[0], keys.cast(pa.binary()))), False))
    lacks = pc.and_(pc.fill_null(pc.equal(own, _EMPTY), False), pc.fill_null(pc.starts_with(values, '{"'), False))
    starts, ends = pc.binary_slice(texts, 0, -1), pc.binary_slice(values, 1, _LAST)
    joined = pc.if_else(lacks, pc.binary_join_element_wise(starts, _COMMA, ends, b""), _NULL)
    rows = pc.if_else(values.is_null(), texts, pc.if_else(has_key, values, joined))
    return pc.if_else(texts.is_valid(), rows, _NULL)


def _picked(events: pa.Array, names: list[str]) -> pa.Array | None:
    """Return these fields of each object as compact JSON (binary); null for anything else. None without the core."""
    picked = core.pick(events, names)
    if picked is None:
        return None
    return picked_array(*picked).dictionary_decode().cast(pa.large_binary()).cast(pa.binary())


def _objects(keys: pa.Array, names: list[str]) -> pa.Array | None:
    """Return the keys that are objects of these fields, as compact JSON, all of single values."""
    texts, own = keys.cast(pa.binary()), _picked(keys, names)
    if own is None:
        return None
    is_usual = pc.and_(pc.equal(own, texts), pc.equal(pc.count_substring_regex(keys, r"[\[{]"), 1))
    for name in names:
        is_usual = pc.and_(is_usual, pc.not_equal(_picked(keys, [name]), _EMPTY))
    return pc.if_else(pc.fill_null(is_usual, False), texts, _NULL)


def _single(keys: pa.Array, name: str, declared: Field | None) -> pa.Array | None:
    """Return the keys that are single values as objects with one field."""
    if declared is None:
        is_object = pc.match_substring_regex(keys, r"\A[ \t\r\n]*\{")
        keys = pc.if_else(pc.fill_null(is_object, False), None, keys)
    elif declared.kind in NUMBERS:
        return _wrapped(name, keys.cast(pa.binary()))
    elif declared.kind != "string" or declared.logical:
        return None
    return _wrapped(name, pc.if_else(keys.is_null(), _NULL, value_texts(keys)))


def _wrapped(name: str, texts: pa.Array) -> pa.Array:
    return pc.binary_join_element_wise(f"{{{json.dumps(name, ensure_ascii=False)}:".encode(), texts, _END, b"")

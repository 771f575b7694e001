"""A column that is masked in one step has the values that each of its values has by itself."""

from __future__ import annotations

from typing import Any
from unittest import mock

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calve.event.json_text import plain_texts
from calve.processors.column_masking import ColumnMasking
from calve.processors.mask import ColumnMask, MaskColumns
from kit.examples import examples

TEXTS = st.text(st.characters(codec="utf-8"), max_size=9)
LONG = st.integers(-(2**63), 2**63 - 1)
UNIX = st.one_of(LONG, st.integers(-(10**11), 3 * 10**11), st.integers(-(10**17), 3 * 10**17))
COLUMNS: list[tuple[pa.DataType, st.SearchStrategy[Any]]] = [
    (pa.string(), TEXTS),
    (pa.int64(), LONG),
    (pa.decimal128(20, 3), st.decimals(-(10**9), 10**9, places=3)),
    (pa.bool_(), st.booleans()),
    (pa.float64(), st.floats()),
    (pa.list_(pa.string()), st.lists(TEXTS, max_size=2)),
    (pa.struct([("a", pa.string()), ("b", pa.int32())]), st.fixed_dictionaries({"a": TEXTS, "b": st.integers(0, 9)})),
    (pa.date32(), st.integers(-(2**31), 2**31 - 1) | st.integers(-800_000, 3_000_000)),
    *((pa.timestamp(unit, zone), UNIX) for unit in ("s", "ms", "us", "ns") for zone in (None, "UTC", "Europe/Berlin")),
]
ENTRIES = [
    *(ColumnMask(names=["a"], action=action) for action in ("hash", "fixed", "format", "year", "month", "round")),
    *(ColumnMask(names=["a"], action="format", keep_first=first, keep_last=2, character="é") for first in (0, 1)),
]


def column_of(kind: pa.DataType, values: list[Any]) -> pa.Array:
    is_time = pa.types.is_date32(kind) or pa.types.is_timestamp(kind)
    return pa.array(values, f"int{kind.bit_width}").view(kind) if is_time else pa.array(values, kind)


def outcome(masking: ColumnMasking, column: pa.Array) -> tuple[Any, ...]:
    try:
        masked, reasons = masking.column(column)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return ("by text",)
    masked.validate(full=True)
    is_time = pa.types.is_date32(masked.type) or pa.types.is_timestamp(masked.type)
    return masked.type, (masked.view(f"int{masked.type.bit_width}") if is_time else masked).to_pylist(), reasons


@settings(max_examples=examples(150), deadline=None)
@given(st.data(), st.sampled_from(COLUMNS), st.sampled_from(ENTRIES), st.sampled_from(["hex", "base64"]))
def test_one_step_gives_what_each_value_has_by_itself(
    data: st.DataObject, kind: tuple[pa.DataType, st.SearchStrategy[Any]], entry: ColumnMask, encoding: Any
) -> None:
    column = column_of(kind[0], data.draw(st.lists(st.none() | kind[1], max_size=12)))[data.draw(st.integers(0, 2)) :]
    masking = ColumnMasking(entry, MaskColumns(columns=[entry], key="0123456789abcdef", encoding=encoding))
    at_once = outcome(masking, column)
    with mock.patch.object(ColumnMasking, "_at_once", return_value=None):
        one_by_one = outcome(masking, column)
    assert at_once == one_by_one or (entry.action, one_by_one) == ("fixed", ("by text",))


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_the_first_time_of_a_unit_does_not_wrap_around(unit: str) -> None:
    entry = ColumnMask(names=["a"], action="year")
    column = pa.array([-(2**63), 0]).view(pa.timestamp(unit))
    with mock.patch.object(ColumnMasking, "_at_once", return_value=None):
        by_one = outcome(ColumnMasking(entry, MaskColumns(columns=[entry])), column)
    assert outcome(ColumnMasking(entry, MaskColumns(columns=[entry])), column) == by_one


@pytest.mark.parametrize("action", ["hash", "format"])
def test_a_text_that_is_no_utf8_is_told_and_the_others_are_masked(action: Any) -> None:
    broken = pa.Array.from_buffers(pa.string(), 2, pa.array([b"a", b"\xff"], pa.binary()).buffers())
    entry = ColumnMask(names=["a"], action=action)
    masked, reasons = ColumnMasking(entry, MaskColumns(columns=[entry], key="0123456789abcdef")).column(broken)
    assert (masked[0].is_valid, masked[1].as_py(), reasons) == (True, None, {1: "it is no UTF-8"})
    assert plain_texts(broken).to_pylist() == [b"a", b"\xff"]

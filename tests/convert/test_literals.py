"""Texts of a column become numbers and booleans as the exact converter reads them, or are not proven."""

from __future__ import annotations

import re

import numpy as np
import pyarrow as pa
import pytest
from pyiceberg import types as iceberg

from calve.convert.literals import read_booleans, read_doubles, read_integers
from calve.convert.scalar import MismatchError, reader
from calve.event.strict import Number

TEXTS = [
    None, "", "0", "-0", "7", "-7", "-", "--7", "1-2", "-1-2", "+5", "007", "12.0", "12.7", "1e3", "1000.0", "1_000", "0x10",
    " 12", "12 ", "true", "false", "True", "yes", "2147483647", "2147483648", "-2147483648", "-2147483649",
    "9223372036854775807", "9223372036854775808", "-9223372036854775808", "-9223372036854775809", "0" * 30 + "5", "nan",
    "-nan", "inf", "-inf", "Infinity", "1e400", "-1e400", "1e-400", "3.5e38", "0.1", "-0.0", "{}", "[1]", "١٢", '"12"',
]  # fmt: skip

JSON_TEXT = re.compile(
    r'-?(0|[1-9][0-9]*)([.][0-9]+)?([eE][+-]?[0-9]+)?|true|false|-?nan|-?inf|Infinity|[{}1\[\]"]+'
).fullmatch


def exact(kind: iceberg.IcebergType, text: str):
    try:
        return reader(kind)(Number(text))
    except (MismatchError, ValueError):
        return None


def proves(kind: iceberg.IcebergType, column: pa.Array, read) -> int:
    values, proven = read(column)
    for text, value, sure in zip(column.to_pylist(), values.to_pylist(), proven.tolist(), strict=True):
        wanted = None if text is None else exact(kind, text)
        assert not sure or (text is None) == (wanted is None), text
        assert not sure or repr(value) == repr(None if text is None else wanted), text
    return int(np.count_nonzero(proven))


@pytest.mark.parametrize("cut", [0, 1, 5])
@pytest.mark.parametrize(("kind", "arrow"), [(iceberg.IntegerType(), pa.int32()), (iceberg.LongType(), pa.int64())])
def test_integers_are_what_the_exact_converter_makes_of_them(kind, arrow, cut):
    together = pa.array(TEXTS, pa.large_string()).slice(cut)
    assert proves(kind, together, lambda texts: read_integers(texts, arrow)) >= 4
    for text, count in [("0", 1), ("7", 1), ("-7", 1), ("2147483647", 1), ("12.7", 0), ("", 0), ("-", 0)]:
        column = pa.array([text, None], pa.large_string())
        assert proves(kind, column, lambda texts: read_integers(texts, arrow)) == 1 + count


def test_a_number_that_is_too_large_does_not_spoil_the_others():
    column = pa.array(["1", "9223372036854775808", "-5"], pa.large_string())
    assert read_integers(column, pa.int64())[1].tolist() == [True, False, True]
    column = pa.array(["1", "1e400", "0.5"], pa.large_string())
    assert read_doubles(column, pa.float64(), column.take)[1].tolist() == [True, False, True]


@pytest.mark.parametrize("cut", [0, 1, 5])
def test_doubles_are_what_the_exact_converter_makes_of_them(cut):
    texts = [text for text in TEXTS if text is None or JSON_TEXT(text)]
    column = pa.array(texts, pa.large_string()).slice(cut)
    events = pa.array([f'{{"d":{text}}}' for text in texts]).slice(cut)
    assert proves(iceberg.DoubleType(), column, lambda found: read_doubles(found, pa.float64(), events.take)) >= 8


def test_a_zero_is_proven_where_the_event_has_no_minus_zero():
    column = pa.array(["0", "0", "0.0"], pa.large_string())
    events = pa.array(['{"d":0}', '{"d":-0}', '{"d":0.0,"n":-0}'])
    assert read_doubles(column, pa.float64(), events.take)[1].tolist() == [True, False, True]


def test_what_is_too_large_for_a_float_is_not_proven():
    values, proven = read_doubles(pa.array(["1.5", "3.5e38"], pa.large_string()), pa.float32(), pa.array(["", ""]).take)
    assert values.type == pa.float32()
    assert proven.tolist() == [True, False]


def test_only_true_and_false_are_booleans():
    values, proven = read_booleans(pa.array(["true", "false", None, "True", "1", "yes", ""], pa.large_string()))
    assert proven.tolist() == [True, True, True, False, False, False, False]
    assert values.to_pylist()[:3] == [True, False, None]

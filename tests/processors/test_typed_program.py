"""Typed rows that are processed by their columns are what their texts would be, for random chains and values."""

from __future__ import annotations

import datetime
import json
from decimal import Decimal
from typing import Any
from unittest import mock

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calve.event.columns import ORIGINAL, SCHEMA, TYPED
from calve.event.dead_letter import letters
from calve.event.reject import Code, Reject, rejects_table
from calve.event.typed import is_typed, with_decimals_as_strings, with_text
from calve.event.typed_schema import declaration
from calve.processors.chain import Processed
from calve.processors.typed_program import TypedProgram
from kit.examples import examples
from processors.chains import chain
from processors.test_effects import processors

TEXTS = st.text(st.sampled_from(" \t\0\n aBß\u0130\u01c5é\u2003\u00a0"), max_size=5) | st.text(max_size=4)
KINDS: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "id": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "n": (pa.int32(), st.integers(-(2**31), 2**31 - 1)),
    "s": (pa.string(), TEXTS),
    "day": (pa.date32(), st.dates(datetime.date(1000, 1, 1))),
    "f": (pa.float64(), st.floats(allow_nan=False, allow_infinity=False)),
    "x": (pa.decimal128(20, 3), st.decimals(-(10**9), 10**9, places=3)),
}
MORE = st.one_of(
    st.builds(
        lambda key, kind: {"convert_type": {"key": key, "type": kind}},
        st.sampled_from([*KINDS, "y"]),
        st.sampled_from(["integer", "long", "double", "boolean", "string"]),
    ),
    st.builds(lambda key: {"trim_string": {"with_keys": [key]}}, st.sampled_from([*KINDS, "y"])),
    st.builds(lambda key: {"uppercase_string": {"with_keys": [key]}}, st.sampled_from(["s", "y"])),
    st.builds(
        lambda key: {"add_entries": {"entries": [{"key": key, "value_expression": "/s"}]}}, st.sampled_from(["s", "y"])
    ),
)


def typed(values: dict[str, list[Any]]) -> pa.Table:
    table = pa.table({name: pa.array(values[name], kind) for name, (kind, _) in KINDS.items()})
    declared = pa.array([declaration(table.schema)] * len(table)).dictionary_encode()
    return pa.table({TYPED: with_decimals_as_strings(table.to_struct_array().combine_chunks()), SCHEMA: declared})


def outcome(processed: Processed) -> tuple[Any, ...]:
    rows = processed.rows
    written = with_text(rows)
    texts = [json.loads(text, parse_float=Decimal) for text in written["event"].to_pylist()]
    failed = [(reject["row"], reject["code"]) for reject in processed.failed.to_pylist()]
    return texts, rows[SCHEMA].to_pylist(), written[ORIGINAL].to_pylist(), failed, processed.dropped


@settings(max_examples=examples(100), deadline=None)
@given(st.data(), st.lists(processors | MORE, min_size=1, max_size=5))
def test_columns_give_what_texts_give(data: st.DataObject, chosen: list[dict[str, Any]]) -> None:
    size = data.draw(st.integers(1, 4))
    rows = typed(
        {
            name: data.draw(st.lists(st.none() | values, min_size=size, max_size=size))
            for name, (_, values) in KINDS.items()
        }
    )
    by_column = chain(*chosen).run(rows)
    with mock.patch.object(TypedProgram, "run", return_value=None):
        assert outcome(by_column) == outcome(chain(*chosen).run(rows))


FIVE = [
    {"add_entries": {"entries": [{"key": "env", "value": "prod"}]}},
    {"rename_keys": {"entries": [{"from_key": "n", "to_key": "number"}]}},
    {"delete_entries": {"with_keys": ["day"]}},
    {"lowercase_string": {"with_keys": ["s"]}},
    {"convert_type": {"key": "id", "type": "long"}},
]
ROW: dict[str, Any] = {"id": 1, "n": 2, "s": "É", "day": None, "f": 0.5, "x": Decimal("1.500")}


def test_five_cheap_processors_make_no_text_and_a_dead_letter_has_the_row_as_it_came() -> None:
    rows = typed({name: [value] for name, value in ROW.items()})
    processed = chain(*FIVE).run(rows).rows
    assert is_typed(processed)
    assert processed[TYPED].to_pylist() == [
        {"id": 1, "s": "é", "f": 0.5, "x": Decimal("1.500"), "env": "prod", "number": 2}
    ]
    [letter] = letters(processed, rejects_table([Reject(0, Code.NOT_COERCIBLE, "s", "no")]), {})
    assert json.loads(letter["event"]) == {**ROW, "x": "1.500"}


@pytest.mark.parametrize("name", ["trim_string", "lowercase_string"])
def test_a_text_that_is_no_utf8_makes_its_row_alone_malformed(name: str) -> None:
    texts = pa.Array.from_buffers(pa.string(), 2, pa.array([b" A ", b"\xff"], pa.binary()).buffers())
    table = pa.table({"s": texts})
    declared = pa.array([declaration(table.schema)] * 2).dictionary_encode()
    rows = pa.table({TYPED: table.to_struct_array().combine_chunks(), SCHEMA: declared})
    processed = chain({name: {"with_keys": ["s"]}}).run(rows)
    assert (len(processed.rows), processed.malformed["row"].to_pylist()) == (1, [1])


@pytest.mark.parametrize(
    "processor",
    [
        {"drop_events": {"drop_when": "/n == 2"}},
        {"convert_type": {"key": "s", "type": "long"}},
        {"convert_type": {"key": "x", "type": "string"}},
        {"uppercase_string": {"with_keys": ["n"]}},
        {"truncate": {"entries": [{"source_keys": ["s"], "length": 1}]}},
    ],
)
def test_what_columns_do_not_tell_is_left_to_the_texts(processor: dict[str, Any]) -> None:
    assert not is_typed(chain(processor).run(typed({name: [value] for name, value in ROW.items()})).rows)

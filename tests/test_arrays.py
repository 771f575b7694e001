"""Arrow's texts, as bytes and offsets and back."""

from __future__ import annotations

import itertools

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calve.arrays import pack_texts, text_buffers


@given(st.lists(st.binary(max_size=5)), st.integers(0, 5), st.integers(0, 5))
def test_the_bytes_between_two_offsets_are_a_text_in_a_part_of_an_array_too(texts: list[bytes], start: int, less: int):
    for kind in (pa.binary(), pa.large_binary()):
        part = pa.array(texts, kind)[start : max(start, len(texts) - less)]
        offsets, data = text_buffers(part)
        assert [bytes(data[one:other]) for one, other in itertools.pairwise(offsets)] == part.to_pylist()
        if kind == pa.binary():
            assert pack_texts(offsets - offsets[0], bytes(data[offsets[0] : offsets[-1]])).equals(part)


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()])
def test_strings_are_texts_and_none_has_one_offset(kind: pa.DataType):
    offsets, data = text_buffers(pa.array(["a", None, "bc"], kind))
    assert (offsets.tolist(), bytes(data[:3])) == ([0, 1, 1, 3], b"abc")
    for empty in (pa.array([], kind), pa.array(["x"], kind)[1:]):
        offsets, _ = text_buffers(empty)
        assert len(offsets) == 1


def test_no_texts_are_packed_from_one_offset():
    assert pack_texts(np.zeros(1, np.int32), b"").to_pylist() == []

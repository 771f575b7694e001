"""What is said of the ends of many texts is what each of them shows by itself."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

from calve.event.scan import Texts

ENDS = ["", "{", "}", "{}", " {}\n", "{1}", "{1,}", "{1 }", "[1]", "{1", "1}", '{"a":"\u00e9"}', "x" * 40]


@pytest.mark.parametrize("count", [0, 1, 2, 50, 5000])
def test_the_ends_of_a_text_are_its_own(count):
    texts = random.Random(count).choices(ENDS, k=count + 3)
    scan = Texts(pa.array(texts, pa.string()).slice(3))
    closed = [text[:1] in ("{", " ") and text[-1:] in ("}", "\n") for text in texts[3:]]
    odd = [row for row, text in enumerate(texts[3:]) if not (text[1:].endswith("}") and text[-2] not in " ,")]
    assert scan.closed().tolist() == closed
    assert scan.odd_ends().tolist() == odd

import csv
import io
import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from calve.sources.file.delimited import read_csv
from calve.sources.file.rows import Rows
from calve.sources.file.settings import CsvCodec
from sources.file.texts import Pieces, events, table

CELLS = st.text(st.sampled_from('a1 ",;\n\r\té\u2028'), min_size=1)


def read(*blocks: bytes, **options: object) -> dict[str, list[object]]:
    return table(read_csv(Pieces(blocks), Rows("f"), CsvCodec(**options)))


@given(st.lists(st.tuples(CELLS, CELLS)), st.lists(st.integers(0, 200)))
def test_rows_are_those_of_the_csv_module_wherever_blocks_end(cells: list[tuple[str, str]], ends: list[int]) -> None:
    out = io.StringIO()
    csv.writer(out, quoting=csv.QUOTE_ALL).writerows([("a", "b"), *cells])
    text = out.getvalue().encode()
    places = sorted({0, len(text), *(9 + end % (len(text) - 8) for end in ends)})
    blocks = [text[start:end] for start, end in itertools.pairwise(places)]
    rows = read(*blocks)
    assert [json.loads(event) for event in rows["event"]] == [{"a": a, "b": b} for a, b in cells]
    assert rows["file_row"] == list(range(2, len(cells) + 2))


def test_an_empty_cell_is_null_and_a_quoted_one_is_an_empty_string() -> None:
    assert read(b'a,b\n,""\n')["event"] == [b'{"a":null,"b":""}']


def test_a_ragged_row_is_given_up_alone_with_its_text() -> None:
    rows = read(b"a,b\n1,2\n3\n4,5\n6,7,8\n9,0\n")
    found = sorted(zip(rows["file_row"], rows["event"], rows["malformed"], strict=True))
    assert [number for number, _, _ in found] == [2, 3, 4, 5, 6]
    assert found[1] == (3, b"3", "The row has 1 cells where there are 2 columns")
    assert found[3] == (5, b"6,7,8", "The row has 3 cells where there are 2 columns")
    assert [reason for _, _, reason in found].count(None) == 3


def test_a_row_that_is_not_utf8_is_given_up_alone_with_its_bytes() -> None:
    rows = read(b"a,b\n1,\xc3\xa9\n\xff\xfe,4\n\xff\n5,6\n")
    found = sorted(zip(rows["file_row"], rows["event"], rows["malformed"], strict=True))
    assert found == [
        (2, '{"a":"1","b":"é"}'.encode(), None),
        (3, b"\xff\xfe,4", "The row holds bytes that are not UTF-8"),
        (4, b"\xff", "The row has 1 cells where there are 2 columns"),
        (5, b'{"a":"5","b":"6"}', None),
    ]


@pytest.mark.parametrize(
    ("options", "text", "expected"),
    [
        ({"header": ["x", "y"]}, b"1,2\n", b'{"x":"1","y":"2"}'),
        ({"header": ["x", "y"]}, b"x,y\n1,2\n", b'{"x":"1","y":"2"}'),
        ({"detect_header": False}, b"1,2\n", b'{"column1":"1","column2":"2"}'),
        ({"delimiter": ";", "quote_character": "'"}, b"a;b\n'1;';2\r\n", b'{"a":"1;","b":"2"}'),
        ({"delimiter": "\t"}, b"a\tb\n1\t2", b'{"a":"1","b":"2"}'),
        ({}, b"\xef\xbb\xbfa\n1\n", b'{"a":"1"}'),
        ({}, b"a,A,a,\n1,2,3,4\n", b'{"a":"3","A":"2","column4":"4"}'),
        ({}, b'"a\nb"\r1\r', b'{"a\\nb":"1"}'),
    ],
)
def test_the_header_and_the_options_name_the_columns(options: dict, text: bytes, expected: bytes) -> None:
    assert read(text, **options)["event"] == [expected]


@pytest.mark.parametrize("text", [b"", b"\n\n", b"a,b\n", b"a,b"])
def test_no_rows_give_no_events(text: bytes) -> None:
    assert read(text)["event"] == []


def test_a_cut_stream_gives_its_whole_rows_and_one_reject() -> None:
    rows = table(read_csv(Pieces([b"a,b\n1,2\n3,"], "is cut"), Rows("f"), CsvCodec()))
    assert rows["event"] == [b'{"a":"1","b":"2"}', b"3,"]
    assert rows["malformed"] == [None, "The file f is cut"]


def test_a_header_that_is_cut_is_one_reject() -> None:
    assert events(read_csv(Pieces([b"a,"], "is cut"), Rows("f"), CsvCodec())) == [b"a,"]

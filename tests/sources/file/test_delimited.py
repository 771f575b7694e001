import csv
import io
import itertools
import json

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calve.columns.infer import infer
from calve.sources.file import csv_records
from calve.sources.file.codec_settings import CsvCodec
from calve.sources.file.delimited import read_csv
from calve.sources.file.rows import FileBatches
from sources.file.texts import Pieces, events, table

CELLS = st.text(st.sampled_from('a1 ",;\n\r\té\u2028'), min_size=1)


def read(*blocks: bytes, **options: object) -> dict[str, list[object]]:
    return table(read_csv(Pieces(blocks), FileBatches("f"), CsvCodec(**options)))


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
    assert found[1] == (3, b"3", "The row has 1 cell, but the file has 2 columns")
    assert found[3] == (5, b"6,7,8", "The row has 3 cells, but the file has 2 columns")
    assert [reason for _, _, reason in found].count(None) == 3


def test_a_row_that_is_not_utf8_is_given_up_alone_with_its_bytes() -> None:
    rows = read(b"a,b\n1,\xc3\xa9\n\xff\xfe,4\n\xff\n5,6\n")
    found = sorted(zip(rows["file_row"], rows["event"], rows["malformed"], strict=True))
    assert found == [
        (2, '{"a":"1","b":"é"}'.encode(), None),
        (3, b"\xff\xfe,4", "The row has bytes that are not UTF-8"),
        (4, b"\xff", "The row has 1 cell, but the file has 2 columns"),
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
        ({}, b"a,A,\n1,2,3\n", b'{"a":"1","A":"2","column3":"3"}'),
        ({}, b'"a\nb"\r1\r', b'{"a\\nb":"1"}'),
    ],
)
def test_the_header_and_the_options_name_the_columns(options: dict, text: bytes, expected: bytes) -> None:
    assert read(text, **options)["event"] == [expected]


@pytest.mark.parametrize("text", [b"", b"\n\n", b"a,b\n", b"a,b"])
def test_no_rows_give_no_events(text: bytes) -> None:
    assert read(text)["event"] == []


def test_a_cut_stream_gives_its_whole_rows_and_one_reject() -> None:
    rows = table(read_csv(Pieces([b"a,b\n1,2\n3,"], "is cut"), FileBatches("f"), CsvCodec()))
    assert rows["event"] == [b'{"a":"1","b":"2"}', b"3,"]
    assert rows["malformed"] == [None, "The file f is cut"]


UNCLOSED = "Line 3 has a quote that is never closed"
BEHIND = "Line 3 has text after a closing quote; a quote inside a quoted cell must be written twice"


@pytest.mark.parametrize(
    ("lines", "reject", "reason", "others"),
    [
        (['2,"unclosed', "3,def", "4,ghi"], '2,"unclosed', UNCLOSED, [["3", "def"], ["4", "ghi"]]),
        (['2,"unclosed', '3,"def"', "4,ghi", ""], '2,"unclosed', UNCLOSED, [["3", "def"], ["4", "ghi"]]),
        (['2,"half a cell'], '2,"half a cell', UNCLOSED, []),
        (['2,"half a cell, of', "two lines"], '2,"half a cell, of{end}two lines', UNCLOSED, []),
        (['2,"12" pipe', "3,def"], '2,"12" pipe', BEHIND, [["3", "def"]]),
        (['2,"12" pipe", long', "3,def"], '2,"12" pipe", long', BEHIND, [["3", "def"]]),
        (['2,"a cell', 'of "two" lines"', "3,def"], '2,"a cell{end}of "two" lines"', BEHIND, [["3", "def"]]),
    ],
)
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("size", [1, 5, 1000])
def test_a_record_with_a_wrong_quote_is_rejected_alone_with_its_line(
    lines: list[str], reject: str, reason: str, others: list[list[str]], end: str, size: int
) -> None:
    text = end.join(["id,descr", "1,ok", *lines]).encode()
    rows = read(*(text[at : at + size] for at in range(0, len(text), size)))
    found = sorted(zip(rows["file_row"], rows["event"], rows["malformed"], strict=True))
    assert [number for number, _, _ in found] == list(range(2, len(found) + 2))
    assert [list(json.loads(event).values()) for _, event, why in found if why is None] == [["1", "ok"], *others]
    assert (found[1][1].decode(), found[1][2]) == (reject.format(end=end), reason)


def test_a_damaged_record_of_one_column_is_rejected_alone() -> None:
    rows = read(b'id\n1\n"a"b\n3\n"c')
    assert sorted(zip(rows["file_row"], rows["event"], strict=True)) == [
        (2, b'{"id":"1"}'),
        (3, b'"a"b'),
        (4, b'{"id":"3"}'),
        (5, b'"c'),
    ]


def test_a_quote_in_the_middle_of_an_unquoted_cell_is_a_character() -> None:
    assert read(b'a,b\n5" pipe,x"",y\n'.replace(b",y", b""))["event"] == [b'{"a":"5\\" pipe","b":"x\\"\\""}']


@given(st.lists(st.text(st.sampled_from('a",\n\r'), max_size=12), max_size=3), st.integers(1, 9))
def test_what_the_csv_module_takes_strictly_is_the_same_and_nothing_else_is_a_row(parts: list[str], size: int) -> None:
    text = "\n".join(["x,y", *parts]).encode()
    rows = read(*(text[at : at + size] for at in range(0, len(text), size)))
    whole = [
        list(json.loads(event).values()) for event, why in zip(rows["event"], rows["malformed"], strict=True) if not why
    ]
    try:
        strict = list(csv.reader(io.StringIO(text.decode(), newline=""), strict=True))
    except csv.Error:
        assert any(rows["malformed"])
        return
    expected = [[cell or None for cell in row] for row in strict[1:] if len(row) == 2]
    assert [[cell or None for cell in row] for row in whole] == expected


@pytest.mark.parametrize("cut", ["3,", '3,"', '3,"half', '3,"half\na"", b\nc', '3,"whole"', "", "3,half"])
def test_of_a_cut_stream_the_last_record_is_one_reject(cut: str) -> None:
    rows = table(read_csv(Pieces([f"a,b\n1,2\n{cut}".encode()], "is cut"), FileBatches("f"), CsvCodec()))
    assert rows["event"] == [b'{"a":"1","b":"2"}', cut.encode() or None]
    assert rows["malformed"] == [None, "The file f is cut"]


def test_a_quote_that_stays_open_ends_the_file_at_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv_records, "RECORD_BYTES", 100)
    rows = read(b'a,b\n1,2\n3,"', *[b"some text\n"] * 20, b'"\n5,6\n')
    assert rows["event"][0] == b'{"a":"1","b":"2"}'
    assert len(rows["event"]) == 2
    assert rows["malformed"][1].startswith("The file f has a record of more than")
    rows = read(b"a,b\n1,2\n3,", *[b"some text"] * 20, b"\n5,6\n")
    assert rows["event"][0] == b'{"a":"1","b":"2"}'
    assert len(rows["event"]) == 2
    rows = read(b'a,b\n1,2\n3,"', *[b"\nsome,text"] * 20)
    assert len([why for why in rows["malformed"] if why]) == 1
    assert len(rows["event"]) == 22


def test_a_header_that_is_cut_is_one_reject() -> None:
    assert events(read_csv(Pieces([b"a,"], "is cut"), FileBatches("f"), CsvCodec())) == [b"a,"]


def test_a_repeated_name_in_the_header_is_one_reject_of_the_file_that_says_where() -> None:
    rows = read(b"id,name,id\n1,2,3\n4,5,6\n")
    assert rows["event"] == [b"id,name,id"]
    [reason] = rows["malformed"]
    assert reason.startswith("The file f has two columns of the name 'id', the columns 1 and 3;")
    assert read(b"id,name,id\n1,2,3\n", header=["id", "name", "id2"], detect_header=False)["malformed"][1:] == [None]


def test_cells_are_text_unless_types_are_to_be_inferred() -> None:
    text = b"a,b,c,d,e,f\n1,-1.50,true,FALSE,1e3,2026-01-02T03:04:05Z\n"
    plain, inferred = read(text), read(text, infer_types=True)
    assert json.loads(plain["event"][0]) == dict(zip("abcdef", text.decode().split("\n")[1].split(","), strict=True))
    assert inferred["event"] == [b'{"a":1,"b":-1.50,"c":true,"d":false,"e":1e3,"f":"2026-01-02T03:04:05Z"}']
    told = pa.Table.from_batches(read_csv(Pieces([text]), FileBatches("f"), CsvCodec()))
    assert [str(each.field_type) for each in infer(told).to_schema().fields] == ["string"] * 6


@pytest.mark.parametrize(
    "cell", ["007", "+1", "1.", ".5", "1,5", "0x10", "NaN", "1 ", " 1", "1e9999", "-", "True1", "\n1", "1\n"]
)
def test_a_cell_that_only_resembles_a_number_stays_text(cell: str) -> None:
    out = io.StringIO()
    csv.writer(out, quoting=csv.QUOTE_ALL).writerows([("a",), (cell,)])
    assert [json.loads(event) for event in read(out.getvalue().encode(), infer_types=True)["event"]] == [{"a": cell}]


@given(
    st.lists(st.text(st.sampled_from('aé€ß1 ",;\n'), min_size=1), min_size=1),
    st.sampled_from(["latin-1", "windows-1252", "utf-16", "utf-16-le", "utf-8", "utf-8-sig", "cp850", "shift_jis"]),
    st.lists(st.integers(0, 200)),
)
def test_text_of_any_encoding_is_the_same_wherever_blocks_end(cells: list[str], encoding: str, ends: list[int]) -> None:
    cells = [cell.encode(encoding, "replace").decode(encoding).removeprefix("\ufeff") for cell in cells]
    out = io.StringIO()
    csv.writer(out, quoting=csv.QUOTE_ALL).writerows([("a",), *((cell,) for cell in cells)])
    text = out.getvalue().encode(encoding)
    places = sorted({0, len(text), *(3 + end % (len(text) - 3) for end in ends)})
    rows = read(*(text[start:end] for start, end in itertools.pairwise(places)), encoding=encoding)
    assert [json.loads(event)["a"] for event in rows["event"]] == cells


def test_bytes_that_the_encoding_does_not_know_are_a_reject_of_their_row() -> None:
    rows = read(b"a,b\n1,\x80\n\x81,x\n2,\xe9\n", encoding="windows-1252")
    assert [json.loads(event) for event, why in zip(rows["event"], rows["malformed"], strict=True) if why is None] == [
        {"a": "1", "b": "\u20ac"},
        {"a": "2", "b": "\u00e9"},
    ]
    [(number, event, why)] = [
        row for row in zip(rows["file_row"], rows["event"], rows["malformed"], strict=True) if row[2]
    ]
    assert (number, event, why) == (3, b"\x81,x", "The row has bytes that are not WINDOWS-1252")


def test_a_header_in_another_encoding_is_one_reject_that_names_the_option() -> None:
    rows = read("näme,b\n1,2\n".encode("latin-1"))
    assert rows["malformed"] == [
        "The file f has bytes in its header that are not UTF-8; set `encoding` of the csv codec"
    ]
    assert rows["event"] == ["näme,b".encode("latin-1")]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"encoding": "klingon"}, "klingon is not a text encoding"),
        ({"header": ["a", "b", "a"]}, "the name 'a' appears twice"),
    ],
)
def test_options_that_cannot_be_meant_are_errors(options: dict, says: str) -> None:
    assert [text for _, text in CsvCodec(**options).check() if says in text] != []

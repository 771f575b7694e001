from hypothesis import given
from hypothesis import strategies as st
from pyarrow import BufferReader

from calve.sources.file import lines, stream
from calve.sources.file.lines import read_lines
from calve.sources.file.rows import REMAINS_BYTES, FileBatches
from calve.sources.file.stream import FileLines
from sources.file.texts import Pieces, events, table

TEXTS = st.lists(
    st.sampled_from([b"\n", b"\r\n", b"\r", b"\t", b"{}", b"\xef\xbb\xbf", b'{"a":"\xc3\xa9"}', b" "])
).map(b"".join)


def expected(text: bytes) -> list[tuple[int, bytes]]:
    found = [line.removesuffix(b"\r") for line in text.removeprefix(b"\xef\xbb\xbf").split(b"\n")]
    return [(number, line) for number, line in enumerate(found, 1) if line.strip(b" \t\r")]


@given(st.lists(TEXTS))
def test_lines_are_the_same_wherever_blocks_end(blocks: list[bytes]) -> None:
    text = b"".join(blocks)
    if blocks and len(blocks[0]) < 3:
        blocks = [text]
    rows = table(read_lines(Pieces(blocks), FileBatches("f"), numbered=True))
    assert list(zip(rows["file_row"], rows["event"], strict=True)) == expected(text)


@given(TEXTS, st.integers(1, 7))
def test_every_line_of_a_divided_file_is_in_exactly_one_part(text: bytes, size: int) -> None:
    found = []
    for start in range(0, len(text), size):
        part = FileLines(BufferReader(text), start, min(start + size, len(text)), len(text))
        found += events(read_lines(part, FileBatches("f"), numbered=start == 0))
        assert not part.broken
    assert found == [line for _, line in expected(text)]


@given(TEXTS, st.data())
def test_what_was_appended_after_the_listing_is_not_read(text: bytes, data: st.DataObject) -> None:
    size = data.draw(st.integers(0, len(text)))
    parts = [FileLines(BufferReader(text), start, min(start + 5, size), size) for start in range(0, size, 5)]
    found = [event for part in parts for event in events(read_lines(part, FileBatches("f"), numbered=False))]
    assert b"".join(found) == b"".join(line for _, line in expected(text[:size])) or text[:3] == b"\xef\xbb\xbf"


def test_a_line_of_blanks_is_skipped_and_counts_as_a_line_unless_spaces_are_data() -> None:
    text = b'{"a":1}\n \t \n\r\n \r\n{"a":2}\n   '
    rows = table(read_lines(Pieces([text]), FileBatches("f"), numbered=True))
    assert (rows["event"], rows["file_row"]) == ([b'{"a":1}', b'{"a":2}'], [1, 5])
    rows = table(read_lines(Pieces([text]), FileBatches("f"), numbered=True, is_text=True))
    assert (rows["event"], rows["file_row"]) == ([b'{"a":1}', b" \t ", b" ", b'{"a":2}', b"   "], [1, 2, 4, 5, 6])


def test_a_file_that_was_cut_after_its_listing_gives_its_lines_and_one_reject() -> None:
    part = FileLines(BufferReader(b"{}\n{"), 0, 10, 10)
    rows = table(read_lines(part, FileBatches("f"), numbered=True))
    assert rows["event"] == [b"{}", b"{"]
    assert rows["malformed"] == [
        None,
        "The file f ends at byte 4 where 10 bytes were listed (cut or replaced while it was read?)",
    ]


def test_a_line_beyond_the_bound_is_given_up_alone(monkeypatch) -> None:
    monkeypatch.setattr(lines, "LINE_BYTES", 1000)
    long = b"x" * 100_000
    blocks = [b"{}\n" + long[:2000], long, long, b"x\n{}\n", b"{}"]
    rows = table(read_lines(Pieces(blocks), FileBatches("f"), numbered=True))
    assert [len(event) for event in rows["event"]] == [2, 2000, 2, 2]
    assert [bool(reason) for reason in rows["malformed"]] == [False, True, False, False]
    assert rows["file_row"] == [1, None, 3, 4]
    assert len(long) > REMAINS_BYTES
    assert stream.BLOCK_BYTES > REMAINS_BYTES

"""Events of several lines: found wherever blocks and parts end, with no line lost or counted twice."""

import gzip
import json
import re
from collections.abc import Iterator
from unittest import mock
from zlib import crc32

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from calve.errors import SettingsError
from calve.pipeline.plugins import PLUGINS
from calve.settings import parse_text
from calve.sources.file import multiline
from calve.sources.file.codec import FilePart, codec_of, divisible, read_part
from calve.sources.file.codec_settings import CodecSettings, MultilineCodec
from calve.sources.file.multiline import EventJoiner, read_events
from calve.sources.file.rows import FileBatches
from calve.sources.file.settings import FileSettings
from calve.sources.file.stream import FileLines
from sources.file.texts import Pieces, table

PATTERN = r"\d{2}|é"
BEGINNING = re.compile(PATTERN)
CODEC = CodecSettings(multiline=MultilineCodec(begins_with=PATTERN))
WORDS = ["\n", "\n", "\r\n", "\r", "12", "é", " 34", "\tat x", "a"]
TEXTS = st.lists(st.sampled_from(WORDS), max_size=40).map("".join)
Found = list[tuple[int | None, str | None]]


def expected(text: str) -> list[tuple[int, str]]:
    """Return the number of the first line of each event, and its text."""
    events: list[tuple[int, list[str]]] = [(1, [])]
    for number, line in enumerate(text.removesuffix("\n").split("\n"), 1):
        if BEGINNING.match(line):
            events.append((number, []))
        events[-1][1].append(line.removesuffix("\r"))
    return [(number, "\n".join(lines)) for number, lines in events if any(lines)]


def read(file: bytes, compression: str = "none", ends: tuple[int, ...] = ()) -> dict[str, list[object]]:
    """Read a file as the source does, in parts that end at these positions."""
    settings = FileSettings(path="f", codec=CODEC, compression=compression)  # type: ignore[arg-type]
    starts = (0, *ends)
    parts = [FilePart("f", start, end, len(file), 0) for start, end in zip(starts, (*ends, len(file)), strict=True)]
    return table(batch for part in parts for batch in read_part(pa.BufferReader(file), part, settings))


def bounded(batches: Iterator[pa.RecordBatch]) -> Found:
    """Return number and text of each event; no text if it is rejected as too long."""
    rows = table(batches)
    return [
        (number, None if reason else event.decode())
        for number, event, reason in zip(rows["file_row"], rows["event"], rows["malformed"], strict=True)
    ]


@given(st.lists(TEXTS))
def test_events_are_the_same_wherever_blocks_end(blocks: list[str]) -> None:
    stream = Pieces([block.encode() for block in blocks])
    assert bounded(read_events(stream, None, EventJoiner(FileBatches("f"), PATTERN, True))) == expected("".join(blocks))


@given(TEXTS)
def test_the_messages_joined_are_the_text(text: str) -> None:
    text = text.replace("\r", "").strip("\n")
    assert "\n".join(json.loads(event)["message"] for event in read(text.encode())["event"]) == text


@given(TEXTS, st.data())
def test_any_division_of_a_file_gives_the_same_events(text: str, data: st.DataObject) -> None:
    file = text.encode()
    ends = data.draw(st.sets(st.integers(1, max(1, len(file) - 1))))
    divided, whole = read(file, ends=tuple(sorted(ends))), read(file)
    assert divided["event"] == whole["event"]
    assert divided["malformed"] == whole["malformed"] == [None] * len(whole["event"])
    assert all(mine in (None, row) for mine, row in zip(divided["file_row"], whole["file_row"], strict=True))


@example("\n\n\n\n", 1, 1, 1, 2)
@example("\n\n\n\nx\n10\n", 9, 1, 1, 2)
@given(TEXTS, st.integers(1, 9), st.integers(1, 5), st.integers(1, 12), st.integers(2, 5))
def test_bounds_reject_the_same_events_in_any_division(text: str, part: int, block: int, most: int, seen: int) -> None:
    file = text.encode()
    size = len(file)
    opened = pa.BufferReader(file)
    with mock.patch.multiple(multiline, EVENT_BYTES=most, MATCH_BYTES=seen):
        found: Found = []
        for start in range(0, size, part):
            end = min(start + part, size)
            own, following = FileLines(opened, start, end, size, block), FileLines(opened, end, size, size, block)
            found += bounded(read_events(own, following, EventJoiner(FileBatches("f"), PATTERN, start == 0)))
    short = [each if len(each.encode()) <= most else None for _, each in expected(text)]
    assert sorted(str(each) for _, each in found) == sorted(map(str, short))


def test_an_event_beyond_the_bound_is_rejected_alone_with_its_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(multiline, "EVENT_BYTES", 1 << 20)
    long = [b"20 long\n", *[b"\tat x\n" * 1000] * 500]
    rows = table(
        read_events(
            Pieces([b"10 a\n b\n", *long, b"30 c\n", b" d"]), None, EventJoiner(FileBatches("f"), PATTERN, True)
        )
    )
    assert (rows["event"][0], rows["event"][2]) == (b"10 a\n b", b"30 c\n d")
    assert rows["event"][1].startswith(b"20 long\n\tat x\n")
    assert rows["malformed"][1] == "The event has more than 1 MiB; check that `begins_with` matches the file"
    assert rows["file_row"] == [1, 3, 500_004]


def test_a_part_is_read_no_further_than_the_bound_if_no_event_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(multiline, "EVENT_BYTES", 1000)
    file = b"10\n" + b"x\n" * 100_000
    opened = pa.BufferReader(file)
    following = FileLines(opened, 100, len(file), len(file), 100)
    rows = table(
        read_events(FileLines(opened, 0, 100, len(file)), following, EventJoiner(FileBatches("f"), PATTERN, True))
    )
    assert len(rows["event"]) == 1
    assert opened.tell() < 2000


def test_a_stack_trace_at_the_end_is_one_event_with_the_number_of_its_first_line() -> None:
    rows = read(b"\xef\xbb\xbf10 ok\r\n\r\n11 failed\r\n\tat a\r\n\r\n\tat b\r\n")
    assert [json.loads(event) for event in rows["event"]] == [
        {"message": "10 ok\n"},
        {"message": "11 failed\n\tat a\n\n\tat b"},
    ]
    assert rows["file_row"] == [1, 3]


def test_an_event_that_is_not_utf_8_is_rejected_alone_and_complete() -> None:
    rows = read(b"10 a\n\xff b\n11 \xc3\xa9\n\xc3\xa9\n")
    assert rows["event"] == [b"10 a\n\xff b", '{"message":"11 é"}'.encode(), '{"message":"é"}'.encode()]
    assert rows["malformed"] == ["The event is not UTF-8", None, None]
    assert rows["file_row"] == [1, 3, 4]


@pytest.mark.parametrize("kept", [40_000, 10])
def test_a_compressed_file_that_is_cut_ends_with_one_dead_letter_with_the_rest(kept: int) -> None:
    numbers = [f"{number:05} {crc32(b'%d' % number)}\n  at {crc32(b'%d' % -number)}" for number in range(10_000)]
    packed = gzip.compress("\n".join(numbers).encode())
    whole, cut = read(packed, "gzip"), read(packed[:kept], "gzip")
    assert [json.loads(event)["message"] for event in whole["event"]] == numbers
    *events, last = cut["event"]
    assert [json.loads(event)["message"] for event in events] == numbers[: len(events)]
    assert not last or "\n".join(numbers[len(events) :]).startswith(last.decode())
    assert cut["malformed"][-1] == "The file f ends in the middle of its gzip data (cut off?)"
    assert cut["malformed"][:-1] == [None] * len(events)


def test_a_file_that_became_shorter_gives_a_dead_letter_with_the_last_event() -> None:
    file = pa.BufferReader(b"10 a\n b\n11 c\n d\n")
    settings = FileSettings(path="f", codec=CODEC)
    rows = table(read_part(file, FilePart("f", 0, 100, 100, 0), settings))
    assert rows["event"] == [b'{"message":"10 a\\n b"}', b"11 c\n d\n"]
    assert [bool(reason) for reason in rows["malformed"]] == [False, True]


def test_only_plain_files_are_divided() -> None:
    assert divisible(CODEC, "none")
    assert not divisible(CODEC, "gzip")
    assert codec_of("a.log", FileSettings(path="", codec=CODEC)) == CODEC


@pytest.mark.parametrize(
    ("codec", "problem"),
    [
        ("{}", "begins_with"),
        ("{begins_with: ''}", "begins_with"),
        ("{begins_with: '(?=x)'}", "Lookaround"),
        ("{begins_with: '(x'}", "not a valid regular expression"),
        ("{begins_with: '\\Qx'}", "not a valid regular expression"),
    ],
)
def test_a_pattern_that_cannot_be_used_is_refused(codec: str, problem: str) -> None:
    source = f"source: {{file: {{path: x, codec: {{multiline: {codec}}}}}}}"
    text = f"p:\n  {source}\n  sink:\n    - iceberg: {{table_identifier: a.b}}\n"
    with pytest.raises(SettingsError, match=re.escape(problem)):
        parse_text(text, PLUGINS)

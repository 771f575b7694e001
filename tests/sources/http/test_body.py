from __future__ import annotations

import gzip
import json
from collections.abc import Callable

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calve.sources.file.codec import FilePart, read_part
from calve.sources.file.codec_settings import CodecSettings, NewlineCodec
from calve.sources.file.settings import FileSettings
from calve.sources.http import body as body_module
from calve.sources.http.body import NOT_AN_ARRAY, gunzip, split, split_exactly, split_text
from calve.sources.http.message import RequestRefusedError
from calve.sources.log.record import RecordEvents
from kit.compiled_core import needs_core

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
ARRAYS = st.lists(st.dictionaries(st.text(), VALUES, max_size=4), max_size=5)


SPLITS = pytest.mark.parametrize("split", [split, split_exactly])
"""By the compiled core, and without it."""
Split = Callable[..., RecordEvents]
_TOKENS = '{ } [ ] , : " \\ \\u d800 \\udc00 0 1 - . e + true null "a" {"a":1} {} [] é'
PIECES = st.sampled_from([*_TOKENS.split(), " ", "\n", "\r", "\t", "\x00", "\x7f"])


def texts(events: RecordEvents) -> list[bytes]:
    lengths = memoryview(events.lengths).cast("I").tolist()
    ends = [sum(lengths[: i + 1]) for i in range(len(lengths))]
    return [events.data[end - length : end] for end, length in zip(ends, lengths, strict=True)]


@given(ARRAYS, st.sampled_from([None, 1]), st.booleans())
def test_every_event_keeps_its_bytes(array: list[dict[str, object]], indent: int | None, ascii_only: bool) -> None:
    try:
        body = json.dumps(array, indent=indent, ensure_ascii=ascii_only).encode()
    except UnicodeEncodeError:
        return
    events = split(body)
    assert [json.loads(text) for text in texts(events)] == array
    assert all(text in body for text in texts(events))
    assert events.rows == len(array)


@SPLITS
def test_half_a_surrogate_pair_does_not_spoil_its_neighbours(split: Split) -> None:
    events = split(b' [ {"a":"\\ud800"} ,{"b":[1.50]}\n] ')
    assert texts(events) == [b'{"a":"\\ud800"}', b'{"b":[1.50]}']


@SPLITS
@pytest.mark.parametrize(
    "body",
    [
        b"",
        b'"x"',
        b'{"a":1',
        b'{"a":1},{"b":2}',
        b'{"a":1} {"b":2}',
        b'{"a":1},',
        b'{"a":1}\n[{"b":2}]',
        b'{"a":1}\n{"b":\n2}',
        b'{"a":1\n"b":2}\n{"c":3},{"d":4}',
        b'{"a":"\\ud800"}\n{"a":\n',
        b'{"a":"\xff"}',
        b"[1]",
        b'[{"a":1},2]',
        b'[{"a":1}',
        b'[{"a":1},]',
        b'[{"a":1}] x',
        b'[{"a":NaN}]',
        b'[{"a":"\\ud800"},NaN]',
        b'[{"a":"\\ud800"},1]',
        b'[{"a":"\\ud800"}',
        b'[{"a":"\\ud800"}],',
        b'[{"a":"\\ud800"} {}]',
        b'[{"a":"\xff"}]',
        b"[" * 100_000,
        b'[{"a":"\\ud800"},' + b"[" * 100_000,
    ],
)
def test_anything_but_objects_is_400_in_data_preppers_words(split: Split, body: bytes) -> None:
    with pytest.raises(RequestRefusedError) as refused:
        split(body)
    assert refused.value.response.status == 400
    assert refused.value.response.text.startswith(NOT_AN_ARRAY)


@given(ARRAYS, st.sampled_from([None, 1]))
def test_an_object_alone_is_one_event(array: list[dict[str, object]], indent: int | None) -> None:
    for each in array:
        body = b" \n" + json.dumps(each, indent=indent).encode() + b"\r\n"
        assert texts(split(body)) == [body.strip()]


@given(ARRAYS, st.sampled_from(["\n", "\r\n", " \n\n\t"]), st.booleans())
def test_lines_of_objects_are_events(array: list[dict[str, object]], between: str, ended: bool) -> None:
    lines = [json.dumps(each) for each in array]
    body = (between.join(lines) + between * ended).encode()
    if array:
        assert texts(split(body)) == [line.encode() for line in lines]


@SPLITS
def test_lines_with_half_a_surrogate_pair_are_events(split: Split) -> None:
    assert texts(split(b'{"a":"\\ud800"}\n{"b":1}\n')) == [b'{"a":"\\ud800"}', b'{"b":1}']
    assert texts(split(b'{"b":1}\n{"a":"\\uDC00"}\n{}')) == [b'{"b":1}', b'{"a":"\\uDC00"}', b"{}"]


@SPLITS
@pytest.mark.parametrize("number", [0, 1, 7, 99])
def test_the_first_line_that_is_wrong_is_named(split: Split, number: int) -> None:
    lines = [b'{"a":%d}' % n for n in range(100)]
    lines[number], lines[99] = b'{"a":1', b'{"a":1},{"a":2}'
    with pytest.raises(RequestRefusedError) as refused:
        split(b"\n".join(lines))
    assert f"Line {number + 1}" in refused.value.response.text


@needs_core
@given(st.lists(PIECES, max_size=12).map("".join), st.sampled_from(["", "{", "[", "[{},", '{"a":']), st.booleans())
def test_the_core_splits_as_the_exact_splitter_does(text: str, start: str, ends: bool) -> None:
    body = (start + text + ("]" if start.startswith("[") else "}") * ends).encode()

    def outcome(split: Split) -> object:
        try:
            return texts(split(body, 3))
        except RequestRefusedError as error:
            return error.response.status

    assert outcome(split) == outcome(split_exactly)


@needs_core
def test_no_body_of_a_request_is_split_by_python_value_by_value(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(body_module, "split_exactly", None)
    monkeypatch.setattr(body_module, "_split_slowly", None)
    half = b'{"a":"\\ud800"}'
    assert split(b"[%b]" % b",".join([half] * 1000)).rows == 1000
    assert split(b"\n".join([half] * 1000)).rows == 1000
    assert split(b'{"a":%b%b}' % (b"[" * 10_000, b"]" * 10_000)).rows == 1
    with pytest.raises(RequestRefusedError):
        split(b"\n".join([half] * 1000) + b"x")


@pytest.mark.parametrize("split", [split, split_exactly, split_text])
@pytest.mark.parametrize("between", [b"\n", b",\n"])
def test_more_events_than_a_request_may_have_are_413(split: Split, between: bytes) -> None:
    body = between.join([b"{}"] * 10)
    body = b"[%b]" % body if between == b",\n" and split is not split_text else body + b"\n"
    assert split(body, 10).rows == 10
    with pytest.raises(RequestRefusedError) as refused:
        split(body, 9)
    assert refused.value.response.status == 413
    assert "max_request_events: 9" in refused.value.response.text


def test_a_body_unpacks_to_so_many_times_its_length_only_if_it_is_short() -> None:
    short, long = gzip.compress(b" " * (1 << 20)), gzip.compress(b" " * (4 << 20))
    assert len(gunzip(short, 1 << 30, 200)) == 1 << 20
    assert len(gunzip(long, 1 << 30)) == 4 << 20
    with pytest.raises(RequestRefusedError) as refused:
        gunzip(long, 1 << 30, 200)
    assert refused.value.response.status == 413
    assert "max_compression_ratio" in refused.value.response.text


def test_gzip_that_unpacks_slowly_is_refused_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(body_module, "_GZIP_SECONDS", 0.0)
    with pytest.raises(RequestRefusedError) as refused:
        gunzip(gzip.compress(b"") * 1000 + gzip.compress(b"[]"), 100)
    assert refused.value.response.status == 413


def test_gzip_of_several_members_is_one_body() -> None:
    assert gunzip(gzip.compress(b"[") + gzip.compress(b"]"), 100) == b"[]"


def test_gzip_of_very_many_members_is_unpacked_in_the_time_of_its_length() -> None:
    assert gunzip(gzip.compress(b"") * 100_000 + gzip.compress(b"[]"), 100) == b"[]"  # minutes, if each copied the rest


@pytest.mark.parametrize("body", [b"no gzip", gzip.compress(b"[]" * 100)[:-9], gzip.compress(b"[]") + b"tail"])
def test_broken_gzip_is_400(body: bytes) -> None:
    with pytest.raises(RequestRefusedError) as refused:
        gunzip(body, 1000)
    assert refused.value.response.status == 400


def test_a_gzip_bomb_is_413_and_never_unpacked_whole() -> None:
    assert len(gunzip(gzip.compress(b" " * 1000), 1000)) == 1000
    with pytest.raises(RequestRefusedError) as refused:
        gunzip(gzip.compress(b" " * (64 << 20)), 1000)
    assert refused.value.response.status == 413


@given(
    st.lists(st.text() | st.sampled_from(["\n", "\r\n", "\r", " ", '"', "\\", "\x00", "\ufeff", "\u2028"])).map("".join)
)
def test_lines_of_text_are_the_events_of_the_codec_newline(text: str) -> None:
    body = text.encode(errors="ignore")
    settings = FileSettings(path="f", codec=CodecSettings(newline=NewlineCodec()))
    batches = list(read_part(pa.BufferReader(body), FilePart("f", 0, len(body), len(body), 0), settings))
    expected = [json.loads(event) for batch in batches for event in batch["event"].to_pylist()]
    assert [json.loads(event) for event in texts(split_text(body))] == expected


def test_a_text_that_is_not_utf_8_is_400_and_one_that_is_too_long_as_json_413(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RequestRefusedError) as refused:
        split_text(b"a\n\xff\n")
    assert (refused.value.response.status, refused.value.response.text) == (400, "The text is not UTF-8 (byte 2).")
    monkeypatch.setattr(body_module, "MAX_EVENTS_BYTES", 20)
    assert split_text(b"abcd\n").rows == 1
    with pytest.raises(RequestRefusedError) as refused:
        split_text(b"abcd\na\n")
    assert refused.value.response.status == 413

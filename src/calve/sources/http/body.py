"""Splits the body of a request into its events, without decoding them."""

from __future__ import annotations

import codecs
import contextlib
import json
import re
import time
import zlib
from array import array
from typing import Any

import msgspec

from calve.compiled.bodies import BodyRefusal, split_body
from calve.sources.http.message import RequestRefusedError, Response
from calve.sources.log.record import MAX_EVENTS_BYTES, RecordEvents

__all__ = ["DEFLATE_RATIO", "MAX_EVENTS", "NOT_AN_ARRAY", "gunzip", "split", "split_exactly", "split_text"]

MAX_EVENTS = 1 << 30
"""The events of an entry of the log, which has four bytes for their number."""

NOT_AN_ARRAY = "Bad request data format. Needs to be json array, one object, or NDJSON."
"""It begins as Data Prepper's text does, which clients may check."""

_encode = msgspec.json.Encoder().encode
_ARRAY = msgspec.json.Decoder(list[msgspec.Raw])
_BLANK = b" \t\r\n"
_GZIP = 31  # zlib's window bits for a gzip header and trailer
_GZIP_BYTES = 4 << 10
"""Bytes unpacked at a time: zlib copies what is left behind each member, and a body may have very many."""
_SURROGATE = re.compile(rb"\\u[dD]")
"""Half of a pair, perhaps: msgspec refuses one that stands alone, and looking closely is slow."""
_GZIP_SECONDS = 5.0
"""The time for a body to be unpacked: one of very many empty members needs longer than its length suggests."""
DEFLATE_RATIO = 1032
"""More than any body can have."""
_RATIO_BYTES = 1 << 20
"""So much may unpack from any number of bytes."""
_SPACE = re.compile(r"[ \t\r\n]*")


def split(body: bytes, most: int = MAX_EVENTS) -> RecordEvents:
    """Split a JSON array of objects, one object, or objects in lines (NDJSON) without decoding them.

    Their bytes stay as they are.

    Args:
        body: What the client sent, unpacked.
        most: The most events that it may have.

    Raises:
        RefusedError: The body is something else (400), or has too many events (413); nothing of it is accepted.
    """
    parsed = split_body(body, most)
    if parsed is None:
        return split_exactly(body, most)
    if isinstance(parsed, BodyRefusal):
        raise _too_many(most) if parsed.is_too_large else _bad(parsed.reason)
    return RecordEvents(*parsed)


def split_exactly(body: bytes, most: int = MAX_EVENTS) -> RecordEvents:
    """Split a body as `split` does, without the compiled core; deep nesting is refused.

    Raises:
        RefusedError: As `split`.
    """
    try:
        body.decode()  # msgspec ignores bytes that are not UTF-8
    except UnicodeDecodeError as error:
        raise _bad(f"Byte {error.start} is not UTF-8.") from error
    objects = _objects(body) if body.lstrip(_BLANK)[:1] == b"{" else _elements(body)
    if len(objects) > most:
        raise _too_many(most)
    if not all(element.startswith(b"{") for element in objects):
        number = next(i for i, element in enumerate(objects) if not element.startswith(b"{"))
        raise _bad(f"Element {number + 1} is not an object.")
    return _events(objects)


def split_text(body: bytes, most: int = MAX_EVENTS) -> RecordEvents:
    r"""Split a text into lines as the codec `newline` of files does; each becomes an object with the field `message`.

    A line ends at `\n` or `\r\n`. Empty lines are skipped.

    Raises:
        RefusedError: The body is not UTF-8 (400), or too long as JSON or of too many lines (413); nothing of it is
            accepted.
    """
    if body.count(b"\n") > most:
        raise _too_many(most)
    try:
        text = body.removeprefix(codecs.BOM_UTF8).decode()
    except UnicodeDecodeError as error:
        raise RequestRefusedError(Response(400, f"The text is not UTF-8 (byte {error.start}).")) from error
    lines = (line.removesuffix("\r") for line in text.split("\n"))
    objects = [b'{"message":%b}' % _encode(line) for line in lines if line]
    if sum(map(len, objects)) > MAX_EVENTS_BYTES:
        raise RequestRefusedError(Response(413, f"The text is longer than {MAX_EVENTS_BYTES} bytes as JSON."))
    return _events(objects)


def _events(objects: list[bytes]) -> RecordEvents:
    return RecordEvents(len(objects), array("I", map(len, objects)).tobytes(), b"".join(objects))


def _elements(text: bytes) -> list[bytes]:
    """Split a JSON array."""
    try:
        return [bytes(element) for element in _ARRAY.decode(text)]
    except (msgspec.MsgspecError, RecursionError) as error:
        if not _SURROGATE.search(text):
            raise _bad(f"{error}.") from error
        return _split_slowly(text.decode())


def _objects(body: bytes) -> list[bytes]:
    """Split one object, which may have line breaks in it, or a line for each object; blank lines are skipped."""
    with contextlib.suppress(RequestRefusedError):
        if len(whole := _elements(b"[%b]" % body)) == 1:
            return whole
    numbered = [(number, text) for number, line in enumerate(body.split(b"\n"), 1) if (text := line.strip(_BLANK))]
    lines = [line for _, line in numbered]
    if _are_values(lines):
        return lines
    first, end = 0, len(lines)
    while end - first > 1:
        middle = (first + end) // 2
        first, end = (middle, end) if _are_values(lines[first:middle]) else (first, middle)
    try:
        _elements(b"[%b]" % lines[first])
    except RequestRefusedError as error:
        reason = error.response.text.removeprefix(NOT_AN_ARRAY).strip()
        raise _bad(f"Line {numbered[first][0]}: {reason}") from error
    raise _bad(f"Line {numbered[first][0]} has more than one value.")


def _are_values(lines: list[bytes]) -> bool:
    """Return whether each line is one JSON value; together they are read much faster than one by one."""
    plain = [line for line in lines if not _SURROGATE.search(line)]
    with contextlib.suppress(RequestRefusedError):
        return _elements(b"[%b]" % b",".join(plain)) == plain and all(
            _elements(b"[%b]" % line) == [line] for line in lines if _SURROGATE.search(line)
        )
    return False


def gunzip(body: bytes, limit: int, ratio: int = DEFLATE_RATIO) -> bytes:
    """Unpack gzip, of one or more members.

    Args:
        body: What the client sent.
        limit: The most bytes that it may unpack to.
        ratio: How many times its own length, if that is more than a megabyte.

    Raises:
        RefusedError: It is broken (400), or unpacks to too many bytes, or too slowly (413).
    """
    parts: list[bytes] = []
    most = min(limit, max(_RATIO_BYTES, ratio * len(body)))
    bytes_left, at, ends = most, 0, time.monotonic() + _GZIP_SECONDS
    member = zlib.decompressobj(_GZIP)
    try:
        while at < len(body):
            part = body[at : at + _GZIP_BYTES]
            parts.append(member.decompress(part, bytes_left + 1))
            bytes_left -= len(parts[-1])
            if bytes_left < 0:
                name = "max_request_length" if most == limit else "max_compression_ratio"
                raise RequestRefusedError(
                    Response(413, f"The unpacked body is longer than {name} allows: {most} bytes.")
                )
            if time.monotonic() > ends:
                raise RequestRefusedError(Response(413, "The body takes too long to unpack; send fewer gzip members."))
            at += len(part) - len(member.unused_data)
            if member.eof and at < len(body):
                member = zlib.decompressobj(_GZIP)
    except zlib.error as error:
        raise _bad("The body is not gzip.") from error
    if body and not member.eof:
        raise _bad("The gzip body is cut off.")
    return b"".join(parts)


def _split_slowly(text: str) -> list[bytes]:
    """Split a body that msgspec refuses for half a surrogate pair, which is valid JSON: only that event is rejected."""
    decoder = json.JSONDecoder(parse_int=str, parse_float=str, parse_constant=_no_constant)
    elements: list[bytes] = []
    try:
        at = _pass(text, 0, "[")
        while True:
            _, end = decoder.raw_decode(text, at)
            elements.append(text[at:end].encode())
            end = _SPACE.match(text, end).end()  # type: ignore[union-attr]
            if text.startswith("]", end):
                break
            at = _pass(text, end, ",")
        if _pass(text, end, "]") != len(text):
            raise ValueError("JSON is malformed: trailing characters")
    except (ValueError, RecursionError) as error:
        raise _bad(f"{error}.") from error
    return elements


def _pass(text: str, at: int, expected: str) -> int:
    """Return the position after a character and the white space around it."""
    match = re.compile(rf"[ \t\r\n]*{re.escape(expected)}[ \t\r\n]*").match(text, at)
    if match is None:
        raise ValueError(f"JSON is malformed: expected '{expected}' (character {at})")
    return match.end()


def _no_constant(name: str) -> Any:
    raise ValueError(f"JSON is malformed: {name} is not a number")


def _too_many(most: int) -> RequestRefusedError:
    return RequestRefusedError(Response(413, f"The body has more than max_request_events: {most} events."))


def _bad(why: str) -> RequestRefusedError:
    return RequestRefusedError(Response(400, f"{NOT_AN_ARRAY} {why}"))

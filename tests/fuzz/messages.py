"""Requests for the http source: good ones whose answer is certain, and what becomes of them when bytes are changed."""

from __future__ import annotations

import base64
import functools
import gzip
import json
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

INGEST = b"/log/ingest"
_gzip = functools.partial(gzip.compress, mtime=0)  # the same bytes at any time
USER, PASSWORD = "ann", "pass:wörd"
CREDENTIALS = base64.b64encode(f"{USER}:{PASSWORD}".encode())
ODD_BYTES = (
    b"\r\n",
    b"\n",
    b"\r",
    b"\x00",
    b" ",
    b":",
    b"\t",
    b"\xff",
    b"\xc3",
    b"0",
    b"9" * 30,
    b"-",
    b"\r\n\r\n",
    b";",
    b",",
)
ODD_HEADERS = (
    b"Content-Length: 3",
    b"Content-Length: 99999999999999999999999",
    b"Content-Length: -1",
    b"Content-Length: +5",
    b"Content-Length: 0x10",
    b"Content-Length: 1, 1",
    b"Content-Length:",
    b"Transfer-Encoding: chunked",
    b"Transfer-Encoding: gzip, chunked",
    b"Transfer-Encoding: identity",
    b"Transfer-Encoding: chunked, chunked",
    b"Transfer-Encoding : chunked",
    b"Content-Encoding: gzip",
    b"Expect: 100-continue",
    b"Expect: what",
    b"Upgrade: h2c\r\nConnection: upgrade",
    b"Connection: close, upgrade\r\nUpgrade: websocket",
    b"Connection: keep-alive, close",
    b"X: a\r\n b",
    b"X: \xff\xfe\x80",
    b"X\x00: y",
    b": y",
    b"no header",
    b"Idempotency-Key: \xe2\x82\xac",
    b"Content-Type: text/plain; charset=utf-16",
    b"Authorization: Basic \xff\xff",
    b"Host: " + b"h" * 3000,
)


@dataclass
class Message:
    """One request as it is sent.

    Attributes:
        name: Its name in the header `X-Request` and in its events.
        data: All its bytes.
        events: The events that are kept if it is answered 200.
        statuses: The answers that are right.
        key: Whether it has an `Idempotency-Key`, so that it is kept once however often it is sent.
        head: Whether its answer has no body.
        closes: Whether its answer may be the last one of its connection.
    """

    name: str
    data: bytes
    events: list[dict[str, Any]] = field(default_factory=list)
    statuses: frozenset[int] = frozenset({200})
    key: bool = False
    head: bool = False
    closes: bool = False


@dataclass(frozen=True)
class Rules:
    """What the source of a round was set to."""

    max_body: int
    packed: bool
    secured: bool


class Maker:
    """Makes requests; the same ones for the same random numbers."""

    def __init__(self, rnd: random.Random, rules: Rules) -> None:
        self._rnd = rnd
        self._rules = rules

    def good(self, name: str) -> Message:
        """Make a request that is answered 200 and whose events are kept."""
        rnd = self._rnd
        form = rnd.choice(["array", "array", "lines", "object", "text", "empty"])
        count = {"object": 1, "empty": 0}.get(form, rnd.choice([1, 1, 2, 5, 20]))
        events: list[dict[str, Any]] = [{"r": name, "i": i, "t": self._text()} for i in range(count)]
        texts = [json.dumps(event, ensure_ascii=rnd.random() < 0.5 or "\ud800" in event["t"]) for event in events]
        headers = [rnd.choice([b"Content-Type: application/json", b"content-TYPE:application/x-ndjson", b"X: y"])]
        if form == "text":
            headers = [rnd.choice([b"Content-Type: text/plain", b'Content-Type: Text/Plain; charset="UTF-8"'])]
            texts = [json.dumps(event, ensure_ascii=True) for event in events]
            events = [{"message": text} for text in texts]
        between = (
            rnd.choice(["\n", "\r\n", "\n\n"]) if form in ("lines", "text", "object") else rnd.choice([",", " ,\n "])
        )
        text = between.join(texts)
        body = (f"[{text}]" if form in ("array", "empty") else text + rnd.choice(["", "\n"])).encode()
        if len(body) > self._rules.max_body:
            return self.good(name)
        if key := rnd.random() < 0.2:
            headers.append(b"Idempotency-Key: %s" % name.encode())
        data = self._request(name, headers, body)
        closes = b"Connection: close" in data or b" HTTP/1.0\r\n" in data
        return Message(name, data, events, key=key, closes=closes)

    def refused(self, name: str) -> Message:
        """Make a request that is HTTP, and that is refused for its contents."""
        rnd, post = self._rnd, b"POST"
        good = json.dumps([{"r": name, "i": 0}]).encode()
        broken = rnd.choice([b"{", b"[1]", b'[{"a":NaN}]', b'[{"a":"\xff"}]', b"[" * 1500, good[:-1], good + b",", b""])
        packed = [b"Content-Encoding: gzip"]
        bomb = _gzip(b" " * (self._rules.max_body + 1))
        choices: list[tuple[int, bytes, bytes, Sequence[bytes], bytes]] = [
            (404, post, b"/", (), good),
            (404, post, INGEST + b"/%ff/..", (), good),
            (405, b"PUT", INGEST, (), good),
            (405, post, b"/health", (), good),
            (415, post, INGEST, (b"Content-Encoding: br",), good),
            (415, post, INGEST, (b"Content-Type: text/plain; charset=latin1",), good),
            (400, post, INGEST, (b"Idempotency-Key: a b",), good),
            (400, post, INGEST, (b"Idempotency-Key:",), good),
            (400, post, INGEST, packed, _gzip(good)[: rnd.choice([5, -1, -9])]),
            (400, post, INGEST, packed, _gzip(good) + b"tail"),
            (413, post, INGEST, packed, bomb + b"x"),
            (413, post, INGEST, (), b" " * (self._rules.max_body + rnd.choice([1, 1000]))),
            *[(400, post, INGEST, (), _gzip(broken) if self._rules.packed else broken)] * 6,
        ]
        status, method, path, headers, body = rnd.choice(choices)
        if self._rules.secured and rnd.random() < 0.3:
            headers = (*headers, rnd.choice([b"Authorization: Basic !", b"Authorization: Bearer x", b"Authorization:"]))
            status = status if status in (404, 405) else 401
        data = self._framed(b"%s %s HTTP/1.1" % (method, path), [*self._head(name), *headers], body)
        return Message(name, data, statuses=frozenset({status}), closes=True)

    def health(self, name: str) -> Message:
        """Make a request of the health check."""
        head = self._rnd.random() < 0.5
        line = b"%s /health HTTP/1.1" % (b"HEAD" if head else b"GET")
        return Message(name, b"\r\n".join([line, *self._head(name), b"", b""]), head=head)

    def huge(self, name: str) -> Message:
        """Make a request whose head, trailer or extension of a chunk is too long."""
        chunked = b"POST %s HTTP/1.1\r\n%s\r\nTransfer-Encoding: chunked\r\n\r\n" % (
            INGEST,
            b"\r\n".join(self._head(name)),
        )
        many = b"".join(b"X-%d: %d\r\n" % (n, n) for n in range(30_000))
        data = self._rnd.choice(
            [
                b"GET /" + b"x" * 700_000,
                b"POST %s HTTP/1.1\r\nX: " % INGEST + b"x" * 700_000,
                b"POST %s HTTP/1.1\r\n" % INGEST + many,
                chunked + b"0\r\nX: " + b"x" * 700_000,
                chunked + b"0\r\n" + many,
                chunked + b"2;x=" + b"x" * 700_000,
            ]
        )
        return Message(name, data, statuses=frozenset({431}), closes=True)

    def mutated(self, message: Message) -> bytes:
        """Change some bytes of a request, its head more often than its body."""
        data = bytearray(message.data)
        for _ in range(self._rnd.choice([1, 1, 1, 2, 5, 20])):
            self._mutate(data)
        return bytes(data)

    def _mutate(self, data: bytearray) -> None:
        rnd = self._rnd
        end = data.find(b"\r\n\r\n")
        limit = end + 2 if end > 0 and rnd.random() < 0.6 else len(data)
        at, length = rnd.randrange(max(limit, 1)), rnd.choice([1, 1, 2, 8, 100])
        match rnd.randrange(7):
            case 0 if data:
                data[at : at + 1] = bytes([rnd.randrange(256)])
            case 1:
                data[at:at] = rnd.choice(ODD_BYTES)
            case 2:
                del data[at : at + length]
            case 3:
                data[at:at] = data[at : at + length]
            case 4:
                data[at:at] = rnd.randbytes(length)
            case 5:
                line = data.find(b"\r\n") + 2
                data[line:line] = rnd.choice(ODD_HEADERS) + b"\r\n"
            case 6:
                other = rnd.randrange(max(limit, 1))
                data[at : at + length] = data[other : other + length]

    def _text(self) -> str:
        rnd = self._rnd
        return rnd.choice(
            ["", "x", "ü\U0001f642", '\\"{[', "\x00\n\r", "\ud800" if rnd.random() < 0.2 else "\u2028"]
        ) * rnd.choice([1, 1, 9])

    def _head(self, name: str) -> list[bytes]:
        lines = [b"Host: localhost", b"X-Request: %s" % name.encode()]
        return [*lines, b"Authorization: Basic " + CREDENTIALS] if self._rules.secured else lines

    def _request(self, name: str, headers: list[bytes], body: bytes) -> bytes:
        rnd = self._rnd
        if self._rules.packed or rnd.random() < 0.25:
            half = rnd.randrange(len(body) + 1)
            body = _gzip(body[:half]) + _gzip(body[half:]) if rnd.random() < 0.2 else _gzip(body)
            headers = [*headers, b"Content-Encoding: gzip"]
        target = rnd.choice([INGEST, INGEST, INGEST + b"?a=%00", b"http://h:1" + INGEST])
        version = b"HTTP/1.0" if rnd.random() < 0.05 else b"HTTP/1.1"
        odd = [b"Expect: 100-continue", b"Connection: close", b"Connection: Upgrade\r\nUpgrade: h2c", b"Via: 1"]
        if rnd.random() < 0.2:
            headers = [*headers, rnd.choice(odd)]
        return self._framed(b"POST %s %s" % (target, version), [*self._head(name), *headers], body)

    def _framed(self, line: bytes, headers: Sequence[bytes], body: bytes) -> bytes:
        rnd = self._rnd
        lines = [line, *headers]
        if rnd.random() < 0.7 or line.endswith(b"1.0"):
            return b"\r\n".join([*lines, b"Content-Length: %d" % len(body), b"", body])
        data = b"\r\n".join([*lines, b"Transfer-Encoding: chunked", b"", b""])
        while body:
            size = rnd.choice([1, 2, 10, 1000, 100_000])
            part, body = body[:size], body[size:]
            data += b"%x%s\r\n%s\r\n" % (len(part), rnd.choice([b"", b"", b";a=b"]), part)
            if len(data) > 1 << 20:
                data, body = data + b"%x\r\n%s\r\n" % (len(body), body) if body else data, b""
        return data + b"0\r\n" + rnd.choice([b"", b"X-Trailer: y\r\n"]) + b"\r\n"

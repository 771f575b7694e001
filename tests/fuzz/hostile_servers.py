"""Servers on loopback that answer clients with what no honest server sends: sizes, endless answers, wrong types."""

from __future__ import annotations

import contextlib
import gzip
import itertools
import json
import random
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterable, Iterator

__all__ = ["Hostile", "scripts"]

Pieces = Iterator[bytes]
Script = Callable[[random.Random], Pieces]
"""Yields what is sent after each other; the connection ends with it."""
_DRIP_SECONDS = 0.05
_BLOCK = b"x" * (1 << 16)
_GREETING = (
    b"\n8.0.15\0" + bytes(4) + b"12345678\0" + struct.pack("<HBHHB10x", 0xF7FF, 45, 2, 0x8, 21) + b"123456789012\0"
)
_WRONG = (
    None, 1, "x", [], {}, [None], [[]], {"error": 1}, {"error": {"type": 1, "reason": None}}, {"schema": None},
    {"schema": 7, "references": 7}, {"schema": "{", "references": [{"name": 1}]}, {"schema": "\"int\"", "id": "x", "schemaType": 3},
    {"errors": "yes"}, {"errors": True}, {"errors": True, "items": []}, {"errors": True, "items": [{}, {}, {}]},
    {"errors": True, "items": [{"index": {"status": "x"}}] * 3}, {"errors": True, "items": [{"index": {"status": 500}}] * 9},
    {"cluster_name": []}, {"Messages": 1}, {"Messages": [1]}, {"Messages": [{}]}, {"Messages": {"a": 1}},
    {"Messages": [{"MessageId": None, "ReceiptHandle": 2, "Body": []}]}, {"__type": 5, "message": {}},
    [{"subject": 1, "version": "x"}], [{"subject": "s", "version": 5}], ["1", None],
)  # fmt: skip


class Hostile:
    """A server whose every connection gets the pieces of a script; counts its connections."""

    def __init__(self, script: Callable[[], Pieces]) -> None:
        self._script = script
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.connections = 0
        self._ended = threading.Event()
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Hostile:
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                self.connections += 1
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client, contextlib.suppress(OSError):
            client.settimeout(5)
            for piece in self._script():
                if self._ended.is_set():
                    return
                if piece:
                    client.sendall(piece)
                else:
                    client.recv(1 << 16)  # an empty piece: what the client says


def scripts(kind: str) -> dict[str, Script]:
    """Return the attacks on a kind of client, by name."""
    if kind == "postgres":
        return _POSTGRES | _BYTES
    if kind == "mysql":
        return _MYSQL | _BYTES
    return _BYTES if kind == "kafka" else _HTTP | _BYTES


def _endless(piece: bytes) -> Pieces:
    return itertools.repeat(piece)


def _slowly(data: Pieces) -> Pieces:
    for piece in data:
        for byte in piece:
            time.sleep(_DRIP_SECONDS)
            yield bytes([byte])


def _after(*begin: bytes, rest: Iterable[bytes]) -> Pieces:
    return itertools.chain(begin, rest)


def _http(body: bytes, status: str = "200 OK", more: str = "") -> bytes:
    return f"HTTP/1.1 {status}\r\n{more}content-length: {len(body)}\r\n\r\n".encode() + body


def _always(answer: Callable[[random.Random], bytes]) -> Script:
    """Return a script that answers each request of a connection."""

    def script(rnd: random.Random) -> Pieces:
        while True:
            yield b""
            yield answer(rnd)

    return script


def _wrong(rnd: random.Random) -> bytes:
    status = rnd.choice(["200 OK"] * 5 + ["404 Not Found", "500 Oops", "301 Moved", "429 Busy"])
    return _http(json.dumps(rnd.choice(_WRONG)).encode(), status, "location: http://127.0.0.1:1/\r\n")


def _references(rnd: random.Random) -> bytes:
    places = [
        {"name": f"n{rnd.random()}", "subject": f"s{rnd.random()}", "version": 1} for _ in range(rnd.choice([1, 3]))
    ]
    return _http(json.dumps({"schema": '"string"', "id": 1, "references": places}).encode())


_HEAD = b"HTTP/1.1 200 OK\r\n"
_HTTP: dict[str, Script] = {
    "wrong types": _always(_wrong),
    "references without an end": _always(_references),
    "deep JSON": _always(lambda rnd: _http(rnd.choice([b"[", b'{"a":', b'{"errors":true,"items":[']) * 200_000)),
    "no UTF-8": _always(lambda rnd: _http(b'{"schema":"\xff\xfe"}')),
    "many empty lists": _always(lambda rnd: _http(b"[" + b"[]," * (1 << 20) + b"[]]")),
    "endless chunks": lambda rnd: _after(b"", _HEAD + b"transfer-encoding: chunked\r\n\r\n", rest=_endless(b"10000\r\n" + _BLOCK + b"\r\n")),
    "endless body": lambda rnd: _after(b"", _HEAD + b"content-length: 99999999999\r\n\r\n", rest=_endless(_BLOCK)),
    "endless head": lambda rnd: _after(b"", _HEAD, rest=_endless(b"x: y\r\n" * 100)),
    "endless 100": lambda rnd: _after(b"", rest=_endless(b"HTTP/1.1 100 Continue\r\n\r\n" * 100)),
    "a bomb": _always(lambda rnd: _http(gzip.compress(bytes(256 << 20), 1), more="content-encoding: gzip\r\n")),
    "slow head": lambda rnd: _after(b"", rest=_slowly(iter([_HEAD * 1000]))),
    "slow body": lambda rnd: _after(b"", _HEAD + b"content-length: 100000\r\n\r\n", rest=_slowly(iter([_BLOCK]))),
    "cut body": lambda rnd: iter([b"", _HEAD + b"content-length: 100\r\n\r\n{"]),
    "wrong length": lambda rnd: iter([b"", _HEAD + rnd.choice([b"content-length: -5\r\n\r\n", b"content-length: x\r\n\r\n{}", b"transfer-encoding: chunked\r\n\r\nzz\r\n"])]),
}  # fmt: skip
_BYTES: dict[str, Script] = {
    "nothing": lambda rnd: itertools.repeat(b""),
    "closed at once": lambda rnd: iter([]),
    "closed after the first word": lambda rnd: iter([b"", rnd.randbytes(rnd.choice([1, 4, 5, 40]))]),
    "any bytes": lambda rnd: (rnd.randbytes(1000) for _ in range(200)),
    "endless bytes": lambda rnd: _endless(_BLOCK),
    "endless zeros": lambda rnd: _endless(bytes(1 << 16)),
    "slow bytes": lambda rnd: _slowly(rnd.randbytes(100) for _ in range(100)),
}


def _message(kind: bytes, body: bytes) -> bytes:
    return kind + struct.pack(">I", len(body) + 4) + body


def _authentication(number: int, body: bytes = b"") -> bytes:
    return _message(b"R", struct.pack(">I", number) + body)


def _postgres(*pieces: bytes, rest: Iterable[bytes] = ()) -> Pieces:
    return _after(b"", b"N", b"", *pieces, rest=rest)


def _scram(challenge: Callable[[random.Random], bytes]) -> Script:
    return lambda rnd: _postgres(_authentication(10, b"SCRAM-SHA-256\0\0"), b"", _authentication(11, challenge(rnd)))


_POSTGRES: dict[str, Script] = {
    "huge message": lambda rnd: _postgres(b"R\xff\xff\xff\xff", rest=_endless(_BLOCK)),
    "empty message": lambda rnd: _postgres(rest=_endless(b"R" + struct.pack(">I", rnd.choice([0, 1, 3])))),
    "short message": lambda rnd: _postgres(rest=_endless(_message(b"R", b""))),
    "endless notices": lambda rnd: _postgres(rest=_endless(_message(b"N", b"x" * 1000))),
    "endless parameters": lambda rnd: _postgres(rest=_endless(_message(b"S", b"a\0b\0"))),
    "wrong parameters": lambda rnd: _postgres(_authentication(0), _message(b"S", rnd.choice([b"", b"\xff\0\xff\0", b"abc"]))),
    "endless logins": lambda rnd: _postgres(rest=_endless(_authentication(0))),
    "unknown login": lambda rnd: _postgres(_authentication(rnd.choice([2, 6, 7, 9, 4_000_000_000]))),
    "billions of rounds": _scram(lambda rnd: b"r=x,s=QUFB,i=2000000000"),
    "wrong challenge": _scram(lambda rnd: rnd.choice([b"", b"r=,s=,i=", b"r=x,s=!,i=5", b"r=x,s=QUFB,i=-1", rnd.randbytes(50)])),
    "wrong error": lambda rnd: _postgres(_message(b"E", rnd.choice([b"", b"\0", b"\xff" * 10, b"M\x1b[2J\0"]))),
}  # fmt: skip


def _packet(number: int, body: bytes) -> bytes:
    return len(body).to_bytes(3, "little") + bytes([number & 0xFF]) + body


_MYSQL: dict[str, Script] = {
    "wrong greeting": lambda rnd: iter([_packet(0, _GREETING[: rnd.randrange(len(_GREETING))])]),
    "empty packets": lambda rnd: _endless(_packet(0, b"")),
    "huge packets": lambda rnd: _endless(b"\xff\xff\xff\0" + bytes(0xFFFFFF)),
    "endless plugins": lambda rnd: _after(_packet(0, _GREETING), rest=_endless(_packet(2, b"\xfecaching_sha2_password\0" + b"n" * 20 + b"\0"))),
    "unknown plugin": lambda rnd: iter([_packet(0, _GREETING), b"", _packet(2, b"\xfe\xff\xff\0")]),
    "endless proofs": lambda rnd: _after(_packet(0, _GREETING), b"", rest=_endless(_packet(2, b"\1\3"))),
    "its own key": lambda rnd: iter([_packet(0, _GREETING), b"", _packet(2, b"\1-----BEGIN PUBLIC KEY-----\n!\n-----END PUBLIC KEY-----\n"), b""]),
    "wrong error": lambda rnd: iter([_packet(0, rnd.choice([b"\xff", b"\xff\0", b"\xff\x10\4#"]))]),
    "a file of the client": lambda rnd: iter([_packet(0, _GREETING), b"", _packet(2, bytes(7)), b"", _packet(1, b"\xfb/etc/passwd")]),
    "wrong result": lambda rnd: iter([_packet(0, _GREETING), b"", _packet(2, bytes(7)), b"", _packet(1, b"\xfc\xff\xff"), _packet(2, b"\xfd")]),
}  # fmt: skip

"""The socket to a database: what comes in pieces is received in few of them."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
import time
from pathlib import Path

import pytest

from calve.sources.database.connection import Address, Channel, Rest, TrustError
from services.certificates import Authority

MESSAGES, MESSAGE = 2_000, b"x" * 100
PAUSE_SECONDS = 0.000_05
RECORDS = 50
"""They fit into the buffers of the sockets."""
REST = Rest(1 << 13, 0.001)


class Counted:
    """A socket that counts how often something was received."""

    def __init__(self, stream: socket.socket) -> None:
        self._stream = stream
        self.times = 0

    def __getattr__(self, name: str):
        return getattr(self._stream, name)

    def recv(self, size: int) -> bytes:
        data = self._stream.recv(size)
        self.times += 1
        return data


def test_a_server_that_sends_message_by_message_does_not_wake_the_reader_for_each() -> None:
    ours, theirs = socket.socketpair()

    def send() -> None:
        for _ in range(MESSAGES):
            theirs.sendall(MESSAGE)
            time.sleep(PAUSE_SECONDS)

    with ours, theirs:
        counted = Counted(ours)
        channel = Channel(counted)  # type: ignore[arg-type]
        threading.Thread(target=send, daemon=True).start()
        while not channel.has(MESSAGES * len(MESSAGE)):
            channel.wait(1.0, REST)
        assert channel.read(MESSAGES * len(MESSAGE)) == MESSAGE * MESSAGES
        assert counted.times < MESSAGES / 3


def test_nothing_is_waited_for_longer_than_asked() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        channel = Channel(ours)
        began = time.monotonic()
        channel.wait(0.01, REST)
        assert not channel.has(1)
        theirs.sendall(b"ab")
        channel.wait(5.0, REST)
        assert channel.read(2) == b"ab"
        channel.wait(0.01, REST)
        assert time.monotonic() < began + 4.0


def test_a_server_that_waits_for_the_reader_after_16_kb_is_not_kept_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = socket.socketpair()
    rests: list[float] = []
    monkeypatch.setattr(time, "sleep", rests.append)
    with ours, theirs:
        channel = Channel(ours)
        for _ in range(3):
            theirs.sendall(b"x" * (16 << 10))
            channel.wait(5.0, REST)
        assert not rests
        for _ in range(2):
            theirs.sendall(MESSAGE)
            channel.wait(5.0, REST)
        assert len(rests) == 1


def test_messages_that_are_records_of_tls_each_are_received_together(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "authority")
    theirs_tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    theirs_tls.load_cert_chain(*authority.sign("127.0.0.1"))
    tls = ssl.create_default_context(cafile=str(authority.certificate))
    ours, theirs = socket.socketpair()
    is_sent, is_received = threading.Event(), threading.Event()

    def serve() -> None:
        with theirs_tls.wrap_socket(theirs, server_side=True) as stream:
            for _ in range(RECORDS):
                stream.sendall(MESSAGE)
            is_sent.set()
            is_received.wait(60)

    server = threading.Thread(target=serve, daemon=True)
    server.start()
    with contextlib.closing(Channel(ours)) as channel:
        channel.secure(Address("127.0.0.1", 1, "", "", "", tls))
        assert is_sent.wait(60)
        channel.wait(5.0, REST)
        assert channel.has(RECORDS * len(MESSAGE))
        assert channel.read(RECORDS * len(MESSAGE)) == MESSAGE * RECORDS
        channel.wait(0.01, REST)
        assert not channel.has(1)
        is_received.set()
        server.join()


def test_what_comes_before_tls_is_not_trusted() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        channel = Channel(ours)
        theirs.sendall(b"S" + MESSAGE)
        assert channel.read(1) == b"S"
        with pytest.raises(TrustError, match="before TLS began"):
            channel.secure(Address("127.0.0.1", 1, "", "", "", ssl.create_default_context()))

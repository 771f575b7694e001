"""The socket to a database: what comes in pieces is received in few of them."""

from __future__ import annotations

import socket
import threading
import time

import pytest

from calve.sources.database.connection import Channel

MESSAGES, MESSAGE = 2_000, b"x" * 100
PAUSE_SECONDS = 0.000_05


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
            channel.wait(1.0)
        assert channel.take(MESSAGES * len(MESSAGE)) == MESSAGE * MESSAGES
        assert counted.times < MESSAGES / 3


def test_nothing_is_waited_for_longer_than_asked() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        channel = Channel(ours)
        began = time.monotonic()
        channel.wait(0.01)
        assert not channel.has(1)
        theirs.sendall(b"ab")
        channel.wait(5.0)
        assert channel.take(2) == b"ab"
        channel.wait(0.01)
        assert time.monotonic() < began + 4.0


def test_a_server_that_waits_for_the_reader_after_16_kb_is_not_kept_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = socket.socketpair()
    rests: list[float] = []
    monkeypatch.setattr(time, "sleep", rests.append)
    with ours, theirs:
        channel = Channel(ours)
        for _ in range(3):
            theirs.sendall(b"x" * (16 << 10))
            channel.wait(5.0)
        assert not rests
        for _ in range(2):
            theirs.sendall(MESSAGE)
            channel.wait(5.0)
        assert len(rests) == 1

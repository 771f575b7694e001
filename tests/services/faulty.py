"""A proxy on loopback in front of a server, which disturbs the conversation as it is told: by connection, or by answer.

It forwards bytes. For the faults that are statuses of HTTP it reads where a request begins, and answers in its place.
"""

from __future__ import annotations

import re
import socket
import struct
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus

__all__ = [
    "CUT",
    "DELAY",
    "DRIP",
    "FAULTS",
    "LOST",
    "NONE",
    "REFUSE",
    "SILENT",
    "UNKNOWN",
    "Fault",
    "FaultyProxy",
    "status",
]

_REQUEST = re.compile(rb"(GET|HEAD|PUT|POST|DELETE) \S+ HTTP/1\.1\r\n")
_WRITES = (b"PUT", b"POST", b"DELETE")
_RESET = struct.pack("ii", 1, 0)
_BLOCK_BYTES = 1 << 16
_DELAY_SECONDS = 2.0
_DRIP_SECONDS = 0.05


@dataclass(frozen=True)
class Fault:
    """What happens between a client and its server.

    Attributes:
        name: In a few words.
        status: HTTP's, for a fault that answers.
        is_after: The server did what was asked before the fault answers.
        is_of_writes: Only requests that write get it.
    """

    name: str
    status: int = 0
    is_after: bool = False
    is_of_writes: bool = False


NONE = Fault("none, to compare")
REFUSE = Fault("connections refused")
DELAY = Fault("answers 2 s late")
CUT = Fault("answers cut in the middle")
SILENT = Fault("carried out, answers never come", is_after=True)
LOST = Fault("carried out, connection reset", is_after=True)
DRIP = Fault("20 bytes a second")
UNKNOWN = Fault("carried out, then 503", 503, is_after=True)


def status(code: int) -> Fault:
    """Return the fault that a status of HTTP is; a conflict (409) needs a request that writes."""
    return Fault(f"{code} {HTTPStatus(code).phrase}", code, is_of_writes=code == HTTPStatus.CONFLICT)


FAULTS = (REFUSE, DELAY, CUT, SILENT, LOST, DRIP, UNKNOWN, *map(status, (403, 409, 429, 500, 503)))


class FaultyProxy:
    """Forwards connections to a port of this machine, with a fault from `break_by` to `mend`.

    Args:
        target: The server's port.
        body: Gives the body of an answer with a status, as the server would write it.
    """

    def __init__(self, target: int, body: Callable[[int], bytes] = lambda _: b"{}") -> None:
        self._target, self._body = target, body
        self._fault: Fault | None = None
        self._mended = threading.Event()
        self._open: set[_Conversation] = set()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.struck = 0
        self._accepting()

    @property
    def address(self) -> str:
        """Its address, for a server of HTTP."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def fault(self) -> Fault | None:
        """What it does to conversations now."""
        return self._fault

    def break_by(self, fault: Fault) -> None:
        """Let a fault begin; `struck` counts the connections or answers that it hits."""
        self.struck = 0
        self._mended.clear()
        self._fault = fault
        if fault == REFUSE:
            self._end()

    def mend(self) -> None:
        """End the fault. A connection whose answer was swallowed stays silent, as it would behind a firewall."""
        was, self._fault = self._fault, None
        self._mended.set()
        if was == REFUSE:
            self._listener = socket.create_server(("127.0.0.1", self.port))
            self._accepting()

    def close(self) -> None:
        """End for good."""
        self._mended.set()
        self._end()

    def answer(self, code: int) -> bytes:
        """Return a complete answer of HTTP with a status."""
        self.struck += 1
        body = self._body(code)
        head = f"HTTP/1.1 {code} {HTTPStatus(code).phrase}\r\nContent-Type: application/json\r\n"
        return f"{head}Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode() + body

    def wait(self, seconds: float) -> bool:
        """Wait, but not beyond the end of the fault; return whether it has ended."""
        return self._mended.wait(seconds)

    def _accepting(self) -> None:
        threading.Thread(target=self._accept, args=(self._listener,), daemon=True).start()

    def _accept(self, listener: socket.socket) -> None:
        with suppress(OSError):
            while True:
                client, _ = listener.accept()
                try:
                    server = socket.create_connection(("127.0.0.1", self._target))
                except OSError:
                    client.close()
                    continue
                conversation = _Conversation(self, client, server)
                self._open.add(conversation)
                for direction in (conversation.requests, conversation.answers):
                    threading.Thread(target=self._run, args=(conversation, direction), daemon=True).start()

    def _run(self, conversation: _Conversation, direction: Callable[[], None]) -> None:
        with suppress(OSError):
            direction()
        conversation.end()
        self._open.discard(conversation)

    def _end(self) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for each in list(self._open):
            self.struck += 1
            each.reset()


class _Conversation:
    """One connection of a client, and the one to the server that belongs to it."""

    def __init__(self, proxy: FaultyProxy, client: socket.socket, server: socket.socket) -> None:
        self._proxy, self._client, self._server = proxy, client, server
        for each in (client, server):
            each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._is_asked = self._is_silent = False

    def requests(self) -> None:
        """Forward what the client sends, or answer it."""
        while block := self._client.recv(_BLOCK_BYTES):
            fault = self._proxy.fault
            if fault and fault.status and not fault.is_after and not self._is_asked and _hits(fault, block):
                self._client.sendall(self._proxy.answer(fault.status))
                self._client.shutdown(socket.SHUT_WR)
                while self._client.recv(_BLOCK_BYTES):  # a body that is not read would reset the answer
                    pass
                return
            self._is_asked = True
            self._server.sendall(block)

    def answers(self) -> None:
        """Forward what the server answers, or do what the fault says to it."""
        while block := self._server.recv(_BLOCK_BYTES):
            self._is_asked = False
            fault = self._proxy.fault
            if self._is_silent or fault == SILENT:
                self._is_silent = True
                self._proxy.struck += 1
            elif fault == LOST:
                self._proxy.struck += 1
                return self.reset()
            elif fault == CUT:
                self._proxy.struck += 1
                self._client.sendall(block[: len(block) // 2])
                return self.reset()
            elif fault == UNKNOWN:
                self._client.sendall(self._proxy.answer(fault.status))
                return None
            elif fault == DRIP:
                self._drip(block)
            else:
                if fault == DELAY:
                    self._proxy.struck += 1
                    self._proxy.wait(_DELAY_SECONDS)
                self._client.sendall(block)
        return None

    def _drip(self, block: bytes) -> None:
        self._proxy.struck += 1
        for at in range(len(block)):
            if self._proxy.wait(_DRIP_SECONDS):
                return self._client.sendall(block[at:])
            self._client.sendall(block[at : at + 1])
        return None

    def reset(self) -> None:
        """End it as a crash would, with a reset instead of an end."""
        with suppress(OSError):
            self._client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        self.end()

    def end(self) -> None:
        """Close both connections. May be called twice."""
        for each in (self._server, self._client):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RD)
            each.close()


def _hits(fault: Fault, block: bytes) -> bool:
    found = _REQUEST.match(block)
    return bool(found) and (not fault.is_of_writes or found[1] in _WRITES)

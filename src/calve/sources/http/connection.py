"""The connection of one client: parses requests, sends answers, and enforces all limits."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import ClassVar, Protocol, cast

import httptools

from calve.sources.http.message import BUG, Request, Response
from calve.sources.http.service import Service

__all__ = ["IDLE_SECONDS", "ClientConnection", "Host", "Peer"]

_VERSIONS = ("1.1", "1.0")
_OTHER_PROTOCOL = Response(400, "This is not HTTP/1.1.")
_MAX_HEAD_BYTES = 64 << 10
_LONG_HEAD = Response(431, f"The head or trailer of the request is longer than {_MAX_HEAD_BYTES} bytes.")
IDLE_SECONDS = 75.0
_LINGER_SECONDS = 1.0
"""After an early refusal the server still reads for this time: closing at once could destroy the answer."""


class Peer(Protocol):
    """A connection, to its server."""

    @property
    def deadline(self) -> float:
        """When `tick` is due, in the loop's time."""

    @property
    def held_bytes(self) -> int:
        """Bytes of bodies that the service does not have yet."""

    def tick(self) -> None:
        """Act on a deadline that has passed."""

    def drain(self) -> None:
        """Close as soon as all complete requests are answered."""

    def abort(self) -> None:
        """Close now."""


class Host(Protocol):
    """The server of a connection."""

    def admit(self, connection: Peer) -> None:
        """Register a connection."""

    def leave(self, connection: Peer) -> None:
        """Forget a connection."""

    def now(self) -> float:
        """Return the loop's time in seconds."""

    def date(self) -> str:
        """Return the time in HTTP format."""


class ClientConnection(asyncio.Protocol):
    """Serves the requests of a connection one after the other; bytes of further ones wait unread.

    Args:
        host: The server.
        service: Answers the requests.
        times: Seconds for a request to arrive, and for the disk to store it; and when the first head must be here.
        closed: Gets its result when the client is gone.
        is_served: Whether there is room for the client; otherwise it is told that there is none.

    Attributes:
        alpn: The protocols that clients of TLS may choose; none: they are not asked.
    """

    alpn: ClassVar[tuple[str, ...]] = ()

    def __init__(
        self, host: Host, service: Service, times: tuple[float, float], closed: asyncio.Future[None], is_served: bool
    ) -> None:
        self._host = host
        self._service = service
        self._timeout, self.deadline = times
        self._closed = closed
        self._is_served = is_served
        self._parser = httptools.HttpRequestParser(self)
        self._transport: asyncio.Transport | None = None
        self._reading: Request | None = None
        self._waiting: deque[Request] = deque()
        self._current: Request | None = None
        self._advancing = False
        self._head_bytes = 0  # since a request began, or a part of its body arrived
        self._field_bytes = 0  # of the target, headers and trailers of the request
        self._in_head = True
        self._deaf = False  # later bytes are discarded
        self._ended = False  # the client will send no more
        self._choked = False  # the client does not read its answers

    # --- asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin; called by asyncio."""
        self._transport = cast(asyncio.Transport, transport)  # uvloop's transport is not a subclass
        self._host.admit(self)
        if not self._is_served:
            self._refuse(Response(429, "There are too many connections. Please retry later", (("retry-after", "1"),)))
            self._advance()

    def data_received(self, data: bytes) -> None:
        """Receive bytes; called by asyncio."""
        if self._deaf:
            return
        while data and not self._deaf:
            data = self._feed(data)
        if self._head_bytes > _MAX_HEAD_BYTES and not self._deaf:
            self._refuse(_LONG_HEAD)
        self._advance()

    def _feed(self, data: bytes) -> bytes:
        """Parse bytes; return those that are to be parsed again, because they offered another protocol."""
        self._head_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            return self._without_upgrade(data[upgrade.args[0] :])
        except httptools.HttpParserCallbackError as error:
            self._service.lines.warning(f"http request failed: {error.__context__ or error!r}")
            self._refuse(BUG)
        except httptools.HttpParserError:
            self._refuse(_OTHER_PROTOCOL)
        return b""

    def eof_received(self) -> bool:
        """Answer complete requests before closing; called by asyncio."""
        self._ended = True
        assert self._transport is not None
        return bool(self._current or self._waiting) and self._transport.get_extra_info("sslcontext") is None

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the client; called by asyncio."""
        self._transport = None
        self._reading = None
        self._waiting.clear()
        self._host.leave(self)
        if not self._closed.done():
            self._closed.set_result(None)

    def pause_writing(self) -> None:
        """Stop reading while answers wait; called by asyncio."""
        self._choked = True
        self._breathe()

    def resume_writing(self) -> None:
        """Continue; called by asyncio."""
        self._choked = False
        self._breathe()

    # --- httptools

    def on_message_begin(self) -> None:
        """Begin a request."""
        if self._deaf:
            return
        self._reading = Request(self._answer)
        self._in_head, self._head_bytes, self._field_bytes = True, 0, 0
        if not self._current:
            self.deadline = self._host.now() + self._timeout

    def on_url(self, url: bytes) -> None:
        """Add a part of the target."""
        self._count(url)
        if self._reading:
            self._reading.target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """Add a header or a trailer."""
        self._count(name, value)
        if not (self._reading and self._in_head):
            return
        name = name.lower()
        if name == b"host" and name in self._reading.headers:  # a proxy may have checked the other one
            self._refuse(Response(400, "The request has more than one Host."))
        else:
            self._reading.headers[name] = value

    def on_headers_complete(self) -> None:
        """Refuse the request by its head, or request the body."""
        request = self._reading
        self._in_head = False
        if request is None or self._deaf:
            return
        version = self._parser.get_http_version()
        if version not in _VERSIONS:
            self._refuse(_OTHER_PROTOCOL)
            return
        if version == "1.1" and b"host" not in request.headers:  # RFC 9112, section 3.2
            self._refuse(Response(400, "The request has no Host."))
            return
        request.method = self._parser.get_method()
        if self._parser.should_upgrade() and request.method != b"CONNECT":
            return
        request.refusal = self._service.refusal(request)
        endless = request.length is None or request.length > self._service.max_body
        if request.refusal and (request.expects_continue or endless):
            self._refuse(request.refusal)
        elif request.expects_continue and self._transport and not (self._current or self._waiting):
            self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def on_body(self, chunk: bytes) -> None:
        """Add a part of the body."""
        self._head_bytes = 0
        request = self._reading
        if request is None or self._deaf or request.refusal:
            return
        request.size += len(chunk)
        request.body += chunk
        if request.size > self._service.max_body:
            self._refuse(self._service.too_large())

    def on_message_complete(self) -> None:
        """Queue a complete request."""
        if self._parser.should_upgrade():
            return
        if self._reading and not self._deaf:
            self._reading.keep_alive = self._parser.should_keep_alive()
            self._waiting.append(self._reading)
        self._reading = None
        self._in_head, self._head_bytes = True, 0

    def _count(self, *parts: bytes) -> None:
        """Count what a head or trailer has, which may arrive at once with its end and the next request."""
        self._field_bytes += sum(map(len, parts))
        if self._field_bytes > _MAX_HEAD_BYTES and not self._deaf:
            self._refuse(_LONG_HEAD)

    def _without_upgrade(self, rest: bytes) -> bytes:
        """Decline another protocol: return the request as if it had not been offered, to be parsed again.

        Java's client offers h2c with every first request; httptools then treats the body as the other protocol.
        """
        request = self._reading
        if request is None or request.refusal:  # CONNECT
            self._refuse(Response(405, "This method does not fit the path."))
            return b""
        lines = [b"%s: %s" % line for line in request.headers.items() if line[0] != b"upgrade"]
        self._parser = httptools.HttpRequestParser(self)
        return b"\r\n".join([b"%s %s HTTP/1.1" % (request.method, request.target), *lines, b"", rest])

    # --- the server

    @property
    def held_bytes(self) -> int:
        """Bytes of bodies that the service does not have yet."""
        return sum(request.size for request in (self._reading, *self._waiting) if request)

    def tick(self) -> None:
        """Act on a deadline that has passed."""
        self.deadline = float("inf")
        if self._current:
            self._service.expire(self._current)
        elif self._reading and not self._deaf:
            self._refuse(Response(408, "The request did not arrive in time."))
            self._advance()
        elif self._transport:
            self._transport.close()

    def drain(self) -> None:
        """Close as soon as all complete requests are answered."""
        if self._reading and not (self._current or self._waiting or self._deaf):
            self._refuse(Response(503, "The pipeline is stopping.", (("retry-after", "5"),)))
            self._advance()
        elif self._transport and not (self._current or self._waiting):
            self._transport.close()

    def abort(self) -> None:
        """Close now."""
        if self._transport:
            self._transport.abort()

    # --- order

    def _refuse(self, response: Response) -> None:
        """Answer before the request is complete, in its order, and stop reading."""
        request = self._reading or Request(self._answer)
        request.refusal, request.keep_alive = response, False
        request.body.clear()
        self._waiting.append(request)
        self._reading = None
        self._deaf = True

    def _advance(self) -> None:
        if self._advancing:
            return
        self._advancing = True
        while self._waiting and not self._current:
            self._current = self._waiting.popleft()
            self.deadline = self._host.now() + self._timeout
            self._handle(self._current)
        self._advancing = False
        self._breathe()

    def _handle(self, request: Request) -> None:
        try:
            self._service.handle(request)
        except Exception as error:  # a bug must not leave the client without an answer
            self._service.lines.warning(f"http request failed: {error!r}")
            if request is self._current:
                self._answer(request, BUG)

    def _answer(self, request: Request, response: Response) -> None:
        self._current = None
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        last = not self._waiting and (self._deaf or self._ended or self._service.stopping)
        close = last or not request.keep_alive
        transport.write(response.encode(self._host.date(), close, request.method == b"HEAD"))
        if not close:
            self.deadline = self._host.now() + (self._timeout if self._reading else IDLE_SECONDS)
            self._advance()
        elif request.refusal and self._deaf and not self._ended and transport.can_write_eof():
            self._waiting.clear()
            transport.write_eof()
            self.deadline = self._host.now() + _LINGER_SECONDS
        else:
            self._waiting.clear()
            transport.close()

    def _breathe(self) -> None:
        """Read from the client only while the input can be processed."""
        if self._transport is None or self._transport.is_closing():
            return
        if (self._current or self._waiting or self._choked) and not self._deaf:
            self._transport.pause_reading()
        else:
            self._transport.resume_reading()

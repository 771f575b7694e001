"""HTTP/2 beside HTTP/1 on the same port: for gRPC, and for clients of TLS that choose it by themselves."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from functools import singledispatchmethod
from typing import ClassVar, cast

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.events import (
    ConnectionTerminated,
    DataReceived,
    Event,
    RemoteSettingsChanged,
    RequestReceived,
    StreamEnded,
    StreamReset,
)
from h2.exceptions import ProtocolError
from h2.frame_buffer import FrameBuffer
from h2.settings import SettingCodes
from hyperframe.frame import Frame

from calve.sources.http.connection import IDLE_SECONDS, ClientConnection, Host
from calve.sources.http.message import BUG, Request, Response
from calve.sources.http.service import Service
from calve.sources.otlp import grpc
from calve.sources.otlp.grpc import StreamRequest

__all__ = ["EitherConnection", "Http2Connection"]

_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_STREAM_WINDOW = 1 << 20
_CONNECTION_WINDOW = 8 << 20
_FRAME_BYTES = 9 + (16 << 10)
"""The longest frame that clients may send (RFC 9113, section 4.2); h2 checks one only when it is here."""
_TABLE_BYTES = 4096
"""The most of earlier headers that is kept to shorten later ones, whatever a client allows."""
_NOISE = 1000
"""So many frames without a request may arrive: resets, pings, settings. They cost more than they cost the client."""
_LINGER_SECONDS = 1.0


class EitherConnection(ClientConnection):
    """A connection of HTTP/1, unless its first bytes are those of HTTP/2."""

    alpn: ClassVar[tuple[str, ...]] = ("h2", "http/1.1")
    _start: bytes | None = b""

    def data_received(self, data: bytes) -> None:
        """Receive bytes; called by asyncio."""
        if self._start is not None and self._is_served:
            self._start = data = self._start + data
            if data[: len(_PREFACE)] == _PREFACE:
                self._become_http2(data)
                return
            if _PREFACE.startswith(data):
                return
            self._start = None
        super().data_received(data)

    def _become_http2(self, data: bytes) -> None:
        assert self._transport is not None
        self._host.leave(self)
        after = Http2Connection(self._host, self._service, self._timeout, self._closed)
        self._transport.set_protocol(after)
        after.connection_made(self._transport)
        after.data_received(data)


class _Frames(FrameBuffer):
    """The frames of a client; h2 would describe each one, with all of its data, for a log that is off."""

    def __next__(self) -> Frame:
        frame = super().__next__()
        frame._body_repr = str  # type: ignore[method-assign]
        return frame


class Http2Connection(asyncio.Protocol):
    """Serves the streams of a connection, all at the same time.

    Args:
        host: The server.
        service: Answers the requests.
        timeout: Seconds for a request to arrive, and for the disk to store it.
        closed: Gets its result when the client is gone.
    """

    def __init__(self, host: Host, service: Service, timeout: float, closed: asyncio.Future[None]) -> None:
        self._host = host
        self._service = service
        self._timeout = timeout
        self._closed = closed
        self._state = H2Connection(H2Configuration(client_side=False, header_encoding=None))
        self._state.incoming_buffer = _Frames(server=True)
        self._transport: asyncio.Transport
        self._open: dict[int, StreamRequest] = {}
        self._idle_until = 0.0
        self._noise = 0
        self._ended = False  # the client will send no more
        self._leaving = False  # later bytes are discarded

    # --- asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin; called when the client has chosen HTTP/2."""
        self._transport = cast(asyncio.Transport, transport)
        self._idle_until = self._host.now() + IDLE_SECONDS
        self._host.admit(self)
        self._state.initiate_connection()
        self._state.update_settings({SettingCodes.INITIAL_WINDOW_SIZE: _STREAM_WINDOW})
        self._state.increment_flow_control_window(_CONNECTION_WINDOW)
        self._flush()

    def data_received(self, data: bytes) -> None:
        """Receive bytes; called by asyncio."""
        if self._leaving:
            return
        try:
            for event in self._state.receive_data(data):
                self._on(event)
        except ProtocolError as error:
            self._service.refusals.answered(Response(400, f"This is not HTTP/2: {error}"))
            self._leave()
        except Exception as error:  # a bug must not leave the client without an answer
            self._service.lines.warning(f"http request failed: {error!r}")
            self._leave(ErrorCodes.INTERNAL_ERROR)
        if len(self._state.incoming_buffer._data) > _FRAME_BYTES:
            self._leave(ErrorCodes.FRAME_SIZE_ERROR)
        if self._noise > _NOISE:
            self._leave(ErrorCodes.ENHANCE_YOUR_CALM)
        self._flush()

    def eof_received(self) -> bool:
        """Answer complete requests before closing; called by asyncio."""
        self._ended = True
        return bool(self._open) and self._transport.get_extra_info("sslcontext") is None

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the client; called by asyncio."""
        self._open.clear()
        self._leaving = True
        self._host.leave(self)
        if not self._closed.done():
            self._closed.set_result(None)

    def pause_writing(self) -> None:
        """Stop reading while answers wait; called by asyncio."""
        if not self._transport.is_closing():
            self._transport.pause_reading()

    def resume_writing(self) -> None:
        """Continue; called by asyncio."""
        if not self._transport.is_closing():
            self._transport.resume_reading()

    # --- frames

    @singledispatchmethod
    def _on(self, event: Event) -> None:
        self._noise += 1

    @_on.register
    def _begin(self, event: RequestReceived) -> None:
        request = StreamRequest(self._answer, stream=event.stream_id, deadline=self._host.now() + self._timeout)
        headers = dict(cast("Iterable[tuple[bytes, bytes]]", event.headers))
        request.method, request.target = headers[b":method"], headers.get(b":path", b"")
        request.headers = {name: value for name, value in headers.items() if not name.startswith(b":")}
        if b":authority" in headers:
            request.headers[b"host"] = headers[b":authority"]
        grpc.adopt(request)
        self._open[event.stream_id] = request
        if refusal := self._service.refusal(request):
            self._refuse(request, refusal)

    @_on.register
    def _add(self, event: DataReceived) -> None:
        self._state.acknowledge_received_data(event.flow_controlled_length or 0, event.stream_id)
        if (request := self._open.get(event.stream_id)) is None:
            return
        self._noise += not event.data
        request.body += event.data or b""
        request.size = len(request.body)
        most = self._service.max_body + (grpc.PREFIX_BYTES if request.is_call else 0)
        is_long = request.is_call and int.from_bytes(request.body[1 : grpc.PREFIX_BYTES]) > self._service.max_body
        if request.size > most or is_long:
            self._refuse(request, self._service.too_large())
        elif self._service.crowded:
            self._refuse(request, self._service.no_memory())

    @_on.register
    def _end(self, event: StreamEnded) -> None:
        if (request := self._open.get(event.stream_id)) is None:
            return
        request.is_complete, request.deadline = True, self._host.now() + self._timeout
        request.refusal = grpc.message_of(request) if request.is_call else None
        self._handle(request)

    @_on.register
    def _forget(self, event: StreamReset) -> None:
        self._noise += 1
        if (request := self._open.get(event.stream_id)) and not request.is_complete:
            del self._open[event.stream_id]

    @_on.register
    def _accept(self, event: RemoteSettingsChanged) -> None:
        self._noise += 1
        encoder = self._state.encoder
        encoder.header_table_size = min(encoder.header_table_size, _TABLE_BYTES)

    @_on.register
    def _lose(self, event: ConnectionTerminated) -> None:
        self._leave()  # h2 sends no answers after it

    # --- the server

    @property
    def deadline(self) -> float:
        """When `tick` is due."""
        return min((request.deadline for request in self._open.values()), default=self._idle_until)

    @property
    def held_bytes(self) -> int:
        """Bytes of bodies that the service does not have yet."""
        return sum(request.size for request in self._open.values() if not request.is_complete)

    def tick(self) -> None:
        """Act on deadlines that have passed."""
        now = self._host.now()
        if self._leaving:
            self._transport.abort()
        elif not self._open:
            self._leave()
        for request in [request for request in self._open.values() if request.deadline < now]:
            request.deadline = float("inf")
            if request.is_complete:
                self._service.expire(request)
            else:
                self._refuse(request, Response(408, "The request did not arrive in time."))

    def drain(self) -> None:
        """Close as soon as all complete requests are answered."""
        for request in [request for request in self._open.values() if not request.is_complete]:
            self._refuse(request, Response(503, "The pipeline is stopping.", (("retry-after", "5"),)))
        if not self._open:
            self._leave()

    def abort(self) -> None:
        """Close now."""
        self._transport.abort()

    # --- answers

    def _refuse(self, request: StreamRequest, response: Response) -> None:
        request.refusal = response
        request.body.clear()
        self._handle(request)

    def _handle(self, request: StreamRequest) -> None:
        try:
            self._service.handle(request)
        except Exception as error:  # a bug must not leave the client without an answer
            self._service.lines.warning(f"http request failed: {error!r}")
            self._answer(request, BUG)

    def _answer(self, request: Request, response: Response) -> None:
        assert isinstance(request, StreamRequest)
        if self._open.pop(request.stream, None) is None:
            return
        if response.status < 400:
            self._noise = 0
        self._idle_until = self._host.now() + IDLE_SECONDS
        with suppress(ProtocolError):  # the client has cancelled the request, or leaves
            self._send(request, *self._parts(request, response))
        if not self._open and (self._ended or self._service.stopping):
            self._leave()
        self._flush()

    def _send(
        self, request: StreamRequest, head: list[tuple[str, str]], body: bytes, trailers: list[tuple[str, str]]
    ) -> None:
        stream = request.stream
        if len(body) > self._state.local_flow_control_window(stream):
            self._state.reset_stream(stream, ErrorCodes.FLOW_CONTROL_ERROR)
            return
        self._state.send_headers(stream, head, end_stream=not (body or trailers))
        if body:
            self._state.send_data(stream, body, end_stream=not trailers)
        if trailers:
            self._state.send_headers(stream, trailers, end_stream=True)
        if not request.is_complete:
            self._state.reset_stream(stream, ErrorCodes.NO_ERROR)

    def _parts(
        self, request: StreamRequest, response: Response
    ) -> tuple[list[tuple[str, str]], bytes, list[tuple[str, str]]]:
        """Return the headers, the body and the trailers of an answer."""
        if not request.is_call:
            body, kind = response.body
            head = [(":status", str(response.status)), ("date", self._host.date()), ("content-type", kind)]
            head += [("content-length", str(len(body))), *response.headers]
            return head, b"" if request.method == b"HEAD" else body, []
        head = [(":status", "200"), ("content-type", "application/grpc"), ("grpc-accept-encoding", "identity,gzip")]
        head += response.headers
        if response.status < 400:
            return head, grpc.framed(request, response), grpc.status_of(response)
        return [*head, *grpc.status_of(response)], b"", []

    def _leave(self, reason: ErrorCodes = ErrorCodes.NO_ERROR) -> None:
        """Close the connection when what was written is sent."""
        if self._leaving:
            return
        self._leaving, self._idle_until = True, self._host.now() + _LINGER_SECONDS
        self._open.clear()
        self._state.close_connection(reason)
        self._flush()
        self._transport.close()

    def _flush(self) -> None:
        if (data := self._state.data_to_send()) and not self._transport.is_closing():
            self._transport.write(data)

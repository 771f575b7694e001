"""Clients of gRPC: the real one, and one that writes any frames of HTTP/2."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager

import grpc
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import ConnectionTerminated, DataReceived, Event, ResponseReceived, StreamEnded, TrailersReceived

from kit.running import PATIENCE_SECONDS
from sources.otlp.serving import OtlpServing

EXPORT = {
    "logs": "/opentelemetry.proto.collector.logs.v1.LogsService/Export",
    "traces": "/opentelemetry.proto.collector.trace.v1.TraceService/Export",
    "metrics": "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export",
}
HEALTH = "/grpc.health.v1.Health/Check"
_FRAME_BYTES = 16 << 10
Answer = tuple[str, str, bytes, RetryInfo | None]


@contextmanager
def channel(serving: OtlpServing, credentials: grpc.ChannelCredentials | None = None) -> Iterator[grpc.Channel]:
    """Open a channel of grpcio."""
    address = "{}:{}".format(*serving.source.address)
    opened = grpc.secure_channel(address, credentials) if credentials else grpc.insecure_channel(address)
    with opened:
        yield opened


def call(
    opened: grpc.Channel, method: str, body: bytes, compression: grpc.Compression | None = None, **metadata: str
) -> Answer:
    """Send one call; return the code's name, its text, the message, and when to try again."""
    pairs = [(name.replace("_", "-"), value) for name, value in metadata.items()]
    try:
        message = opened.unary_unary(method)(body, timeout=PATIENCE_SECONDS, metadata=pairs, compression=compression)
        return "OK", "", message, None
    except grpc.RpcError as error:
        details = dict(error.trailing_metadata() or ()).get("grpc-status-details-bin")
        return error.code().name, error.details(), b"", retry_info(details) if details else None


def retry_info(details: bytes) -> RetryInfo:
    """Return what is packed in a status."""
    status, retry = Status.FromString(details), RetryInfo()
    assert status.details[0].Unpack(retry)
    return retry


class FrameClient:
    """A connection of HTTP/2 without any manners of its own."""

    def __init__(self, sock: socket.socket) -> None:
        self.socket = sock
        self.state = H2Connection(H2Configuration(client_side=True, header_encoding="utf-8"))
        self.state.config.validate_outbound_headers = False
        self.state.initiate_connection()
        self.events: list[Event] = []
        self.is_closed = False
        self.flush()

    def begin(
        self, method: str = EXPORT["traces"], kind: str = "application/grpc", verb: str = "POST", **more: str
    ) -> int:
        """Send the head of a request."""
        stream = self.state.get_next_available_stream_id()
        head = [(":method", verb), (":path", method), (":scheme", "http"), (":authority", "localhost")]
        self.state.send_headers(
            stream, [*head, ("content-type", kind), *((k.replace("_", "-"), v) for k, v in more.items())]
        )
        self.flush()
        return stream

    def add(self, stream: int, data: bytes, end: bool = False) -> None:
        """Send a part of a body."""
        while len(data) > _FRAME_BYTES:
            self.state.send_data(stream, data[:_FRAME_BYTES])
            data = data[_FRAME_BYTES:]
        self.state.send_data(stream, data, end_stream=end)
        self.flush()

    def flush(self) -> None:
        """Send what the state has."""
        self.socket.sendall(self.state.data_to_send())

    def answer(self, stream: int) -> tuple[dict[str, str], bytes]:
        """Wait for an answer: its headers with its trailers, and its body."""
        self.until(lambda: any(isinstance(event, StreamEnded) and event.stream_id == stream for event in self.events))
        own = [event for event in self.events if getattr(event, "stream_id", 0) == stream]
        heads = [event.headers for event in own if isinstance(event, ResponseReceived | TrailersReceived)]
        body = b"".join(event.data for event in own if isinstance(event, DataReceived))
        return {name: value for head in heads for name, value in head}, body

    def goodbye(self) -> int:
        """Wait until the server closes the connection; return the reason that it gave."""
        self.until(lambda: self.is_closed)
        return next(int(event.error_code) for event in self.events if isinstance(event, ConnectionTerminated))

    def until(self, condition) -> None:
        """Receive until a condition holds."""
        while not condition():
            assert not self.is_closed, "the server has closed the connection"
            try:
                data = self.socket.recv(1 << 16)
            except ConnectionResetError:
                data = b""
            self.is_closed = not data
            self.events += self.state.receive_data(data) if data else []


def framed(message: bytes, is_packed: bool = False) -> bytes:
    """Return a message as gRPC sends it."""
    return bytes([is_packed]) + len(message).to_bytes(4) + message

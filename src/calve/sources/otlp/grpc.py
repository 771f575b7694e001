"""gRPC in terms of HTTP: a call becomes a request of OTLP over HTTP, and its answer a message and a status.

The wire format is gRPC's "gRPC over HTTP2"; when clients try again is OTLP 1, "OTLP/gRPC Throttling".
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from urllib.parse import quote

from calve.sources.http.message import Request, Response
from calve.sources.otlp import answers

__all__ = ["METHODS", "PREFIX_BYTES", "StreamRequest", "adopt", "framed", "message_of", "status_of"]

METHODS = {
    signal: f"/opentelemetry.proto.collector.{package}.v1.{package.capitalize()}Service/Export"
    for signal, package in (("logs", "logs"), ("traces", "trace"), ("metrics", "metrics"))
}
"""The path of the call of each signal."""
PREFIX_BYTES = 5
"""Before a message: whether it is packed, and its length."""
_HEALTH = b"/grpc.health.v1.Health/Check"
_SERVING = b"\x08\x01"
"""`HealthCheckResponse.status`."""
_KINDS = ("application/grpc", "application/grpc+proto")
_PRINTABLE = "".join(map(chr, range(0x20, 0x7F))).replace("%", "")
_MESSAGE_LENGTH = 1000
"""Clients accept a few kilobytes of metadata."""


@dataclass(eq=False)
class StreamRequest(Request):
    """A request on a stream of HTTP/2.

    Attributes:
        stream: The stream's number.
        deadline: When it must have arrived, or be stored.
        is_call: Whether it is of gRPC.
        is_complete: Whether it has arrived.
    """

    stream: int = 0
    deadline: float = 0.0
    is_call: bool = False
    is_complete: bool = False


def adopt(request: StreamRequest) -> None:
    """Turn the head of a call into that of the same request over HTTP; other requests stay as they are."""
    if request.kind not in _KINDS:
        return
    request.is_call = True
    request.headers[b"content-type"] = answers.PROTOBUF.encode()
    request.headers[b"content-encoding"] = request.headers.pop(b"grpc-encoding", b"identity")
    if request.target == _HEALTH and request.method == b"POST":
        request.target, request.method = b"/health", b"GET"


def message_of(request: StreamRequest) -> Response | None:
    """Leave of a call's body its only message; return the refusal if it is something else."""
    head, length = bytes(request.body[:PREFIX_BYTES]), len(request.body) - PREFIX_BYTES
    if length < 0 or int.from_bytes(head[1:]) != length or head[0] > 1:
        return Response(400, "The call has not one message.")
    request.is_packed = head[0] == 1
    if request.is_packed and request.headers[b"content-encoding"] == b"identity":
        return Response(400, "The message is packed, but grpc-encoding does not name how.")
    del request.body[:PREFIX_BYTES]
    return None


def framed(request: Request, response: Response) -> bytes:
    """Return the message of a successful answer, as it is sent."""
    content = _SERVING if request.path == b"/health" else response.content[0] if response.content else b""
    return b"\0" + len(content).to_bytes(4) + content


def status_of(response: Response) -> list[tuple[str, str]]:
    """Return the trailers of an answer; one that names a time for another try has it as `RetryInfo`.

    Not as `google.rpc.retryinfo-bin`, which the SDK for Python reads: it tries six times at most, so with these short
    times it would discard a batch after 5 seconds, which otherwise it tries to send for as long as it may.
    """
    if response.status < 400:
        return [("grpc-status", "0")]
    code, text = answers.code_of(response.status), response.text[:_MESSAGE_LENGTH]
    trailers = [("grpc-status", str(code)), ("grpc-message", quote(text, safe=_PRINTABLE))]
    seconds = dict(response.headers).get("retry-after")
    if seconds is not None:
        details = base64.b64encode(answers.status_message(code, text, int(seconds))).rstrip(b"=").decode()
        trailers.append(("grpc-status-details-bin", details))
    return trailers

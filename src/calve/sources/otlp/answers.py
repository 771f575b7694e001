"""What OTLP over HTTP answers (OTLP 1, "OTLP/HTTP Response"): in the encoding of the request."""

from __future__ import annotations

from dataclasses import replace

import msgspec

from calve.sources.http.body import NOT_AN_ARRAY
from calve.sources.http.message import Request, Response

__all__ = ["JSON", "PROTOBUF", "code_of", "refusal", "status_message", "success"]

JSON = "application/json"
PROTOBUF = "application/x-protobuf"
_REJECTED = {"traces": "rejectedSpans", "logs": "rejectedLogRecords", "metrics": "rejectedDataPoints"}
_AGAIN = {408: 503, 500: 503}
"""Clients only retry 429, 502, 503 and 504; nothing of these requests is kept, either."""
_CODES = {401: 16, 403: 7, 404: 12, 405: 12, 415: 12, 429: 8, 503: 14}
_INVALID = 3
_RETRY_INFO = b"type.googleapis.com/google.rpc.RetryInfo"
"""Of `google.rpc.Code`."""


def success(request: Request, signal: str, rows: int, refused: int, why: str) -> Response:
    """Return the answer to a request whose rows are durable.

    Args:
        request: The request.
        signal: Its signal.
        rows: The accepted records.
        refused: The rejected ones.
        why: The reason.
    """
    if request.kind == JSON:
        partial = {"partialSuccess": {_REJECTED[signal]: str(refused), "errorMessage": why}} if refused else {}
        content = msgspec.json.encode(partial)
    else:
        content = _part(1, _number(refused) + _part(2, why.encode())) if refused else b""
    return Response(200, why if refused else "", (("calve-events", str(rows)),), (content, _kind(request)))


def refusal(request: Request, response: Response) -> Response:
    """Return a refusal with a `Status` of the protocol as its body; what is worth another try is 503."""
    text = response.text.removeprefix(NOT_AN_ARRAY).strip()
    status = _AGAIN.get(response.status, response.status)
    code = code_of(status)
    if request.kind == JSON:
        content = msgspec.json.encode({"code": code, "message": text})
    else:
        content = status_message(code, text)
    headers = response.headers
    if status in (429, 503) and not any(name == "retry-after" for name, _ in headers):
        headers = (*headers, ("retry-after", "1"))
    return replace(response, status=status, text=text, headers=headers, content=(content, _kind(request)))


def code_of(status: int) -> int:
    """Return the code of `google.rpc.Code` for a status of HTTP that is a refusal."""
    return _CODES.get(_AGAIN.get(status, status), _INVALID)


def status_message(code: int, text: str, retry_seconds: int | None = None) -> bytes:
    """Return a `google.rpc.Status`, with a `RetryInfo` if the client should try again."""
    status = _number(code) + _part(2, text.encode())
    if retry_seconds is None:
        return status
    return status + _part(3, _part(1, _RETRY_INFO) + _part(2, _part(1, _number(retry_seconds))))


def _kind(request: Request) -> str:
    return JSON if request.kind == JSON else PROTOBUF


def _number(number: int) -> bytes:
    return b"\x08" + _varint(number)


def _part(field: int, content: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(content)) + content


def _varint(number: int) -> bytes:
    digits = bytearray()
    while number > 0x7F:
        digits.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*digits, number])

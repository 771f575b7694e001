"""Requests of OpenTelemetry's protocol, read by the compiled core (`otlp.rs`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from calve.compiled.events import as_array, call

__all__ = ["SIGNALS", "NotOtlpError", "RequestCounts", "RequestPart", "check", "decode", "encode"]

SIGNALS = ("traces", "logs", "metrics")
"""The signals, in the core's order."""
_MALFORMED = 1


class NotOtlpError(ValueError):
    """A body is not such a message; the text says where."""


class RequestCounts(NamedTuple):
    """How much a request, or a part of it, holds.

    Attributes:
        rows: Its rows.
        records: The records that were met from the beginning of the request on; where the next part begins.
        refused: The records that no row can hold: a count is above 2^63 - 1, or lists are too long.
        has_more: Whether there are records behind the part.
    """

    rows: int
    records: int
    refused: int
    has_more: bool


class RequestPart(NamedTuple):
    """The rows of a part of a request, and how much it holds."""

    batch: pa.RecordBatch
    counts: RequestCounts


def decode(
    signal: str, request: bytes | memoryview, schema: pa.Schema, start: int, most: tuple[int, int]
) -> RequestPart | None:
    """Read a part of a request, or of several requests that are joined; None: it is not valid.

    Args:
        signal: One of `SIGNALS`.
        request: The message of Protobuf.
        schema: The columns of the signal's rows, as the core has them.
        start: How many records are passed over.
        most: About the most rows and bytes of the part; it has one record at least.

    Raises:
        RuntimeError: The core failed, which is a mistake in it.
    """
    first = SIGNALS.index(signal), start, *most
    code, (batch, numbers) = _called("calve_otlp_decode", request, (schema, pa.int64()), *first)
    return None if code == _MALFORMED else RequestPart(batch, _counts(numbers))


def check(signal: str, request: bytes, most: tuple[int, int]) -> RequestCounts | None:
    """Read a request as `decode` does, in half of the time because no rows are kept; None: it is not valid.

    Args:
        signal: One of `SIGNALS`.
        request: The message of Protobuf.
        most: About the most rows, and the most bytes of rows, that are read.

    Raises:
        RuntimeError: The core failed, which is a mistake in it.
    """
    code, (numbers,) = _called("calve_otlp_check", request, (pa.int64(),), SIGNALS.index(signal), *most)
    return None if code == _MALFORMED else _counts(numbers)


def _counts(numbers: pa.Array) -> RequestCounts:
    rows, records, refused, has_more = numbers.to_pylist()
    return RequestCounts(rows, records, refused, bool(has_more))


def encode(signal: str, request: bytes) -> bytes:
    """Return a request of OTLP's JSON as Protobuf, without the interpreter's lock.

    Args:
        signal: One of `SIGNALS`.
        request: The request as JSON.

    Raises:
        NotOtlpError: It is not JSON, or not this message.
        RuntimeError: The core failed, which is a mistake in it.
    """
    code, (text,) = _called("calve_otlp_encode", request, (pa.large_binary(),), SIGNALS.index(signal))
    message: bytes = text[0].as_py()
    if code == _MALFORMED:
        raise NotOtlpError(message.decode())
    return message


def _called(
    function: str, request: bytes | memoryview, kinds: Sequence[pa.DataType | pa.Schema], *first: int
) -> tuple[int, list[Any]]:
    outcome = call(function, as_array(request), kinds, *first)
    if outcome is None:
        raise RuntimeError("The compiled core failed on a request")
    return outcome

"""Bodies of HTTP requests, split by the compiled core (`bodies.rs`); it returns None without it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa

from calve.compiled.events import as_array, call
from calve.compiled.library import load

__all__ = ["BodyRefusal", "SplitBody", "split_body"]


class SplitBody(NamedTuple):
    """The events of a body: how many, their lengths (uint32 each), and their bytes, joined."""

    rows: int
    lengths: bytes
    data: bytes


class BodyRefusal(NamedTuple):
    """Why a body is refused: a sentence for the client, and whether it only has too many events."""

    reason: str
    is_too_large: bool = False


def split_body(body: bytes, most: int) -> SplitBody | BodyRefusal | None:
    """Split a JSON array of objects, one object, or objects in lines, without the interpreter's lock.

    Args:
        body: What the client sent, unpacked.
        most: The most events that it may have.
    """
    outcome = call("calve_split", as_array(body), (pa.binary(), pa.int64()), most) if load() else None
    if outcome is None:
        return None
    code, (events, numbers) = outcome
    if code:
        return _refusal(body, code, *numbers.to_pylist())
    _, ends, data = events.buffers()
    offsets = np.frombuffer(ends, np.int32, len(events) + 1)
    lengths = np.diff(offsets).astype("<u4").tobytes()
    return SplitBody(len(events), lengths, data.to_pybytes()[: offsets[-1]] if data else b"")


def _refusal(body: bytes, code: int, number: int, at: int) -> BodyRefusal:
    match code:
        case 1:
            return BodyRefusal(f"Byte {number} is not UTF-8.")
        case 2:
            return BodyRefusal(f"JSON is malformed (byte {number}).")
        case 3:
            line = body.count(b"\n", 0, at) + 1
            return BodyRefusal(f"Line {line} is not one JSON value (byte {at}).")
        case 4:
            return BodyRefusal(f"Element {number + 1} is not an object.")
    return BodyRefusal("", is_too_large=True)

"""A dead letter: the entry of the dead-letter queue for one rejected event."""

from __future__ import annotations

import base64
import datetime
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
import pyarrow as pa

from calve.event.columns import EVENT, MASKED, ORIGINAL, PART, VERSION, WITHHELD, WORKING_COLUMNS
from calve.event.typed import with_text

__all__ = ["letters", "line"]

_OURS = WORKING_COLUMNS - {PART, VERSION, MASKED, WITHHELD}
_ENCODER = msgspec.json.Encoder()


def letters(events: pa.Table, rejects: pa.Table, labels: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the entry of each rejected row.

    Args:
        events: The rows with their `event` (or its origin: `_original`, `_typed`) and metadata columns.
        rejects: `REJECTS`: positions in `events`, code, field, reason.
        labels: The first keys of all entries: pipeline, sink, table, as far as they are known.
    """
    rows = with_text(events.take(rejects.column("row")))
    metadata = [name for name in rows.column_names if name not in _OURS]
    written = datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    values = rows.select(metadata).to_pylist() if metadata else [{}] * len(rows)
    originals = rows.column(ORIGINAL if ORIGINAL in rows.column_names else EVENT).to_pylist()
    for original, metadata_of_one, reject in zip(originals, values, rejects.to_pylist(), strict=True):
        yield {
            **labels,
            "timestamp": written,
            "reason": reject["reason"],
            "code": reject["code"],
            "field": reject["field"],
            **_original(original),
            "metadata": metadata_of_one,
        }


def line(entry: Mapping[str, Any]) -> bytes:
    """Return an entry as a line of JSON, with its newline."""
    return _ENCODER.encode(entry) + b"\n"


def _original(event: bytes | None) -> dict[str, Any]:
    """Return the original event: as text, or as Base64 if it is not UTF-8."""
    if event is None:
        return {"event": None}
    try:
        return {"event": event.decode()}
    except UnicodeDecodeError:
        return {"event": base64.b64encode(event).decode(), "event_encoding": "base64"}

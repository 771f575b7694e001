"""Rejects: the rejected rows of a table of events, with reason and field."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from typing import NamedTuple

import pyarrow as pa

__all__ = ["REJECTS", "Code", "Reject", "cut", "encodable", "reject_rows", "rejects_table"]

REJECTS = pa.schema(
    [
        pa.field("row", pa.int64()),
        pa.field("code", pa.string()),
        pa.field("field", pa.string()),
        pa.field("reason", pa.string()),
    ]
)
"""One line per rejected row; `row` is the position in the input."""
SHOWN_CHARS = 100
_NONE = REJECTS.empty_table()


class Code(enum.StrEnum):
    """Why an event is in the dead-letter queue (the `code` of an entry)."""

    MALFORMED = "MALFORMED"
    NO_MATCHING_FIELDS = "NO_MATCHING_FIELDS"
    REQUIRED_MISSING = "REQUIRED_MISSING"
    NOT_COERCIBLE = "NOT_COERCIBLE"
    UNKNOWN_OPERATION = "UNKNOWN_OPERATION"
    BAD_TABLE_NAME = "BAD_TABLE_NAME"
    NO_FIELD = "NO_FIELD"
    NO_SUCH_TABLE = "NO_SUCH_TABLE"
    NO_KEY = "NO_KEY"
    KEY_MISMATCH = "KEY_MISMATCH"
    AMBIGUOUS_FIELD = "AMBIGUOUS_FIELD"
    TOO_MANY_COLUMNS = "TOO_MANY_COLUMNS"
    SINK_REFUSED = "SINK_REFUSED"
    EXPRESSION_ERROR = "EXPRESSION_ERROR"
    UNPROCESSABLE = "UNPROCESSABLE"
    PROCESSOR_FAILED = "PROCESSOR_FAILED"
    UNDECODABLE = "UNDECODABLE"
    UNKNOWN_SCHEMA = "UNKNOWN_SCHEMA"
    EXPECTATION_FAILED = "EXPECTATION_FAILED"
    EXPECTATION_STOPS = "EXPECTATION_STOPS"  # no dead letter: it ends the pipeline


class Reject(NamedTuple):
    """One rejected row; `field` is a dotted path or empty, `reason` a short sentence without whole values."""

    row: int
    code: Code
    field: str
    reason: str


def rejects_table(rejects: Iterable[Reject]) -> pa.Table:
    """Return rejects as a table of the schema `REJECTS`, ordered by row."""
    ordered = sorted(rejects)
    if not ordered:
        return _NONE
    columns: list[list[object]] = [
        [reject.row for reject in ordered],
        [reject.code.value for reject in ordered],
        [encodable(reject.field) for reject in ordered],
        [encodable(reject.reason) for reject in ordered],
    ]
    return pa.table(columns, schema=REJECTS)


def reject_rows(rows: pa.Array, code: Code | str, field: str, reason: str) -> pa.Table:
    """Return `REJECTS` for many rows that share code, field and reason; `rows` are their positions (int64)."""
    shared = (Code(code).value, field, reason)
    return pa.table([rows, *(pa.repeat(text, len(rows)) for text in shared)], schema=REJECTS)


def cut(value: object) -> str:
    """Return the text of a value for a reason, cut at 100 characters."""
    text = str(value)
    return text if len(text) <= SHOWN_CHARS else text[:SHOWN_CHARS] + "…"


def encodable(text: str) -> str:
    """Replace half surrogates, which neither Arrow nor JSON can encode."""
    return text.encode("utf-8", "backslashreplace").decode()

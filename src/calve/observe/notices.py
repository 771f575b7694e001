"""Log lines about rejected events and values that were not written: at once, and then as their counts grow.

Each table and code, each table and column, and each table with fields that are not written gets a line when it first
occurs in a run, and another one each time its count has grown tenfold.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

from calve.observe import tally
from calve.observe.batch_counts import BatchCounts
from calve.observe.humanize import harmless, many
from calve.observe.log import Log

__all__ = ["IGNORED_HINT", "NULLED_HINT", "Notices", "reject_hint"]

_KEPT = "To keep such events as dead letters: on_type_mismatch: dlq"
NULLED_HINT = (
    f"{_KEPT}; to keep the values: widen the column, or set its type with column_types when the table is created"
)
IGNORED_HINT = (
    "A field `(in …)` is in the column of the overflow. "
    "To add columns for fields: schema_evolution: true; to omit fields without this notice: exclude_keys or "
    "include_keys; for a repeated key the last value is written; a double of a time is rounded to its column's digits"
)
DERIVED_IDS_HINT = (
    "Their ids follow their positions in the source, so an update of a row becomes another document: name a field that "
    'events have, or an attribute, such as document_id: ${getMetadata("document_id")}'
)
_AS_NULL = "set on_type_mismatch: null if the column is optional"
REJECT_HINTS = {
    "NOT_COERCIBLE": "To write them: change the column's type (ALTER TABLE; column_types for a new table) "
    f"and calve dlq replay, or {_AS_NULL}",
    "AMBIGUOUS_FIELD": "To write them: omit the field with exclude_keys, or name the others with include_keys, and "
    "calve dlq replay",
    "TOO_MANY_COLUMNS": "To write them: omit fields with exclude_keys or include_keys, and calve dlq replay",
    "NO_SUCH_TABLE": "To write them: create the table, and calve dlq replay",
    "REQUIRED_MISSING": "To write them: make the column optional (ALTER TABLE), and calve dlq replay; where the "
    "schema of new events lacks it, on_dropped_column: optional does it",
    "EXPECTATION_FAILED": "To write them: change the rule in expect, or its on_failure, and calve dlq replay",
}
"""Hints by code."""
_OF_ANY_TYPE = (
    "half a surrogate pair is not valid text",
    "a required field is missing or null",
    "a required element is null",
    "a required value is null",
    "two keys are the same value",
    "nested too deeply for a variant",
    "bytes are too many for a variant",
)
"""How reasons end where another type of the column would not help."""
MOST_LINES = 20
"""Maximum number of lines for one batch: a stream of random table names must not fill the log."""
_GROWTH = 10
_FIELDS = 5
_Key = tuple[str, str, str]
_Line = tuple[str, dict[str, Any]]


class Notices:
    """Decides when a count gets a log line, for one pipeline in one run. Thread-safe.

    Args:
        pipeline: Its name.
        show_rejects: The command that shows the rejects.
    """

    def __init__(self, pipeline: str, show_rejects: str = "calve dlq show") -> None:
        self._log = Log(pipeline)
        self._show = f"To see them: {show_rejects}"
        self._lock = threading.Lock()
        self._counts: dict[_Key, int] = {}
        self._due: dict[_Key, int] = {}
        self._fields: dict[str, dict[str, int]] = {}

    def log(self, counts: BatchCounts) -> None:
        """Count the rejects and unwritten values of a batch, and log the lines that are due."""
        with self._lock:
            lines = [*self._rejects(counts), *self._nulled(counts), *self._ignored(counts), *self._derived(counts)]
            lines += self._failed_rules(counts)
        for message, fields in lines[:MOST_LINES]:
            self._log.warning(harmless(message), **fields)
        if len(lines) > MOST_LINES:
            self._log.warning(f"{many(len(lines) - MOST_LINES, 'more notice')} like these; see calve status")

    def _rejects(self, counts: BatchCounts) -> Iterator[_Line]:
        for table, codes in counts.rejects.items():
            for code, count in codes.items():
                if total := self._total(("rejected", table, code), count):
                    reason = _reason(counts.examples, table, code)
                    text = f"{table or 'no table'}: {many(total, 'event')} rejected with {code}{_example(reason)}"
                    hint = ". ".join(filter(None, (self._show, reject_hint(code, reason))))
                    values = harmless(_example(reason))
                    yield text, {"table": table, "code": code, "count": total, "hint": hint, "values": values}

    def _nulled(self, counts: BatchCounts) -> Iterator[_Line]:
        for table, columns in counts.nulled.items():
            for column, count in columns.items():
                if total := self._total(("nulled", table, column), count):
                    reason = _reason(counts.reasons, table, column)
                    text = f"{table}: {many(total, 'value')} of {column} became NULL{_example(reason)}"
                    hint = _KEPT if _is_of_any_type(reason) else NULLED_HINT
                    values = harmless(_example(reason))
                    yield text, {"table": table, "column": column, "count": total, "hint": hint, "values": values}

    def _ignored(self, counts: BatchCounts) -> Iterator[_Line]:
        for table, fields in counts.ignored.items():
            counts_of_table = self._fields.setdefault(table, {})
            tally.add_bounded(counts_of_table, fields)
            if total := self._total(("ignored", table, ""), sum(fields.values())):
                text = (
                    f"{table}: fields not written, with the number of events: {tally.largest(counts_of_table, _FIELDS)}"
                )
                yield text, {"table": table, "count": total, "hint": IGNORED_HINT}

    def _derived(self, counts: BatchCounts) -> Iterator[_Line]:
        for index, documents in counts.derived_ids.items():
            if total := self._total(("derived", index, ""), documents):
                text = f"{index}: document_id has no value in any event of a batch ({many(total, 'document')} so far)"
                yield text, {"table": index, "count": total, "hint": DERIVED_IDS_HINT}

    def _failed_rules(self, counts: BatchCounts) -> Iterator[_Line]:
        for table, rules in counts.failed_rules.items():
            for rule, count in rules.items():
                if total := self._total(("failed", table, rule), count):
                    text = f"{table}: {many(total, 'row')} did not follow the rule {rule}"
                    yield text, {"table": table, "rule": rule, "count": total}

    def _total(self, key: _Key, count: int) -> int:
        """Add to a count; return the total if a line is due, otherwise 0."""
        total = self._counts[key] = self._counts.get(key, 0) + count
        if total < self._due.get(key, 1):
            return 0
        self._due[key] = total * _GROWTH
        return total


def reject_hint(code: str, reason: str) -> str:
    """Return what helps to write events that are rejected with a code, an example of which has a reason."""
    if code == "NOT_COERCIBLE" and _is_of_any_type(reason):
        return f"To write them: {_AS_NULL}, and calve dlq replay"
    if code == "NO_SUCH_TABLE" and reason.endswith("auto_create is off"):
        return "To write them: create the table or set auto_create: true, and calve dlq replay"
    return REJECT_HINTS.get(code, "")


def _is_of_any_type(reason: str) -> bool:
    """Return whether no type of the column would take the value."""
    return reason.endswith(_OF_ANY_TYPE)


def _reason(reasons: dict[str, dict[str, str]], table: str, name: str) -> str:
    return reasons.get(table, {}).get(name, "")


def _example(reason: str) -> str:
    return f", for example: {reason}" if reason else ""

"""Operations of events: the words of Data Prepper's RFC (6.2), of Debezium and of Iceberg's change logs."""

from __future__ import annotations

import enum

__all__ = ["Operation", "operation_of", "operation_sql"]


class Operation(enum.IntEnum):
    """The operation on a row. `SKIPPED` is the image before an update, which is skipped."""

    INSERT = 0
    UPDATE = 1
    DELETE = 2
    SKIPPED = 3


_WORDS = {
    Operation.INSERT: ("", "index", "insert", "create", "c", "i", "r"),
    Operation.UPDATE: ("update", "u", "update_after"),
    Operation.DELETE: ("delete", "d"),
    Operation.SKIPPED: ("update_before",),
}


def operation_of(text: str | None) -> Operation | None:
    """Return the operation of a text, as `operation_sql` does."""
    word = (text or "").lower()
    return next((operation for operation, words in _WORDS.items() if word in words), None)


def operation_sql(text_sql: str) -> str:
    """Return SQL (TINYINT) for an operation's text: an `Operation`, or NULL for an unknown word.

    A text that is absent or empty is an INSERT (design, section 5); case does not matter.
    """
    word = f"coalesce(lower({text_sql}), '')"
    cases = " ".join(f"when {word} in {words!r} then {operation:d}" for operation, words in _WORDS.items())
    return f"(case {cases} end)::tinyint"

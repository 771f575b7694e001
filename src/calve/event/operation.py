"""Operations of events: the words of Data Prepper's RFC (6.2), of Debezium and of Iceberg's change logs."""

from __future__ import annotations

import enum
from collections.abc import Mapping

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


_OF_FULL_ROWS = {
    Operation.INSERT: (*_WORDS[Operation.INSERT], "update_after"),
    Operation.UPDATE: ("update", "u"),
    Operation.DELETE: (*_WORDS[Operation.DELETE], *_WORDS[Operation.SKIPPED]),
}
"""The same for rows without a key: of an update the old row is deleted, and the new one inserted."""


def operation_of(text: str | None, of_full_rows: bool = False) -> Operation | None:
    """Return the operation of a text, as `operation_sql` does."""
    word = (text or "").lower()
    return next((operation for operation, words in _words(of_full_rows).items() if word in words), None)


def operation_sql(text_sql: str, of_full_rows: bool = False) -> str:
    """Return SQL (TINYINT) for an operation's text: an `Operation`, or NULL for an unknown word.

    A text that is absent or empty is an INSERT (design, section 5); case does not matter.

    Args:
        text_sql: SQL of the text.
        of_full_rows: Whether rows have no key, so that the images of an update are a DELETE and an INSERT.
    """
    word = f"coalesce(lower({text_sql}), '')"
    cases = " ".join(
        f"when {word} in ({', '.join(map(repr, words))}) then {operation:d}"
        for operation, words in _words(of_full_rows).items()
    )
    return f"(case {cases} end)::tinyint"


def _words(of_full_rows: bool) -> Mapping[Operation, tuple[str, ...]]:
    return _OF_FULL_ROWS if of_full_rows else _WORDS

"""Compiled expressions of processors, and their evaluation in tasks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from calve.event import duckdb_session
from calve.event.columns import JSON
from calve.expression.condition import Condition
from calve.expression.format import Format

__all__ = ["Evaluation", "Expression"]

_VOLATILE = ("now()", "uuid()")
_MEMO = 20_000
"""The most results of one expression that a task remembers."""


@dataclass(frozen=True)
class Expression:
    """A compiled expression; pickled into the tasks.

    Attributes:
        sql: Its value over a relation with `json` and the metadata columns.
        fields: The fields of the event that it reads; None: possibly any.
        metadata: The metadata attributes that it reads.
    """

    sql: str
    fields: tuple[str, ...] | None
    metadata: tuple[str, ...]

    @staticmethod
    def of(compiled: Condition | Format) -> Expression:
        """Return a compiled condition or format string."""
        fields = None if compiled.fields is None else tuple(sorted(compiled.fields))
        return Expression(compiled.sql, fields, tuple(sorted(compiled.metadata)))

    @property
    def is_pure(self) -> bool:
        """Whether events with equal fields have equal values, so that a value can be remembered."""
        return self.fields is not None and not self.metadata and not any(word in self.sql for word in _VOLATILE)


class Evaluation:
    """Evaluates one expression in a task, and remembers its values.

    Attributes:
        expression: The expression.
    """

    def __init__(self, expression: Expression) -> None:
        self.expression = expression
        self._memo: dict[str, Any] = {}

    def of_fields(self, texts: Sequence[str]) -> list[Any]:
        """Return the values for JSON objects of the fields that a pure expression reads."""
        memo = self._memo
        unknown = [text for text in dict.fromkeys(texts) if text not in memo]
        if unknown:
            if len(memo) + len(unknown) > _MEMO:
                memo = self._memo = {}
                unknown = list(dict.fromkeys(texts))
            memo.update(zip(unknown, self.of_events(pa.table({JSON: pa.array(unknown, pa.string())})), strict=True))
        return [memo[text] for text in texts]

    def of_events(self, events: pa.Table) -> list[Any]:
        """Return the values for events, with `json` and the metadata columns."""
        values: list[Any] = duckdb_session.run(f"select {self.expression.sql} as value from events", events=events)[
            "value"
        ].to_pylist()
        return values

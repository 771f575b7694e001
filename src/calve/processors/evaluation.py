"""Evaluates the expressions of processors in tasks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from calve.event import duck
from calve.event.columns import JSON
from calve.processors.compiled import Expression

__all__ = ["Evaluation"]

_MEMO = 20_000
"""The most results of one expression that a task remembers."""


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
        found: list[Any] = duck.run(f"select {self.expression.sql} as value from events", events=events)[
            "value"
        ].to_pylist()
        return found

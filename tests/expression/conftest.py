"""Evaluates expressions in DuckDB, many rows at once."""

from __future__ import annotations

import json
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from calve.expression import compile_condition, compile_format


class Evaluator:
    """`holds` and `shows` give one result per event, or the only one for a single event."""

    def __init__(self) -> None:
        self.connection = duckdb.connect(config={"threads": 1})

    def holds(self, text: str, *events: Any, **metadata: Any) -> Any:
        return self.run(compile_condition(text, metadata).sql, events, metadata)

    def shows(self, text: str, *events: Any, **metadata: Any) -> Any:
        return self.run(compile_format(text, metadata).sql, events, metadata)

    def run(self, sql: str, events: tuple[Any, ...], metadata: dict[str, Any]) -> Any:
        texts = [event if isinstance(event, str) else json.dumps(event) for event in events or ({},)]
        columns = {"json": texts, **{name: [value] * len(texts) for name, value in metadata.items()}}
        rows = pa.table(columns)
        found = self.connection.execute(f"SELECT {sql} FROM rows").fetchall()
        assert rows.num_rows == len(found)
        results = [result for (result,) in found]
        return results if len(events) > 1 else results[0]


@pytest.fixture(scope="session")
def evaluator():
    return Evaluator()


@pytest.fixture(scope="session")
def holds(evaluator):
    return evaluator.holds


@pytest.fixture(scope="session")
def shows(evaluator):
    return evaluator.shows

"""The examples of the page about expressions are true, and it has every function."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from calve.expression.format import compile_value
from calve.expression.functions import _NAMES
from kit.documents import runnable

PAGE = (Path(__file__).parents[2] / "docs" / "expressions.md").read_text()
[_EVENT] = runnable("docs/expressions.md")
EVENT = json.loads(_EVENT)
TABLES = re.findall(r"^\| expression \| value \|\n\|.*\n((?:\|.*\n)+)", PAGE, re.MULTILINE)
ROWS = [re.fullmatch(r"\| `(.*)` \| (.*) \|", line) for table in TABLES for line in table.splitlines()]
EXAMPLES = [(row[1].replace(r"\|", "|"), row[2].strip("`").replace(r"\|", "|")) for row in ROWS if row]


@pytest.mark.parametrize(("expression", "value"), EXAMPLES)
def test_an_example_has_its_value(evaluator, expression: str, value: str) -> None:
    found = evaluator.run(compile_value(expression).sql, (EVENT,), {})
    assert (None if found is None else json.loads(found)) == (None if value == "no result" else json.loads(value))
    assert (found is None) == (value == "no result")


def test_every_row_is_an_example_and_every_function_is_explained() -> None:
    assert len(EXAMPLES) == len(ROWS) > 50
    assert [name for name in _NAMES if f"`{name}(" not in PAGE and f"`{name}`" not in PAGE] == []

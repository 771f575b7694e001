"""Says where each statement of a section of a reference is tested, or which page names Calve's deliberate difference."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from functools import cache
from pathlib import Path

__all__ = ["missing"]

ROOT = Path(__file__).parents[2]


def missing(statements: Mapping[str, str]) -> dict[str, str]:
    """Return the statements whose place is not there.

    Args:
        statements: Each with its places, one a line: `convert/test_x.py::test_y` below `tests`, or
            `docs/x.md: words of the page`.
    """
    return {
        statement: place
        for statement, places in statements.items()
        for place in map(str.strip, places.splitlines())
        if not (_is_on_page(place) if place.startswith("docs/") else _is_test(place))
    }


def _is_on_page(place: str) -> bool:
    page, _, words = place.partition(": ")
    return " ".join(words.split()) in " ".join((ROOT / page).read_text(encoding="utf-8").split())


def _is_test(place: str) -> bool:
    path, _, name = place.partition("::")
    return name in _tests(ROOT / "tests" / path)


@cache
def _tests(path: Path) -> frozenset[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))

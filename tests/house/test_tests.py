"""Where tests and what they share are."""

from __future__ import annotations

import ast
import importlib.util
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).parents[1]
RUNNERS = {"conftest", "share", "shares", "audit"}


def imported(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module


def exists(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def test_what_tests_share_is_in_a_folder_and_not_at_the_root() -> None:
    """`kit` has what tests of several folders share, `services` the servers; a helper of one folder stays in it."""
    assert {path.stem for path in TESTS.glob("*.py") if not path.name.startswith("test_")} == RUNNERS


def test_the_modules_that_tests_import_from_tests_exist() -> None:
    """Each process of the tests would end with it, and `make check` looks at the types of `src` alone."""
    folders = [path.name for path in TESTS.iterdir() if path.is_dir()]
    modules = {
        name for folder in (TESTS, TESTS.parent / "bench") for path in folder.rglob("*.py") for name in imported(path)
    }
    own = {name for name in modules if name.partition(".")[0] in {*folders, *RUNNERS}}
    roots = {path.stem for path in (TESTS / "kit").glob("*.py")}
    assert [name for name in own if not exists(name)] == []
    assert modules & roots == set(), "from kit.… import …"

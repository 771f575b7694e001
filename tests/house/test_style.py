"""The laws of the house that a reader relies on; there is no list of exemptions."""

from __future__ import annotations

import ast
import functools
import re
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "calve"
MODULES = {path.relative_to(SOURCE).as_posix(): path for path in sorted(SOURCE.rglob("*.py"))}
BANNED = {"utils", "helpers", "common", "core", "base", "types", "misc", "manager", "handler"}
NAMELESS = {"found", "one", "each", "made", "known", "shown", "left", "taken", "told"}
MODULE_LINES, FUNCTION_LINES, PARAMETERS, NESTING = 400, 50, 6, 3
BLOCKS = (ast.If, ast.For, ast.While, ast.With, ast.Try, ast.Match, ast.AsyncFor, ast.AsyncWith)
Function = ast.FunctionDef | ast.AsyncFunctionDef


def every_module(law: Callable[[Path], None]) -> Callable[[], None]:
    """Make one test of a law that holds for each module: one for each of them would be half of all tests."""

    def test() -> None:
        broken = {}
        for name, path in MODULES.items():
            try:
                law(path)
            except AssertionError as error:
                broken[name] = str(error)
        assert broken == {}

    test.__name__ = law.__name__
    return test


@functools.cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def functions(path: Path) -> Iterator[Function]:
    return (node for node in ast.walk(tree(path)) if isinstance(node, Function))


def exported(path: Path) -> list[str] | None:
    for node in tree(path).body:
        if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == "__all__" for t in node.targets):
            return list(ast.literal_eval(node.value))
    return None


def public_names(path: Path) -> set[str]:
    found: set[str] = set()
    for node in tree(path).body:
        if isinstance(node, Function | ast.ClassDef):
            found.add(node.name)
    return {name for name in found if not name.startswith("_")}


def variables(function: Function) -> set[str]:
    """Return the names of a function's parameters and locals, also those of its lambdas and comprehensions."""
    names: set[str] = set()
    nodes: list[ast.AST] = [function.args, *function.body]
    while nodes:
        node = nodes.pop()
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                continue  # a scope of its own
            case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name):
                names.add(name)
            case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                names.add(name)
        nodes.extend(ast.iter_child_nodes(node))
    return names


def nameless(function: Function) -> set[str]:
    names = variables(function)
    return (names & NAMELESS) - ({"left"} if "right" in names else set())


def depth(node: ast.AST, inside: int = 0) -> int:
    deepest = inside
    for child in ast.iter_child_nodes(node):
        if isinstance(child, Function | ast.ClassDef | ast.Lambda):
            continue
        is_elif = isinstance(node, ast.If) and isinstance(child, ast.If) and node.orelse == [child]
        deepest = max(deepest, depth(child, inside + (isinstance(child, BLOCKS) and not is_elif)))
    return deepest


@every_module
def test_a_module_fits_in_the_head(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= MODULE_LINES


@every_module
def test_a_function_is_short_flat_and_takes_few_parameters(path: Path) -> None:
    wrong = []
    for node in functions(path):
        arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
        count = len([argument for argument in arguments if argument.arg not in ("self", "cls")])
        lines = (node.end_lineno or 0) - node.lineno + 1
        if is_command(node):
            count = 0  # one parameter for each of a command's options
        if lines > FUNCTION_LINES or count > PARAMETERS or depth(node) > NESTING:
            wrong.append(f"{node.name}: {lines} lines, {count} parameters, {depth(node)} deep")
    assert wrong == []


def is_command(node: Function) -> bool:
    return any(re.search(r"\.command\(|\.group\(", ast.unparse(decorator)) for decorator in node.decorator_list)


@every_module
def test_names_say_what_is_inside(path: Path) -> None:
    assert path.stem not in BANNED
    assert not any(part in BANNED for part in path.relative_to(SOURCE).parts)


@every_module
def test_a_variable_is_named_after_what_it_is(path: Path) -> None:
    """`found` or `each` tells how something came here, and its reader searches the function for what it is.

    Name the thing: `schema`, `split`, `rejects`. The operand `left` is one where `right` is the other.
    """
    wrong = {f"{node.name}: {', '.join(sorted(names))}" for node in functions(path) if (names := nameless(node))}
    assert wrong == set()


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("def f(found): return found", {"found"}),
        ("def f(*, known=None): pass", {"known"}),
        ("def f(*told): pass", {"told"}),
        ("async def f(): made = 1", {"made"}),
        ("def f(rows):\n    for at, one in rows: pass", {"one"}),
        ("def f(rows): return [each for each in rows], sorted(rows, key=lambda shown: shown.at)", {"each", "shown"}),
        ("def f(rows):\n    while taken := rows.pop(): pass", {"taken"}),
        ("def f():\n    try: g()\n    except OSError as known: pass", {"known"}),
        ("def f(row):\n    match row:\n        case [found, *taken]: pass", {"found", "taken"}),
        ("def f(most): left = most", {"left"}),
        ("def f(left, right): return left < right", set()),
        ("def f(left):\n    def g(right): return right", {"left"}),
        ("def f(rows): return rows.found(left=rows.left)", set()),
        ("def f(found_rows, none_left): return shown(found_rows)", set()),
    ],
)
def test_nameless_variables_are_seen(source: str, names: set[str]) -> None:
    [function, *_] = ast.parse(source).body
    assert isinstance(function, Function)
    assert nameless(function) == names


@every_module
def test_the_public_names_of_a_module_are_complete(path: Path) -> None:
    if path.name in ("__init__.py", "__main__.py"):
        return
    assert public_names(path) <= set(exported(path) or []), "missing in __all__"


@pytest.mark.parametrize("name", [name for name in MODULES if name.endswith("__init__.py")])
def test_a_package_file_holds_names_only(name: str) -> None:
    for node in tree(MODULES[name]).body:
        is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        is_lazy = isinstance(node, ast.FunctionDef) and node.name in ("__dir__", "__getattr__")
        names = isinstance(node, ast.Import | ast.ImportFrom | ast.Assign | ast.If)
        assert is_text or is_lazy or names, ast.unparse(node)


@every_module
def test_exceptions_end_in_error(path: Path) -> None:
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.ClassDef) and any(re.search(r"(Error|Exception)$", ast.unparse(b)) for b in node.bases):
            assert re.search(r"Errors?$", node.name), node.name


def test_a_public_class_has_a_name_of_its_own() -> None:
    modules_of: dict[str, list[str]] = {}
    for name, path in MODULES.items():
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                modules_of.setdefault(node.name, []).append(name)
    assert {name: modules for name, modules in modules_of.items() if len(modules) > 1} == {}


def test_nothing_is_left_for_later() -> None:
    marker = re.compile("|".join(("TO" + "DO", "FIX" + "ME")))
    files = [path for folder in ("src", "tests", "bench") for path in (ROOT / folder).rglob("*.py")]
    assert [str(path) for path in files if marker.search(path.read_text())] == []


@every_module
def test_java_is_in_files_of_its_own(path: Path) -> None:
    """Editors and readers know what it is there, and its line numbers in errors are those of the file."""
    texts = [one.value for one in ast.walk(tree(path)) if isinstance(one, ast.Constant) and isinstance(one.value, str)]
    assert [text for text in texts if re.search(r"^(import [\w.]+;|public class )", text, re.M)] == []


@every_module
def test_java_that_a_module_compiles_is_in_its_folder(path: Path) -> None:
    named = re.findall(r"java_class\(.*__name__, \"(\w+)\"\)", path.read_text())
    assert [name for name in named if not path.with_name(f"{name}.java").is_file()] == []


def test_java_files_are_in_the_package() -> None:
    patterns = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]["calve"]
    files = set(SOURCE.rglob("*.java"))
    assert files
    assert files - {file for pattern in patterns for file in SOURCE.glob(pattern)} == set()


def test_every_line_of_the_log_names_its_pipeline_as_one_module_writes_them():
    found = {name for name, path in MODULES.items() if "logging.getLogger(" in path.read_text()}
    assert found == {"observe/log.py", "engine/session.py"}  # the second one makes py4j quiet


def test_commands_print_through_the_module_that_escapes():
    prints = re.compile(r"\bprint\(|click\.s?echo\(")
    found = {name for name, path in MODULES.items() if name.startswith("cli/") and prints.search(path.read_text())}
    assert found == {"cli/output.py", "cli/demo.py", "cli/doctor.py"}


def test_nothing_starts_processes_for_tasks_but_spark():
    """Commands are started here: Java, the dashboard and its actions, the demo, a compiler, a reader of broken files."""
    forks = re.compile(
        r"\bmultiprocessing\b|\bos\.(fork|posix_spawn|spawn|exec|popen|system)|ProcessPool|create_subprocess"
    )
    assert {name for name, path in MODULES.items() if forks.search(path.read_text())} == set()
    starts = {name for name, path in MODULES.items() if "subprocess." in path.read_text()}
    engine = {f"engine/{name}.py" for name in ("jvm/archive", "jvm/jdk", "jvm/process", "pyspark_private")}
    assert starts == engine | {
        "cli/demo.py",
        "compiled/build.py",
        "dashboard/actions.py",
        "dashboard/beside.py",
        "sources/file/orc.py",
    }


def test_nothing_that_a_state_or_a_store_has_is_unpickled():
    """Objects go between driver and tasks by Spark's own pickles; what is stored is JSON, Arrow, Parquet or SQLite."""
    readers = re.compile(r"\b(pickle|cloudpickle|marshal|shelve|dill|joblib|allow_pickle|ObjectInputStream)\b(?! into)")
    code = {name: re.sub(r'""".*?"""|#.*', "", path.read_text(), flags=re.DOTALL) for name, path in MODULES.items()}
    java = {path.name: path.read_text() for path in SOURCE.rglob("*.java")}
    assert [name for name, text in {**code, **java}.items() if readers.search(text)] == []


def test_structs_are_read_by_one_module():
    """`structs` says why; values of Python's own types need no care."""
    typed = re.compile(r"msgspec\.convert\(|json\.(?:decode\(.*type=|Decoder\()[\w\[, ]*(?:[A-Z]|kind)")
    found = {name for name, path in MODULES.items() if typed.search(path.read_text().replace("msgspec.Raw", "raw"))}
    assert found == {"structs.py"}

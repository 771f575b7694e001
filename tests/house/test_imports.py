import ast
import functools
import re
import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path

from calve.compiled import build

DRIVER = {"acknowledge", "catalog", "cli", "commit", "ledger", "maintenance", "operate", "pipeline"}
ROOT = Path(__file__).parents[2]
RECURSIVE = {"object_columns": "column", "protobuf/map": "protobuf/field", "protobuf/message": "protobuf/field"}
"""Modules of the core whose types contain each other, as data does: a column of structs has a level of columns."""
CORE = build.CORE / "src"
SOURCES = ("file", "http", "iceberg", "kafka")


def test_imports_point_one_way() -> None:
    law = Path(__file__).with_name("imports.ini")
    # A process of its own: the linter sets up logging and silences the loggers of other tests.
    command = [Path(sys.executable).with_name("lint-imports"), "--config", law, "--no-cache"]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_executor_code_imports_no_driver_code() -> None:
    modules = "calve.task.task", "calve.sinks.opensearch.documents", *(f"calve.sources.{one}.reader" for one in SOURCES)
    program = f"import sys, {', '.join(modules)}; print(*sys.modules)"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    rooms = {tuple(name.split(".")[:2]) for name in ran.stdout.split()}
    assert ("calve", "task") in rooms
    assert sorted(room for kind, *rest in rooms for room in rest if kind == "calve" and room in DRIVER) == []


@functools.cache
def names_in(module: str) -> set[str]:
    """Return the names of a module of Calve: what it defines, imports or makes on demand, and the modules below it."""
    folder = ROOT.joinpath("src", *module.split("."))
    file = folder / "__init__.py" if folder.is_dir() else folder.with_suffix(".py")
    names = {path.stem for path in folder.glob("*")}
    for node in ast.walk(ast.parse(file.read_text())):
        match node:
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.Name(id=name, ctx=ast.Store()):
                names.add(name)
            case ast.alias(name=name, asname=other):
                names.add(other or name)
            case ast.Constant(value=str(name)) if file.name == "__init__.py":
                names.add(name)
    return names


def test_benchmarks_and_tests_import_what_there_is() -> None:
    """Long runs (fuzz, soak, benchmarks) are not part of the suite; a rename must not break them unseen."""
    missing = []
    files = {*ROOT.glob("bench/**/*.py"), *ROOT.glob("tests/**/*.py")} - {*ROOT.glob("tests/contract/new/**/*.py")}
    for path in sorted(files):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "calve":
                absent = {alias.name for alias in node.names} - names_in(node.module or "")
                missing += [f"{path.relative_to(ROOT)}: {node.module}.{name}" for name in sorted(absent)]
    assert missing == []


def test_modules_of_the_core_use_each_other_in_no_circle_but_for_types_that_contain_each_other() -> None:
    sources = {path.relative_to(CORE).with_suffix("").as_posix(): path for path in CORE.rglob("*.rs")}
    uses: dict[str, set[str]] = {}
    for name, path in sources.items():
        paths = re.findall(r"\bcrate((?:::\w+)+)", re.sub(r"//.*", "", path.read_text()))
        parts = [path.split("::")[1:] for path in paths]
        prefixes = (["/".join(part[:end]) for end in range(len(part), 0, -1)] for part in parts)
        used = (next(filter(sources.__contains__, names), "lib") for names in prefixes)
        uses.setdefault(RECURSIVE.get(name, name), set()).update(RECURSIVE.get(module, module) for module in used)
    assert uses["text"] == {"needs_exact"}
    order = TopologicalSorter({name: used - {name} for name, used in uses.items()})
    order.prepare()  # raises for a circle

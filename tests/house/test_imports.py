import re
import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path

from calve.compiled import build

DRIVER = {"acknowledge", "catalog", "cli", "commit", "ledger", "maintenance", "operate", "pipeline"}
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

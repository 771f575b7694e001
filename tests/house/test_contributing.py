"""The pages of CONTRIBUTING are true: their processor, their command and their type work, no module that knows a form is
missing, and the walk of an event is that of the code."""

from __future__ import annotations

import ast
import pkgutil
import re
import sys
from pathlib import Path
from types import ModuleType

import pyarrow as pa
import pytest
from click.testing import CliRunner
from pyiceberg.schema import Schema
from pyiceberg.types import NestedField

import calve
from calve.cli import main
from calve.columns.core_spec import table_spec
from calve.columns.options import ConvertOptions
from calve.convert.scalar import reader
from calve.event.exact_json import Number
from calve.pipeline.plugins import PLUGINS
from calve.processors.registry import PROCESSORS
from calve.settings import reference
from calve.table import kinds
from calve.table.arrow_schema import arrow_type
from calve.table.ddl import type_sql
from calve.table.type_text import parse_type
from kit.documents import runnable

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "CONTRIBUTING.md").read_text()
CONFIG = {
    "p": {
        "source": {"file": {"path": "in/*.ndjson"}},
        "processor": [{"reverse_string": {"with_keys": ["name"]}}],
        "sink": [{"iceberg": {"table_identifier": "a.b", "auto_create": True}}],
    }
}


def section(title: str) -> str:
    """Return the text of a section."""
    [text] = re.findall(rf"^## {title}\n(.*?)(?=^## |\Z)", PAGE, re.DOTALL | re.MULTILINE)
    return text


def module_of(title: str, name: str) -> ModuleType:
    """Return a module with the code of a section."""
    [code] = [block for block in runnable("CONTRIBUTING.md") if block in section(title)]
    module = ModuleType(name)
    sys.modules[name] = module
    exec(compile(code, name, "exec"), module.__dict__)
    return module


def test_a_processor_is_added_by_a_class_and_a_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "calve.processors.reverse", None)
    processor = module_of("Add a processor", "calve.processors.reverse").ReverseString
    monkeypatch.setitem(PROCESSORS, "reverse_string", processor)
    good, bad, other = calve.try_events(CONFIG, [{"name": "abc", "n": 1.50}, {"name": 7}, {"n": 2}]).events
    assert good.processed[-1].after == ['{"name":"cba","n":1.5}']
    assert [(reject.code, reject.field) for reject in bad.rejects] == [("PROCESSOR_FAILED", "name")]
    assert not other.processed
    assert not other.rejects
    assert "## Processor `reverse_string`\n\nReverses strings." in reference(PLUGINS)
    wrong = {"p": {**CONFIG["p"], "processor": [{"reverse_string": {"with_keys": []}}]}}
    assert "with_keys" in str(calve.validate(wrong).errors)


def test_a_command_is_added_by_a_module_and_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "calve.cli.greet", None)
    module_of("Add a command", "calve.cli.greet")
    monkeypatch.setitem(main.COMMANDS, "greet", "Greet a pipeline.")
    greeted = CliRunner().invoke(main.calve, ["greet", "orders", "--state", "s"])
    assert (greeted.exit_code, greeted.output) == (0, "orders: hello, your state is in s\n")
    assert "Greet a pipeline." in CliRunner().invoke(main.calve, ["greet", "--help"]).output
    assert CliRunner().invoke(main.calve, ["greet"]).exit_code == 2


def test_a_type_is_added_by_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    row = module_of("Add a type or a cast", "calve.table.year").YEAR
    monkeypatch.setitem(kinds._BY_TYPE, row.kind, row)
    monkeypatch.setitem(kinds._BY_WORD, row.word, row)
    kind = parse_type("list<year>").element_type
    assert (kind, str(kind), type_sql(kind), arrow_type(kind)) == (row.kind(), "year", "year", pa.int32())
    assert reader(kind)(Number("2026.0")) == 2026
    assert table_spec(Schema(NestedField(1, "y", kind)), ConvertOptions())[-1] == "int"


def test_every_module_that_has_an_answer_for_a_form_is_on_the_page() -> None:
    page = section("Add a type or a cast")
    named = set(re.findall(r"`((?:src|core)/[\w/.]+)`", page))
    assert sorted(name for name in named if not (ROOT / name).exists()) == []
    odd = re.compile(
        r"\b(?:UUIDType|TimeType|Timestamp(?:tz)?NanoType)\b|case \"(?:whole|base64|digits)\"|\"base64\": {"
    )
    sources = (path for path in (ROOT / "src").rglob("*.py") if odd.search(path.read_text()))
    assert sorted({path.relative_to(ROOT).as_posix() for path in sources} - named) == []


def test_the_walk_of_an_event_has_at_most_thirty_functions_each_called_from_a_module_before_it() -> None:
    steps = re.findall(r"^(\d+)\. `([\w.]+)`", section("The walk of an event"), re.MULTILINE)
    assert [int(number) for number, _ in steps] == list(range(1, len(steps) + 1))
    assert 20 < len(steps) <= 30
    called, unreached = {"run"}, []
    for _, name in steps:
        assert callable(pkgutil.resolve_name(name))
        if name.rpartition(".")[2] not in called:
            unreached.append(name)
        nodes = list(ast.walk(ast.parse(source_of(name))))
        called |= {node.attr for node in nodes if isinstance(node, ast.Attribute)}
        called |= {node.id for node in nodes if isinstance(node, ast.Name)}
    assert unreached == []


def source_of(name: str) -> str:
    """Return the text of the module of a function or a method."""
    path = ROOT / "src" / f"{name.replace('.', '/')}.py"
    while not path.is_file():
        path = path.parent.with_suffix(".py")
    return path.read_text()

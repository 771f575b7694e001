"""What the documents show is true: each pipeline is one that Calve takes, each command and option is there."""

import json
import re
from pathlib import Path

import pytest
from click import Context

from calve.cli.main import calve
from calve.pipeline.plugins import PLUGINS
from calve.settings import json_schema, parse_text, reference

ROOT = Path(__file__).parents[2]
DOCUMENTS = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
TEXTS = {path.relative_to(ROOT).as_posix(): path.read_text() for path in DOCUMENTS}
PIPELINES = [
    pytest.param(block, id=f"{name}:{text[: text.index(block)].count(chr(10)) + 1}")
    for name, text in TEXTS.items()
    for block in re.findall(r"^```yaml\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
]
COMMANDS = sorted(calve.list_commands(Context(calve)))


@pytest.mark.parametrize("text", PIPELINES)
def test_every_pipeline_in_the_documents_is_one_that_calve_takes(text: str) -> None:
    variables = dict.fromkeys(re.findall(r"\$\{env:(\w+)\}", text), "value")
    assert parse_text(text, PLUGINS, environment=variables)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_is_in_the_readme(command: str) -> None:
    assert f"calve {command}" in TEXTS["README.md"] or f"make {command}" in TEXTS["README.md"]


def test_every_command_that_the_documents_name_is_there() -> None:
    named = {name for text in TEXTS.values() for name in re.findall(r"(?:^|[`/])calve ([a-z]+)\b", text, re.MULTILINE)}
    assert sorted(named - set(COMMANDS)) == []


def test_every_make_target_that_the_readme_names_is_there() -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = {name for text in TEXTS.values() for name in re.findall(r"(?:^|`)make ([a-z]+)\b", text, re.MULTILINE)}
    assert sorted(named - targets) == []


def test_the_readme_stays_short() -> None:
    assert len(TEXTS["README.md"].splitlines()) <= 150


def test_the_reference_and_the_schema_are_those_of_the_code() -> None:
    assert TEXTS["docs/reference.md"].strip() == reference(PLUGINS).strip(), "run `make docs`"
    assert json.loads((ROOT / "docs" / "schema.json").read_text()) == json_schema(PLUGINS), "run `make docs`"

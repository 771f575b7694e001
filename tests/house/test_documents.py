"""What the documents show is true: each pipeline is one that Calve takes, each command and option is there."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import click
import pytest
from click import Context

from calve.cli.main import calve
from calve.observe import monitoring
from calve.pipeline.plugins import PLUGINS
from calve.settings import json_schema, notify, otlp, parse_text, reference
from kit import documents
from kit.command_lines import check_arguments, command_lines, commands
from matrix import record

ROOT = Path(__file__).parents[2]
TEXTS = documents.PAGES
COMMANDS = sorted(calve.list_commands(Context(calve)))
OTHER_NAMES = {"masked", "orders", "uri"}
"""Keys of other programs' YAML, and names that a user chooses."""
LANGUAGES = {"", "yaml", "sh", "console", "json", "sql", "python", "properties"}


BLOCKS = list(documents.blocks())


def errors_of(language: str, check: Callable[[str], object]) -> dict[str, str]:
    """Return the place of each block of a language that fails its check, with the error."""
    wrong = {}
    for block in BLOCKS:
        if block.language == language and not block.unchecked:
            try:
                check(block.text)
            except Exception as error:
                wrong[block.place] = str(error)
    return wrong


def test_every_pipeline_in_the_documents_is_one_that_calve_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    for settings in (notify, otlp):
        monkeypatch.setattr(settings, "is_installed", lambda module: True)

    def check(text: str) -> None:
        variables = dict.fromkeys(re.findall(r"\$\{env:(\w+)\}", text), "a value that is long")
        assert parse_text(text, PLUGINS, environment=variables).pipelines

    assert errors_of("yaml", check) == {}


def test_every_command_line_in_the_documents_is_one_that_calve_has() -> None:
    def check(text: str) -> None:
        for words in command_lines(text):
            check_arguments(words)

    assert errors_of("", check) | errors_of("sh", check) | errors_of("console", check) == {}
    assert sum(len(list(command_lines(block.text))) for block in BLOCKS) > 25


def test_every_command_that_a_sentence_names_is_one_that_calve_has() -> None:
    wrong = {}
    for name, text in TEXTS.items():
        for line in re.findall(r"`(calve [a-z][^`\n]*)`", text):
            try:
                check_arguments(*command_lines(line), may_lack=True)
            except (click.UsageError, ValueError) as error:
                wrong[f"{name}: {line}"] = str(error)
    assert wrong == {}


def test_every_example_in_the_help_is_one_that_calve_has() -> None:
    wrong = {}
    for name, command in commands():
        for words in command_lines(re.sub(r" {2,}[a-z].*", "", command.help or "")):
            try:
                check_arguments(words)
            except click.UsageError as error:
                wrong[f"{name}: {words}"] = str(error)
    assert wrong == {}


def test_json_and_python_in_the_documents_are_well_formed() -> None:
    assert errors_of("json", json.loads) == {}
    assert errors_of("python", lambda text: compile(text, "a document", "exec")) == {}


def test_every_block_has_a_language_that_is_checked() -> None:
    assert {block.place: block.language for block in BLOCKS if block.language not in LANGUAGES} == {}
    assert len(BLOCKS) == sum(len(re.findall(r"^ *```", text, re.MULTILINE)) for text in TEXTS.values()) / 2


def test_every_block_is_run_by_a_test_or_says_why_it_cannot_be() -> None:
    tests = "".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
    pages = {block.page for block in BLOCKS if block.language != "yaml" and not block.not_run}
    forgotten = sorted(page for page in pages if f'runnable("{page}")' not in tests)
    assert forgotten == [], "run their blocks in a test, or write <!-- not run: reason --> in the line before a block"
    named = [path for block in BLOCKS for path in re.findall(r"tests/[\w/.]+", block.not_run)]
    assert [path for path in named if not (ROOT / path).exists()] == []


def test_a_block_in_a_list_is_indented_by_four_so_that_the_list_of_the_site_goes_on() -> None:
    assert [page for page, text in TEXTS.items() if re.search(r"^ {1,3}```", text, re.MULTILINE)] == []


def test_every_table_begins_with_its_head_after_an_empty_line() -> None:
    rows = re.compile(r"^(.*)\n\|.*\n(.*)", re.MULTILINE)
    heads = {
        f"{page}: {before}": head
        for page, text in TEXTS.items()
        for before, head in rows.findall(text)
        if not before.startswith("|")
    }
    assert {
        place: head for place, head in heads.items() if not re.fullmatch(r"[|: -]+", head) or place[-1] != " "
    } == {}


def test_every_option_that_a_sentence_sets_is_one_that_calve_has() -> None:
    """In a sentence a part of a YAML stands between backquotes: `name: value`."""
    names = set(re.findall(r'"([a-z_]+)": \{', json.dumps(json_schema(PLUGINS)))) | OTHER_NAMES
    wrong = {}
    for page, text in TEXTS.items():
        if not re.match(r"CHANGELOG|docs/(reference|metrics|decisions/)", page):
            for part in re.findall(r"`([a-z_]+: [^`]+)`", re.sub(r"```.*?```", "", text, flags=re.DOTALL)):
                if part.partition(":")[0] not in names and not part.endswith("…"):
                    wrong[f"{page}: {part}"] = part
    assert wrong == {}


def test_an_unknown_option_or_command_is_found() -> None:
    check_arguments(["run", "orders.yaml", "--once", "--state", "somewhere"])
    for wrong in ("run orders.yaml --twice", "dlq shw", "fly", "run", "ops charts", "dlq show --limit many"):
        with pytest.raises(click.UsageError):
            check_arguments(wrong.split())
    assert list(command_lines("$ calve a \\\n  b  # c\nX=1 calve d > e\ncurl calve f\n")) == [["a", "b"], ["d"]]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_is_in_the_readme(command: str) -> None:
    assert f"calve {command}" in TEXTS["README.md"] or f"make {command}" in TEXTS["README.md"]


def test_every_metric_and_alert_that_the_documents_name_is_there() -> None:
    metrics, alerts = monitoring.page(), monitoring.alerts()
    named = {name for text in TEXTS.values() for name in re.findall(r"`(calve_[a-z_]+)`", text)}
    assert sorted(name for name in named if f"`{name}`" not in metrics) == []
    named = set(re.findall(r"`(Calve[A-Z]\w+)`", TEXTS["docs/monitoring.md"]))
    assert sorted(name for name in named if f"alert: {name}\n" not in alerts) == []


def test_every_make_target_that_the_readme_names_is_there() -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = {name for text in TEXTS.values() for name in re.findall(r"(?:^|`)make ([a-z]+)\b", text, re.MULTILINE)}
    assert sorted(named - targets) == []


def test_the_readme_stays_short() -> None:
    assert len(TEXTS["README.md"].splitlines()) <= 100


def test_every_decision_is_in_their_index() -> None:
    index = TEXTS["docs/decisions/index.md"]
    titles = {
        name: re.findall(r"^# \d+\. (.*)$", text, re.MULTILINE)[0]
        for name, text in TEXTS.items()
        if re.match(r"docs/decisions/\d", name)
    }
    assert sorted(name for name, title in titles.items() if f"]({Path(name).name}) | {title} |" not in index) == []
    assert len(re.findall(r"^\| \[\d+\]", index, re.MULTILINE)) == len(titles)


def test_the_kill_matrix_is_that_of_the_record_and_the_guarantees_name_it() -> None:
    kills = json.loads(record.RECORD.read_text())
    assert TEXTS["docs/kill-matrix.md"] == record.page(kills), "run `make docs`"
    for key in ("kills", "events", "lost", "duplicated"):
        assert record.total(kills["sources"], key) == record.total(kills["modes"], key)
    counts = {key: record.total(kills["sources"], key) for key in ("kills", "lost", "duplicated")}
    assert "{kills} kills: {lost} lost, {duplicated} duplicated".format(**counts) in TEXTS["docs/guarantees.md"]


def test_the_reference_and_the_schema_are_those_of_the_code() -> None:
    assert TEXTS["docs/reference.md"].strip() == reference(PLUGINS).strip(), "run `make docs`"
    assert json.loads((ROOT / "docs" / "schema.json").read_text()) == json_schema(PLUGINS), "run `make docs`"

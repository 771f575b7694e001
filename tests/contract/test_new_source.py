"""A new kind of source is one folder and one line: what else Calve must know of it, its settings answer."""

from __future__ import annotations

import os
import shutil
from contextlib import closing
from pathlib import Path

import pytest

import calve
import calve.sources
from calve.errors import SettingsError
from calve.ledger.ledger import Ledger
from calve.operate.copy_state import copy_pipeline
from calve.pipeline import plugins
from calve.pipeline.plugins import PLUGINS, declared
from calve.pipeline.preflight import check_sources
from calve.settings import PipelineSettings, SettingsErrors, parse_text
from calve.state.folder import StateFolder
from calve.state.local_folder import LocalFolder
from calve.state.store_folder import StoreFolder
from kit.running import Calve

FOLDER = Path(__file__).with_name("new_source")
"""The smallest source that works: `mailbox`."""
YAML = """
p:
  source: {mailbox: {}}
  sink: [{iceberg: {table_identifier: a.b, auto_create: true}}]
"""


@pytest.fixture
def mailbox(monkeypatch: pytest.MonkeyPatch) -> PipelineSettings:
    """A pipeline of a process that knows the source."""
    monkeypatch.setattr(calve.sources, "__path__", [*calve.sources.__path__, str(FOLDER)])
    kind = plugins._source_module("mailbox", "settings").SETTINGS
    monkeypatch.setitem(plugins.SOURCES, "mailbox", kind)
    monkeypatch.setitem(PLUGINS.sources, "mailbox", kind)
    return parse_text(YAML, PLUGINS).pipelines[0]


@pytest.fixture
def with_mailbox(tmp_path: Path) -> dict[str, str]:
    """The environment of processes that find a copy of Calve with the source."""
    package = tmp_path / "lib" / "calve"
    shutil.copytree(Path(calve.__file__).parent, package)
    shutil.copytree(FOLDER / "mailbox", package / "sources/mailbox")
    file = package / "pipeline/plugins.py"
    text = file.read_text()
    assert text.count('    "rds",\n') == 1
    file.write_text(text.replace('    "rds",\n', '    "rds",\n    "mailbox",\n'))
    return {"PYTHONPATH": os.pathsep.join([str(package.parent), os.environ.get("PYTHONPATH", "")])}


def test_a_source_needs_few_lines() -> None:
    assert sum(len(path.read_text().splitlines()) for path in FOLDER.rglob("*.py")) <= 60


@pytest.mark.spark
def test_a_source_is_added_by_a_folder_and_a_line(with_mailbox: dict[str, str], tmp_path: Path) -> None:
    one = Calve(tmp_path / "run", YAML)
    letters = one.folder / "calve-state/p/mailbox"
    letters.mkdir(parents=True)
    (letters / "1.letter").write_text('{"n": 1}\n{"n": 2}\n')
    (letters / "2.letter").write_text('{"n": 3}\nnothing\n')
    process = one.start("--once", environment=with_mailbox)
    assert process.wait(120) == 0, one.said()
    assert sorted(row["n"] for row in one.rows("a.b").to_pylist()) == [1, 2, 3]
    assert len(one.dead_letters("p")) == 1
    assert list(letters.iterdir()) == []


def test_events_that_a_new_source_accepts_are_on_this_machine_until_it_says_otherwise(
    mailbox: PipelineSettings, tmp_path: Path
) -> None:
    assert declared(mailbox).keeps_events_here
    for state, standby in ((StoreFolder("memory://new-source"), False), (LocalFolder(tmp_path), True)):
        with pytest.raises(SettingsError, match="keeps accepted events on") as refused:
            check_sources([mailbox], state, standby)
        assert "durable" not in refused.value.hint  # it has no such option
    check_sources([mailbox], LocalFolder(tmp_path), standby=False)


@pytest.mark.parametrize("is_known", [True, False])
@pytest.mark.parametrize("place", ["local", "store"])
def test_a_copy_of_a_state_has_the_accepted_events_of_a_new_source(
    is_known: bool, place: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if is_known:
        request.getfixturevalue("mailbox")
    old = LocalFolder(tmp_path / "state/p")
    Ledger.open(old / "ledger", "p").close()
    old.put("mailbox/1.letter", b'{"n": 1}\n')
    new: StateFolder = LocalFolder(tmp_path / "copy/p")
    if place == "store":
        new = StoreFolder(f"memory://new-source-{is_known}/p")
    copy_pipeline(old, new, "the-copy", lambda line: None)
    back = LocalFolder(tmp_path / "back/p")
    copy_pipeline(new, back, "the-last", lambda line: None)
    assert (back.path / "mailbox/1.letter").read_bytes() == b'{"n": 1}\n'
    with closing(Ledger.open(back / "ledger", "p")) as ledger:
        assert ledger.last_batch == 0


def test_two_pipelines_cannot_have_what_a_source_claims_for_one(monkeypatch: pytest.MonkeyPatch) -> None:
    http = "\n  source: {http: {port: 2021}}\n  sink: [{iceberg: {table_identifier: a.b}}]\n"
    with pytest.raises(SettingsErrors, match="the pipeline p also listens on port 2021"):
        parse_text(f"p:{http}q:{http}", PLUGINS)
    monkeypatch.setattr(PLUGINS.sources["http"], "claims", lambda settings, pipeline: iter(()))
    assert len(parse_text(f"p:{http}q:{http}", PLUGINS).pipelines) == 2

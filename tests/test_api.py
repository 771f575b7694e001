"""Calve from Python does what the commands do."""

from __future__ import annotations

import pickle
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from unittest import mock

import pytest
from pyspark.sql import SparkSession

import calve
from calve.engine import session
from kit.running import post, until
from services.process import free_ports

TABLE = {"iceberg": {"table_identifier": "shop.${/kind}", "auto_create": True}}
WAITS = """
import calve, sys
try:
    reports = calve.run({"web": {"source": {"http": {"port": int(sys.argv[1])}}, "sink": [
        {"iceberg": {"table_identifier": "shop.orders", "auto_create": True}}]}})
except BaseException as error:
    print(repr(error))
else:
    print(reports["web"].state, reports["web"].run.rows)
"""


def reading(path: str, name: str = "files") -> dict[str, object]:
    return {name: {"source": {"file": {"path": path}}, "sink": [TABLE]}}


def test_importing_calve_imports_nothing_else() -> None:
    program = "import calve, sys; print([name for name in sys.modules if name.startswith(('calve.', 'pyspark'))])"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True).stdout == "[]\n"


def test_every_name_that_calve_exports_is_there_and_documented() -> None:
    page = (Path(__file__).parents[1] / "docs" / "python.md").read_text()
    functions = {name for name in calve.__all__ if name.islower() and not name.startswith("_")}
    assert functions == set(re.findall(r"calve\.([a-z_]+)\(", page))
    assert all(hasattr(calve, name) for name in calve.__all__)
    with pytest.raises(AttributeError, match="no attribute 'runs'"):
        calve.runs  # noqa: B018


def test_completion_offers_what_calve_exports_and_nothing_else() -> None:
    assert sorted(calve.__all__) == dir(calve)


def test_a_configuration_is_a_file_a_text_or_a_mapping(tmp_path: Path) -> None:
    text = "files:\n  source: {file: {path: in/*}}\n  sink: [{iceberg: {table_identifier: a.b}}]\n"
    file = tmp_path / "files.yaml"
    file.write_text(text)
    for config in (file, str(file), tmp_path, text, reading("in/*")):
        assert calve.validate(config) == calve.Validation(["files"])


def test_errors_are_listed_with_their_places() -> None:
    found = calve.validate({"files": {"source": {"file": {"pth": "in"}}, "sink": []}})
    assert not found.ok
    assert len(found.errors) > 1
    assert all(error.startswith("config:1:") for error in found.errors)
    assert not calve.validate("there/is/none.yaml").ok
    with pytest.raises(calve.SettingsError):
        calve.run({"files": {}})


def test_sample_events_are_mappings_or_texts() -> None:
    trial = calve.try_events(reading("in/*"), [{"kind": "a", "n": 1}, b'{"kind": "b"}', '{"kind": '])
    assert [[place.table for place in event.tables] for event in trial.events] == [["shop.a"], ["shop.b"], []]
    assert trial.events[2].rejects[0].code == "MALFORMED"
    with pytest.raises(calve.SettingsError, match="no metadata topic"):
        calve.try_events(reading("in/*"), [], metadata={"topic": "orders"})
    with pytest.raises(calve.SettingsError, match="There are 2 pipelines"):
        calve.try_events(reading("in/*") | reading("in/*", "more"), [])


@pytest.mark.spark
def test_a_run_returns_its_reports_and_a_failed_one_raises_them(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in.ndjson").write_text('{"kind": "a"}\n{"kind": "a"}\n{"kind": \n')
    broken = {"source": {"file": {"path": "in.ndjson"}}, "sink": [{"iceberg": {"table_identifier": "shop.none"}}]}
    with mock.patch.object(session, "stop"):
        run = calve.run(reading("in.ndjson"), once=True)["files"].run
        assert (run.events, run.rows, run.rejects) == (3, {"shop.a": 2}, {"MALFORMED": 1})
        assert calve.run(reading("in.ndjson"), once=True)["files"].run.events == 0
        with pytest.raises(calve.RunError, match=r"broken: The table shop\.none does not exist") as failed:
            calve.run({**reading("in.ndjson"), "broken": broken}, once=True)
    assert {name: one.state for name, one in failed.value.reports.items()} == {"files": "stopped", "broken": "failed"}
    assert str(pickle.loads(pickle.dumps(failed.value))) == str(failed.value)
    assert {name: one.rows for name, one in calve.status().items()} == {"files": 2, "broken": 0}


def test_what_keeps_a_run_from_starting_is_in_the_error(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("a file")
    with pytest.raises(calve.RunError, match="files: "):
        calve.run(reading("in/*"), once=True, state=tmp_path / "state")


@pytest.mark.spark
def test_ctrl_c_commits_what_was_read_and_returns(tmp_path: Path) -> None:
    [port] = free_ports(1)
    command = [sys.executable, "-c", WAITS, str(port)]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as process:
        until(lambda: post(port, [{"id": 1}]) == 200, "the source listens")
        time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        printed, _ = process.communicate(timeout=120)
    assert printed == "stopped {'shop.orders': 1}\n"

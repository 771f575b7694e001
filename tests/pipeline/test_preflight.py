"""What a run can know before Spark starts, it says before Spark starts."""

from __future__ import annotations

import contextlib
import json
import os
import re
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from calve.errors import SettingsError
from calve.ledger.ledger import Ledger
from calve.pipeline.plugins import PLUGINS, source_kind
from calve.pipeline.preflight import check_sources, local_folders, problems
from calve.settings import parse_text
from calve.sources.source import Planned, Split
from calve.state.local_folder import LocalFolder
from calve.state.store_folder import StoreFolder

PIPELINE = {"source": {"http": {"port": 0}}, "sink": [{"iceberg": {"table_identifier": "a.b", "auto_create": True}}]}


def parsed(**changes: Any) -> list[Any]:
    return parse_text(json.dumps({"p": {**PIPELINE, **changes}}), PLUGINS, environment={}).pipelines


def found(tmp_path: Path, once: bool = False, **changes: Any) -> list[str]:
    return [str(error) for _, error in problems(parsed(**changes), LocalFolder(tmp_path / "state"), once)]


def sink(**settings: Any) -> list[dict[str, Any]]:
    return [{"iceberg": {"table_identifier": "a.b", "auto_create": True, **settings}}]


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_a_sound_set_up_has_no_problem_and_leaves_only_its_state(tmp_path: Path) -> None:
    assert found(tmp_path) == []
    assert [path.name for path in tmp_path.iterdir()] == ["state"]


def test_a_port_that_is_taken_is_told_unless_none_is_opened(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        source = {"http": {"port": port}}
        [problem] = found(tmp_path, source=source)
        assert problem.startswith(f"port {port} is taken on 127.0.0.1. Stop what uses it")
        assert found(tmp_path, once=True, source=source) == []


def test_a_certificate_that_is_missing_is_told(tmp_path: Path) -> None:
    ssl = {"ssl": True, "ssl_certificate_file": "no.pem", "ssl_key_file": "no.key"}
    [problem] = found(tmp_path, source={"http": {"port": 0, **ssl}})
    assert "certificate" in problem


def test_a_file_that_is_missing_is_told_by_a_run_that_waits_for_none(tmp_path: Path) -> None:
    source = {"file": {"path": "no.ndjson"}}
    [problem] = found(tmp_path, once=True, source=source)
    assert problem.startswith(f"The file {tmp_path}/no.ndjson does not exist")
    assert found(tmp_path, source=source) == []
    assert found(tmp_path, once=True, source={"file": {"path": "no*.ndjson"}}) == []


def test_a_state_that_another_driver_holds_is_told(tmp_path: Path) -> None:
    held = Ledger.open(tmp_path / "state/p/ledger", "p")
    [problem] = found(tmp_path)
    held.close()
    assert problem.startswith(f"Another driver runs this pipeline: process {os.getpid()}")


@pytest.mark.parametrize(
    "place",
    [
        {"table_location": "/proc/x/t"},
        {"dlq": "/proc/x/dlq"},
        {"catalog": {"type": "hadoop", "warehouse": "file:///proc/x/w"}},
        {"catalog": {"type": "jdbc", "uri": "jdbc:sqlite:/proc/x/c.db", "warehouse": "w"}},
    ],
)
def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path, place: dict[str, Any]) -> None:
    [problem] = found(tmp_path, sink=sink(**place))
    assert problem.startswith("/proc/x")
    assert "cannot be written: No such file or directory. Change its permissions" in problem


def test_what_is_elsewhere_is_left_to_the_run() -> None:
    for catalog in ({"type": "rest", "uri": "http://h"}, {"type": "hadoop", "warehouse": "hdfs://h/w"}):
        assert local_folders(parsed(sink=sink(catalog=catalog))[0]) == []


@pytest.mark.parametrize("state", ["/proc/x", "file", "file/state"])
def test_a_state_that_cannot_be_written_ends_the_run_with_one_sentence_and_without_spark(
    tmp_path: Path, state: str
) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "p.yaml").write_text(json.dumps({"p": PIPELINE}))
    command = [sys.executable, "-m", "calve", "run", "p.yaml", "--state", state, "--metrics-port", "0"]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ | {"JAVA_HOME": "/none"})
    lines = [
        line.partition(" ")[2] for line in ran.stderr.splitlines() if not re.search("compiled core|JAVA_HOME", line)
    ]
    assert (ran.returncode, len(lines), lines[0]) == (1, 2, "starting p"), ran.stderr
    assert "cannot be written: No" in lines[1]
    assert "again" not in lines[1]


def of_http(**options: Any) -> list[Any]:
    return parsed(source={"http": {"port": 0, **options}})


STORE = StoreFolder("memory://state/calve")


@pytest.mark.parametrize(
    ("options", "is_on_store", "standby", "hint"),
    [
        ({}, True, False, "durable: replicated"),
        ({"log_folder": "log"}, True, True, "durable: replicated"),
        ({}, False, True, "durable: replicated"),
        ({"durable": "replicated"}, False, False, "--state"),
    ],
)
def test_a_receiver_that_cannot_keep_its_events_where_they_should_be_is_refused_with_the_way_out(
    tmp_path: Path, options: dict[str, str], is_on_store: bool, standby: bool, hint: str
) -> None:
    with pytest.raises(SettingsError) as error:
        check_sources(of_http(**options), STORE if is_on_store else LocalFolder(tmp_path), standby)
    assert hint in error.value.hint


@pytest.mark.parametrize("options", [{"durable": "replicated"}, {"log_folder": "log"}])
def test_a_receiver_runs_with_a_state_on_a_store_and_as_a_standby_if_its_log_is_there_too(
    options: dict[str, str],
) -> None:
    check_sources(of_http(**options), STORE, standby="durable" in options)


SOURCES: dict[str, dict[str, Any]] = {
    "file": {"path": "a.ndjson"},
    "file with tail": {"path": "a.ndjson", "tail": True},
    "s3": {"scan": {"buckets": [{"bucket": {"name": "bucket"}}]}, "codec": {"ndjson": {}}, "aws": {"region": "here"}},
    "http": {"port": 0},
    "kafka": {"bootstrap_servers": ["127.0.0.1:1"], "topics": [{"name": "t", "group_id": "g"}]},
    "postgres": {"host": "127.0.0.1", "database": "d", "username": "u", "password": "p"},
    "mysql": {"host": "127.0.0.1", "username": "u", "password": "p", "tables": {"include": ["d.*"]}},
    "iceberg": {"tables": [{"table_name": "a.b"}]},
}


@pytest.mark.parametrize("before", SOURCES)
def test_no_source_continues_with_the_state_of_another_kind(before: str, tmp_path: Path) -> None:
    with contextlib.closing(Ledger.open(tmp_path / "state" / "p" / "ledger", "p")) as ledger:
        ledger.continue_with(before)
        ledger.begin(1, Planned([Split({}, 1)], {"0": 1}, ("t",)))
    for after in set(SOURCES) - {before}:
        source = {after.partition(" ")[0]: SOURCES[after]}
        assert source_kind(parsed(source=source)[0]) == after
        [error] = [error for _, error in problems(parsed(source=source), LocalFolder(tmp_path / "state"), once=True)]
        assert f"is of the source {before}; {after} cannot go on from there" in error.message
        assert f"with the source {before} and --once" in error.hint

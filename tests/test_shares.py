"""The tests are run by real processes, and ended by real signals."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from kit.running import until
from share import LONGEST

SHARES = Path(__file__).with_name("shares.py")
MARKS = "[pytest]\naddopts = -q\nmarkers =\n    crash\n    services\n    spark\n"
SHARED = """
import os
import pytest

def ran(name):
    with open("ran", "a") as file:
        file.write(f"{name}\\n")

@pytest.mark.spark
@pytest.mark.parametrize("number", range(2))
def test_with_the_jvm(number):
    ran(f"{__name__} {number}")

@pytest.mark.crash
def test_that_kills():
    ran(f"{__name__} kills")

@pytest.fixture(scope="session")
def opensearch():
    return os.getpid()

@pytest.mark.services
def test_with_a_server(opensearch):
    ran(f"server {opensearch}")

@pytest.mark.services("opensearch")
def test_that_asks_for_a_server(request):
    ran(f"server {request.getfixturevalue('opensearch')}")

def test_that_fails():
    ran(f"{__name__} fails")
    assert __name__ == "test_1"
"""
ENDLESS = """
import signal, subprocess, sys, time
from pathlib import Path
import pytest

@pytest.fixture(scope="session")
def server(tmp_path_factory):
    command = [sys.executable, "-c", "import time; time.sleep(600)"]
    with subprocess.Popen(command, start_new_session=True) as process:
        yield process.pid
        process.terminate()

@pytest.mark.parametrize("mark", [
    pytest.param(each, marks=getattr(pytest.mark, each)) for each in ("crash", "services", "filterwarnings")
])
def test_waits(server, mark):
    Path(f".{mark}").write_text(str(server))
    Path(f".{mark}").rename(f"{mark}.pid")
    obeyed = []
    SIGNAL
    while not obeyed:
        time.sleep(0.01)
"""
OBEYS_ALONE = "signal.signal(signal.SIGINT, lambda *_: obeyed.append(1))  # as a pipeline in this process does"


def shares(folder: Path, test: str, copies: int = 1) -> subprocess.Popen[str]:
    folder.joinpath("pytest.ini").write_text(MARKS)
    for number in range(copies):
        folder.joinpath(f"test_{number}.py").write_text(test)
    command, quick = [sys.executable, SHARES, "."], {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "CALVE_TEST_PROCESSES": "3"}
    pipe, env = subprocess.PIPE, {**os.environ, **quick}
    return subprocess.Popen(command, cwd=folder, env=env, text=True, stdout=pipe, stderr=subprocess.STDOUT)


def test_each_test_runs_once_in_one_of_the_processes_and_a_failure_is_told(tmp_path: Path) -> None:
    with shares(tmp_path, SHARED, copies=3) as process:
        said, _ = process.communicate(timeout=120)
    assert process.returncode == 1, said
    ran = Counter(tmp_path.joinpath("ran").read_text().splitlines())
    [server] = {what for what in ran if what.startswith("server")}
    assert ran.pop(server) == 6, "one process has all tests of a server"
    assert ran == Counter(f"test_{number} {what}" for number in range(3) for what in ("0", "1", "kills", "fails"))
    assert said.count("FAILED test_0.py::test_that_fails") >= 1
    assert "plain 3 of 3, kills 3 of 3, servers 6 of 6, Spark 6 of 6: 16 passed, 0 skipped, 2 failed" in said


@pytest.mark.parametrize(
    ("wish", "held"),
    [(signal.SIGTERM, "pass"), (signal.SIGINT, OBEYS_ALONE)],
    ids=["SIGTERM", "SIGINT while a pipeline runs in them"],
)
def test_ended_by_a_signal_it_ends_its_processes_and_their_servers(
    tmp_path: Path, wish: signal.Signals, held: str
) -> None:
    with shares(tmp_path, ENDLESS.replace("SIGNAL", held)) as process:
        try:
            until(lambda: len(list(tmp_path.glob("*.pid"))) == 3, "each process runs a test")
            servers = [int(file.read_text()) for file in tmp_path.glob("*.pid")]
            assert len(set(servers)) == 3
            assert all(map(is_there, servers))
        finally:
            process.send_signal(wish)
        process.communicate(timeout=120)
    assert process.returncode != 0
    assert not any(map(is_there, servers))


def test_ended_it_says_why_tests_have_failed(tmp_path: Path) -> None:
    fails = '\ndef test_fails_before():\n    raise ValueError("wrong")\n' + ENDLESS.replace("SIGNAL", "pass")
    with shares(tmp_path, fails) as process:
        try:
            until(lambda: (tmp_path / "filterwarnings.pid").exists(), "the plain process waits behind the failure")
        finally:
            process.send_signal(signal.SIGTERM)
        said, _ = process.communicate(timeout=120)
    assert "E       ValueError: wrong" in said, said


def test_what_is_run_first_is_there() -> None:
    assert [name for name in LONGEST if not list(SHARES.parent.rglob(name))] == []


def is_there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True

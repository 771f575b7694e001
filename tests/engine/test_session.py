"""Spark starts quietly, leaves nothing behind, and dies with its driver."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from calve.engine.session import _merged, _task_environment, _with_task_tries

BOUND_SECONDS = 240
COUNT = """
from calve.engine import session
spark = session.start("local[1]", preload=["calve.errors"])
assert session.start() is spark
print(spark.sparkContext.parallelize(range(10), 2).map(lambda n: n + 1).sum())
def origin(rows):
    import pyspark, py4j
    yield from (pyspark.__file__, py4j.__file__)
print(*spark.sparkContext.parallelize([1], 1).mapPartitions(origin).collect(), sep="\\n")
session.stop(spark)
session.stop(spark)
again = session.start("local[1]")
print(again.range(3).count())
other = again.newSession()
other.conf.set("spark.of", "other")
assert (again.conf.get("spark.of", None), session.start() is again) == (None, True)
session.stop(again)
"""
FORKED = """
import os
from calve.engine import session
spark = session.start("local[2]", preload=["preloaded"])
def born(rows):
    import os, preloaded
    yield preloaded.PROCESS == os.getppid()
print(spark.sparkContext.parallelize([1, 2], 2).mapPartitions(born).collect())
session.stop(spark)
"""
CHOSEN = """
import os, sys
from calve.engine import session
spark = session.start("local[1]", {"spark.pyspark.python": sys.argv[1]}, preload=())
print(*spark.sparkContext.parallelize([1], 1).map(lambda _: os.environ["WRAPPED"]).collect())
session.stop(spark)
"""
SLEEP = """
import os, sys, time
from calve.engine import session
folder = sys.argv[1]
spark = session.start("local[2]")
def sleep(rows):
    open(f"{folder}/{os.getpid()}", "w").close()
    time.sleep(600)
    yield 1
print(spark.sparkContext._gateway.proc.pid, flush=True)
spark.sparkContext.parallelize([1, 2], 2).mapPartitions(sleep).collect()
"""


@pytest.mark.parametrize(
    ("master", "expected"),
    [
        ("local", "local[1,4]"),
        ("local[*]", "local[*,4]"),
        ("local[3]", "local[3,4]"),
        ("local[3,1]", "local[3,1]"),
        ("spark://host:7077", "spark://host:7077"),
    ],
)
def test_a_local_master_repeats_failed_tasks_as_a_cluster_does(master: str, expected: str) -> None:
    assert _with_task_tries(master) == expected


def test_a_users_settings_win_and_his_jars_are_added() -> None:
    ours = {"spark.driver.extraClassPath": "a.jar", "spark.driver.memory": "1g"}
    theirs = {"spark.driver.extraClassPath": "b.jar", "spark.driver.memory": "4g", "spark.x": "y"}
    joined = os.pathsep.join(["a.jar", "b.jar"])
    assert _merged(ours, theirs) == theirs | {"spark.driver.extraClassPath": joined}


@pytest.mark.spark
def test_spark_says_nothing_drops_nothing_where_it_is_started_and_its_workers_import_what_is_installed(
    tmp_path: Path,
) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", COUNT], cwd=tmp_path, capture_output=True, text=True, timeout=BOUND_SECONDS, check=False
    )
    check(ran)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.spark
def test_workers_are_forked_from_a_process_that_has_imported_what_they_need(tmp_path: Path) -> None:
    (tmp_path / "preloaded.py").write_text("import os\nPROCESS = os.getpid()\n")
    path = os.pathsep.join([str(tmp_path), *filter(None, sys.path)])
    ran = subprocess.run(
        [sys.executable, "-c", FORKED],
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=BOUND_SECONDS,
        check=False,
    )
    assert (ran.stdout, ran.stderr, ran.returncode) == ("[True, True]\n", "", 0)


@pytest.mark.spark
def test_the_python_of_the_workers_can_be_chosen(tmp_path: Path) -> None:
    chosen = tmp_path / "python"
    chosen.write_text(f'#!/bin/sh\nWRAPPED=yes exec {sys.executable} "$@"\n')
    chosen.chmod(0o755)
    ran = subprocess.run(
        [sys.executable, "-c", CHOSEN, chosen], capture_output=True, text=True, timeout=BOUND_SECONDS, check=False
    )
    assert (ran.stdout, ran.stderr, ran.returncode) == ("yes\n", "", 0)


def test_tasks_on_any_machine_use_the_compiled_core_that_the_driver_was_told_to(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("CALVE_CORE", "off")
    assert _task_environment(())["CALVE_CORE"] == "off"
    monkeypatch.delenv("CALVE_CORE")
    assert "CALVE_CORE" not in _task_environment(())


@pytest.mark.spark
@pytest.mark.crash
def test_the_jvm_and_the_workers_die_with_a_driver_that_is_killed(tmp_path: Path) -> None:
    workers = tmp_path / "workers"
    workers.mkdir()
    with subprocess.Popen([sys.executable, "-c", SLEEP, workers], stdout=subprocess.PIPE) as driver:
        assert driver.stdout is not None
        jvm = int(driver.stdout.readline())
        wait_until(lambda: len(list(workers.iterdir())) == 2)
        pids = [jvm, *(int(file.name) for file in workers.iterdir())]
        assert all(is_alive(pid) for pid in pids)
        driver.kill()
        driver.wait()
    wait_until(lambda: not any(is_alive(pid) for pid in pids))


@pytest.mark.spark
@pytest.mark.crash
def test_an_interrupt_of_the_whole_group_leaves_the_jvm_to_the_driver(tmp_path: Path) -> None:
    command = f"import os, signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\n{COUNT.replace('print', INTERRUPT, 1)}"
    ran = subprocess.run(
        [sys.executable, "-c", command],
        capture_output=True,
        text=True,
        timeout=BOUND_SECONDS,
        check=False,
        start_new_session=True,
    )
    check(ran)


def check(ran: subprocess.CompletedProcess[str]) -> None:
    """See that it computed in silence, with the modules that are installed: Spark's zips are compiled each time."""
    assert (ran.stderr, ran.returncode) == ("", 0)
    [total, *origins, count] = ran.stdout.splitlines()
    assert (total, count) == ("55", "3")
    assert [Path(line).is_file() for line in origins] == [True, True]


INTERRUPT = "os.killpg(0, signal.SIGINT)\nprint"


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] != "Z"
    except FileNotFoundError:
        return False


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + BOUND_SECONDS
    while not condition():
        assert time.monotonic() < deadline
        signal.sigtimedwait([], 0.02)

"""Spark starts quietly, leaves nothing behind, and dies with its driver."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from ast import literal_eval
from collections.abc import Callable
from pathlib import Path

import pytest

from calve.engine.jvm.master import is_local, master_of
from calve.engine.jvm.plan import JvmPlan
from calve.engine.session import _environment
from calve.engine.workers.environment import environment_of

BOUND_SECONDS = 240
COUNT = """
import os, signal, sys
from calve.engine import session
signal.signal(signal.SIGINT, signal.SIG_IGN)
engine = session.start("local[2]", preload=["preloaded"])
assert session.start() is engine
os.killpg(0, signal.SIGINT)  # as Ctrl-C does
print(sum(engine.tasks.run(lambda items: (n + 1 for n in items), range(10))))
def origin(rows):
    import preloaded, pyspark, py4j
    yield preloaded.PROCESS == os.getppid(), pyspark.__file__, py4j.__file__
print(engine.tasks.run(origin, [1, 2]))
session.stop(engine)
session.stop(engine)
chosen = {"spark.pyspark.python": sys.argv[1], "spark.executorEnv.GIVEN": "too"}
again = session.start("local[1]", chosen, preload=())
def variables(_):
    yield os.environ["WRAPPED"], os.environ["GIVEN"]
print(again.tasks.run(variables, [1]))
assert "session" not in vars(again)
print(again.session.range(3).count())
other = again.session.newSession()
other.conf.set("spark.of", "other")
assert (again.session.conf.get("spark.of", None), session.start() is again) == (None, True)
session.stop(again)
"""
SLEEP = """
import os, sys, time
from calve.engine import session
folder = sys.argv[1]
engine = session.start("local[2]")
def sleep(rows):
    import ctypes
    open(f"{folder}/{os.getpid()}", "w").close()
    ctypes.PyDLL(None).sleep(600)  # with the lock of the interpreter, as native code that computes
    yield 1
print(engine.context._gateway.proc.pid, flush=True)
engine.tasks.run(sleep, [1, 2])
"""
OF_OTHERS = """
from pyspark import SparkConf, SparkContext
from calve.engine import session
from calve.errors import EngineError
conf = SparkConf().set("spark.ui.enabled", "false").set("spark.log.level", "OFF")
theirs = SparkContext("local[1]", conf=conf)
try:
    session.start("local[1]")
except EngineError as error:
    print(repr(error.message), repr(error.hint))
print(theirs.parallelize([1, 2], 1).sum())
theirs.stop()
engine = session.start("local[1]")
print(engine.tasks.run(list, [1, 2]), engine.session.range(3).count())
session.stop(engine)
session.stop(engine)
print(SparkContext("local[1]", conf=conf).parallelize([1, 2, 3], 1).sum())
"""


def test_variables_are_set_only_while_spark_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", "mine")
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    with _environment({"PYSPARK_PYTHON": "ours", "PYSPARK_GATEWAY_PORT": "1"}):
        assert (os.environ["PYSPARK_PYTHON"], os.environ["PYSPARK_GATEWAY_PORT"]) == ("ours", "1")
    assert (os.environ["PYSPARK_PYTHON"], "PYSPARK_GATEWAY_PORT" in os.environ) == ("mine", False)


def test_the_jvm_stores_in_its_private_folder_unless_another_one_is_chosen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("SPARK_LOCAL_DIRS", raising=False)
    own, plan = Path("/own"), JvmPlan("local[1,4]", {}, [], [Path("/aws.jar")])
    assert plan.environment(own)["SPARK_LOCAL_DIRS"] == "/own"
    assert (plan.environment(own)["SPARK_DIST_CLASSPATH"] or "").endswith("/aws.jar")
    assert JvmPlan("local[1,4]", {"spark.local.dir": "/big"}, [], []).environment(own)["SPARK_LOCAL_DIRS"] == "/big"
    monkeypatch.setenv("SPARK_LOCAL_DIRS", "/disks")
    assert plan.environment(own)["SPARK_LOCAL_DIRS"] == "/disks"


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
    assert master_of(master, {}) == expected
    assert is_local(expected) is (not master.startswith("spark"))


@pytest.mark.spark
@pytest.mark.crash
def test_spark_says_nothing_and_outlives_an_interrupt_of_the_group_and_its_workers_are_those_that_were_asked_for(
    tmp_path: Path,
) -> None:
    """Workers are forked from a process that has imported what they need, and use what is installed: Spark's zips are
    compiled each time. The Python of the workers can be chosen."""
    chosen, folder = tmp_path / "python", tmp_path / "empty"
    chosen.write_text(f'#!/bin/sh\nWRAPPED=yes exec {sys.executable} "$@"\n')
    chosen.chmod(0o755)
    (tmp_path / "preloaded.py").write_text("import os\nPROCESS = os.getpid()\n")
    folder.mkdir()
    ran = subprocess.run(
        [sys.executable, "-c", COUNT, chosen],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), *filter(None, sys.path)])},
        capture_output=True,
        text=True,
        timeout=BOUND_SECONDS,
        check=False,
        start_new_session=True,
    )
    assert (ran.stderr, ran.returncode) == ("", 0)
    total, workers, wrapped, count = map(literal_eval, ran.stdout.splitlines())
    assert (total, wrapped, count) == (55, [("yes", "too")], 3)
    assert [(forked, *map(Path.is_file, map(Path, origins))) for forked, *origins in workers] == [(True,) * 3] * 2
    assert list(folder.iterdir()) == []


def test_tasks_on_any_machine_use_the_compiled_core_that_the_driver_was_told_to(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("CALVE_CORE", "off")
    assert environment_of({}, (), False)["CALVE_CORE"] == "off"
    monkeypatch.delenv("CALVE_CORE")
    assert "CALVE_CORE" not in environment_of({}, (), False)


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


@pytest.mark.spark
@pytest.mark.crash
def test_a_session_of_somebody_else_is_left_alone_and_one_that_was_stopped_can_be_followed_by_another() -> None:
    quick = "--conf spark.driver.extraJavaOptions=-XX:TieredStopAtLevel=1 pyspark-shell"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "PYSPARK_SUBMIT_ARGS": quick}
    ran = subprocess.run(
        [sys.executable, "-c", OF_OTHERS],
        env=environment,
        capture_output=True,
        text=True,
        timeout=BOUND_SECONDS,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.splitlines() == [
        "'Another Spark session of this process runs' 'Stop it first: spark.stop()'",
        "3",
        "[1, 2] 3",
        "6",
    ]

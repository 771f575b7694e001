"""The JVM that starts before Spark's Python is imported: the session takes it, or nothing of it stays."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from calve.engine import early
from calve.engine.jvm_plan import JvmPlan
from calve.errors import EngineError
from engine.test_session import BOUND_SECONDS, is_alive, wait_until

TAKEN = """
import sys
from calve.engine import early
from calve.engine.jvm_plan import JvmPlan
from calve.errors import EngineError
begun = early.start("local[1]", {}, False, ())
jvm = begun.jvm
from calve.engine import session
spark = session.start("local[1]", preload=(), early=begun)
from calve.engine.pyspark_private import jvm_process
assert jvm_process() is jvm.process
jvm.close()
print(spark.range(3).count(), jvm.process.poll())
session.stop(spark)
print(jvm.process.returncode)
"""
ABANDONED = """
import sys
from calve.engine import early
from calve.engine.jvm_plan import JvmPlan
from calve.errors import EngineError
begun = early.start("local[1]", {}, False, ())
jvm = begun.jvm
print(jvm.process.pid, flush=True)
if sys.argv[1] == "close":
    begun.close()
    begun.close()
    print("closed", flush=True)
sys.stdin.read()
"""


def started(code: str, folder: Path, *arguments: str) -> subprocess.Popen[str]:
    variables = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "TMPDIR": str(folder)}
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.Popen(
        command, env=os.environ | variables, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


@pytest.mark.spark
@pytest.mark.crash
def test_the_session_takes_the_jvm_and_ends_it(tmp_path: Path) -> None:
    with started(TAKEN, tmp_path) as driver:
        said, _ = driver.communicate(timeout=BOUND_SECONDS)
    assert said.splitlines() == ["3 None", "0"]
    assert list(tmp_path.glob("calve-jvm-*")) == []


@pytest.mark.spark
@pytest.mark.crash
@pytest.mark.parametrize("end", ["close", "kill"])
def test_a_jvm_that_nobody_takes_ends_with_its_driver_or_before(tmp_path: Path, end: str) -> None:
    with started(ABANDONED, tmp_path, end) as driver:
        assert driver.stdout is not None
        pid = int(driver.stdout.readline())
        if end == "kill":
            driver.kill()
        else:
            assert driver.stdout.readline() == "closed\n"
        wait_until(lambda: not is_alive(pid))
        assert (end == "kill") == bool(list(tmp_path.glob("calve-jvm-*")))
        driver.kill()


def test_no_jvm_starts_for_a_cluster_and_where_spark_is_imported_already(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(early, "EarlyJvm", None)
    monkeypatch.setattr(early, "start_forks", lambda master, conf, preload, from_here: master == "local[1]" and "forks")
    assert "pyspark" in sys.modules
    assert early.start("local[1]", {}, False, ()) == early.Early("forks", None)
    monkeypatch.delitem(sys.modules, "pyspark")
    assert early.start("spark://host:7077", {}, False, ()) is None


def test_what_is_missing_is_told_later_by_the_session(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "pyspark")
    monkeypatch.setattr(early, "start_forks", lambda *_, **__: "forks")

    def missing(*_: object) -> JvmPlan:
        raise EngineError("No Java", step="engine")

    monkeypatch.setattr(JvmPlan, "of", missing)
    assert early.start("local[1]", {}, False, ()) == early.Early("forks", None)

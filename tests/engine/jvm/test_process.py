"""The JVM that starts before Spark's Python is imported: the session takes it, or nothing of it stays."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from calve.engine.jvm import process
from calve.engine.jvm.plan import JvmPlan
from calve.engine.jvm.process import JvmProcess, abandon_all, start_early
from calve.errors import EngineError
from engine.test_session import BOUND_SECONDS, is_alive, wait_until

TAKEN = """
import os, sys
from calve.engine.jvm.process import start_early
jvm = start_early("local[1]", {}, False)
from calve.engine import session
spark = session.start("local[1]", preload=(), early=jvm)
from calve.engine.pyspark_private import jvm_process
assert jvm_process() is jvm.popen
print(oct(jvm.folder.stat().st_mode & 0o777), sorted(path.name.partition("-")[0] for path in jvm.folder.iterdir()))
print(spark.session.range(3).count(), jvm.has_ended)
session.stop(spark)
print(jvm.popen.returncode, jvm.folder.exists())
"""
ABANDONED = """
import sys
from calve.engine.jvm.process import abandon_all, start_early
jvm = start_early("local[1]", {}, False)
print(jvm.popen.pid, flush=True)
if sys.argv[1] == "close":
    abandon_all()
    abandon_all()
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
def test_the_session_takes_the_jvm_whose_folder_is_private_and_ends_both(tmp_path: Path) -> None:
    with started(TAKEN, tmp_path) as driver:
        said, _ = driver.communicate(timeout=BOUND_SECONDS)
    assert said.splitlines() == ["0o700 ['address', 'blockmgr', 'spark']", "3 False", "0 False"]
    assert list(tmp_path.glob("calve-spark-*")) == []


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
        assert (end == "kill") == bool(list(tmp_path.glob("calve-spark-*")))
        driver.kill()


def test_no_jvm_starts_early_where_spark_is_imported_already(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "JvmProcess", None)
    assert "pyspark" in sys.modules
    assert start_early("local[1]", {}, False) is None


def test_what_is_missing_is_told_later_by_the_session(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "pyspark")

    def missing(*_: object) -> JvmPlan:
        raise EngineError("No Java", step="engine")

    monkeypatch.setattr(JvmPlan, "of", missing)
    assert start_early("local[1]", {}, False) is None


@pytest.fixture
def plan(monkeypatch: pytest.MonkeyPatch) -> JvmPlan:
    monkeypatch.setattr(JvmPlan, "command", ["sh", "-c", "echo Error: no memory; exit 1"])
    return JvmPlan("local", {}, [], [])


def test_a_jvm_that_ends_while_it_starts_has_no_gateway_but_a_reason(plan: JvmPlan) -> None:
    jvm = JvmProcess(plan)
    assert jvm.gateway() is None
    assert jvm.output.reason() == "Error: no memory"
    jvm.close()
    assert not jvm.folder.exists()


def test_abandoning_ends_a_jvm_at_once(plan: JvmPlan, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(JvmPlan, "command", ["sh", "-c", "exec sleep 600"])
    jvm = JvmProcess(plan)
    abandon_all()
    assert jvm.has_ended
    assert jvm.output.reason() is None
    assert not jvm.folder.exists()


def test_a_jvm_that_cannot_be_started_leaves_nothing(
    plan: JvmPlan, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(JvmPlan, "command", ["/no/such/java"])
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with pytest.raises(FileNotFoundError):
        JvmProcess(plan)
    assert list(tmp_path.iterdir()) == []

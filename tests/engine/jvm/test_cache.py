from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from calve.engine.jvm.cache import cache_folder
from calve.errors import EngineError


@pytest.fixture
def unwritable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home that cannot be written, also by root: it is below a file."""
    (tmp_path / "file").write_text("")
    (tmp_path / "temporary").mkdir()
    home = tmp_path / "file" / "home"
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.delenv("CALVE_CACHE", raising=False)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    return home


def test_in_a_home_that_cannot_be_written_the_cache_is_a_private_temporary_folder(unwritable: Path) -> None:
    folder = cache_folder()
    assert folder.parent == Path(tempfile.gettempdir())
    assert folder.stat().st_mode & 0o077 == 0
    assert cache_folder() == folder


def test_a_cache_that_is_chosen_and_cannot_be_made_is_said_with_its_variable(
    unwritable: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CALVE_CACHE", str(unwritable))
    with pytest.raises(EngineError) as refused:
        cache_folder()
    assert "CALVE_CACHE" in refused.value.hint


def test_a_cache_is_below_the_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CALVE_CACHE", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_folder() == tmp_path / ".cache" / "calve"

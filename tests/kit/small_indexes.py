"""Key indexes of small tables: every commit uses one, and few rows make many runs. As a program it is the command `calve`.

Each of its commits compares all data files with the index, so one that lacks a row stops the pipeline.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from calve.cli.main import main
from calve.commit import branch_keys, key_index, key_levels
from calve.commit.index_folder import KEYS
from calve.commit.key_state import FILE
from calve.engine.jvm.cache import cache_folder
from kit.running import Calve

__all__ = ["DAMAGED", "IndexedCalve", "begin_index", "machine", "small_indexes"]

DAMAGED = b"{}"


def small_indexes(patch: pytest.MonkeyPatch) -> None:
    """Let few rows make many runs, and let every commit use the index and compare a file with it."""
    patch.setattr(branch_keys, "LOCAL_ROWS", 0)
    patch.setattr(branch_keys, "AUDITED_ROWS", 1_000_000)
    patch.setattr(key_index, "RUN_ROWS", 12)
    patch.setattr(key_levels, "_SMALL_ROWS", 5)


class IndexedCalve(Calve):
    """A folder whose processes have such indexes; they need the variables of `machine`."""

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "kit.small_indexes", *arguments]


def machine(cache: Path) -> dict[str, str]:
    """Return the variables of a process on a machine whose cache has indexes of its own, and the jars of all."""
    cache.mkdir(parents=True, exist_ok=True)
    for path in cache_folder().iterdir():
        if path.name != KEYS and not (cache / path.name).exists():
            (cache / path.name).symlink_to(path)
    return {"CALVE_CACHE": str(cache), "PYTHONPATH": str(Path(__file__).parents[1])}


def begin_index(calve: Calve, pipeline: str, uuid: str) -> Path:
    """Let the commits of a pipeline begin an index of a table, however small that is; return the file of its state."""
    state = calve.folder / "calve-state" / pipeline / KEYS / f"{uuid}@main" / FILE
    state.parent.mkdir(parents=True)
    state.write_bytes(DAMAGED)  # so it begins anew
    return state


def _audit_all(keys: branch_keys.BranchKeys, index: Any, branch: Any, reader: Any) -> None:
    for _ in branch.files:
        _audit(keys, index, branch, reader)


_audit = branch_keys.BranchKeys._audit

if __name__ == "__main__":
    small_indexes(pytest.MonkeyPatch())
    branch_keys.BranchKeys._audit = _audit_all  # type: ignore[method-assign]
    sys.exit(main())

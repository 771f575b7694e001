"""Spools on an object store are those of a local folder, also after a copy in either direction."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from calve.errors import SourceError
from calve.event.columns import EVENT
from calve.operate.copy_state import copy_files
from calve.sources.iceberg.spool import Spools
from calve.sources.source import SourceTable
from calve.state.local_folder import LocalFolder
from calve.state.store_folder import StoreFolder

TABLE = SourceTable("shop.orders", "u", "{}")


@pytest.fixture
def local(tmp_path: Path) -> Path:
    """Two spools of two files each."""
    for spool in ("1-a", "2-b"):
        (tmp_path / spool).mkdir()
        for part, rows in (("part-0", 3), ("part-1", 2000)):
            pq.write_table(pa.table({EVENT: [f'{{"n": {n}}}' for n in range(rows)]}), tmp_path / spool / part)
        (tmp_path / spool / "table.json").write_text(json.dumps(asdict(TABLE)))
    return tmp_path


@pytest.fixture
def folder(local: Path, request: pytest.FixtureRequest) -> StoreFolder:
    """The same on a store."""
    copied = StoreFolder(f"memory://spools/{request.node.name}")
    assert copy_files(LocalFolder(local), copied) == 6
    return copied


def test_a_copied_spool_has_the_same_table_and_files(local: Path, folder: StoreFolder, tmp_path: Path) -> None:
    there, here = Spools(folder), Spools(LocalFolder(local))
    for spool in ("1-a", "2-b"):
        assert there.table(spool) == here.table(spool) == TABLE
        assert there.parts(spool) == here.parts(spool)
        assert [part.name for part in there.parts(spool, "part-0")] == ["part-1"]
    copy_files(folder, LocalFolder(tmp_path / "back"))
    assert Spools(LocalFolder(tmp_path / "back")).parts("2-b") == here.parts("2-b")


def test_a_spool_whose_files_are_committed_is_removed_unless_it_is_still_read(folder: StoreFolder) -> None:
    spools = Spools(folder)
    spools.remove([("1-a", "part-0")], kept=[])
    assert "1-a/table.json" in folder.names()
    spools.remove([("1-a", "part-1"), ("2-b", "part-0"), ("2-b", "part-1")], kept=["2-b"])
    assert folder.names() == ["2-b/table.json"]


def test_spools_that_no_batch_needs_and_unfinished_ones_go_at_the_start(folder: StoreFolder) -> None:
    folder.put("3-c/part-0", b"unfinished")
    folder.put("begun.json", b"{}")
    Spools(folder).keep_only({"2-b"})
    assert {name.partition("/")[0] for name in folder.names()} == {"2-b", "begun.json"}


def test_an_unfinished_or_lost_spool_is_none(folder: StoreFolder) -> None:
    folder.put("3-c/part-0", b"unfinished")
    assert Spools(folder).table("3-c") is None
    with pytest.raises(SourceError, match="3-c are gone"):
        Spools(folder).parts("3-c")

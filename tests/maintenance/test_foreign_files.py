"""Who writes a table's metadata can list any path: such files are neither read nor deleted."""

from __future__ import annotations

import shutil
from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest

from calve.changes.plan import Planner
from calve.changes.table_changes import TableChanges
from calve.engine import session
from calve.errors import MaintenanceError, UnsupportedError
from calve.maintenance.by_need import Rounds
from calve.maintenance.expire import expire
from calve.maintenance.upkeep import MaintenanceOptions, maintain
from calve.table.limits import MaintenanceLimits
from maintenance.conftest import Kept

pytestmark = pytest.mark.spark

NOW = timedelta(0)


def listed(table: Kept, path: str) -> None:
    """Let a commit of another writer list a file."""
    files = table.bench.jvm.org.apache.iceberg.DataFiles.builder(table.java.spec())
    file = files.withPath(path).withFileSizeInBytes(1000).withRecordCount(1).withFormat("PARQUET").build()
    table.java.newAppend().appendFile(file).commit()


def remove_all(table: Kept) -> None:
    """Remove all files from the table, as another writer."""
    removal = table.java.newDelete()
    removal.deleteFromRowFilter(table.bench.jvm.org.apache.iceberg.expressions.Expressions.alwaysTrue())
    removal.commit()


@pytest.mark.parametrize("spelling", ["{file}", "file://{file}", "file:{table}/data/../../../../precious.parquet"])
def test_a_file_of_this_machine_that_a_table_lists_is_neither_read_nor_deleted(
    kept, tmp_path: Path, spelling: str
) -> None:
    table: Kept = kept(())
    table.change({1: ("x", 1)})
    precious = tmp_path / "precious.parquet"
    shutil.copy(next(table.home.rglob("*.parquet")), precious)
    path = spelling.format(file=precious, table=table.home)
    listed(table, path)
    told = TableChanges(Planner(session.start()), "db.t", partial(table.catalog.load_java, "db.t"))
    with pytest.raises(UnsupportedError, match=r"lists a file outside of its folders: .*precious.parquet"):
        [line for step in told.steps() for line in told.lines(step)]
    assert "precious.parquet" in str(maintain(table.bench, MaintenanceOptions(("compact",)), lambda step: None).error)
    with pytest.raises(MaintenanceError, match=r"precious.parquet"):
        Rounds(table.bench, MaintenanceLimits(small_files=2, quiet=NOW, least_age=NOW)).run()
    remove_all(table)
    table.change({2: ("y", 2)})
    with pytest.raises(MaintenanceError, match=r"precious.parquet. Calve does not delete it"):
        expire(table.bench, NOW)
    with pytest.raises(MaintenanceError, match=r"precious.parquet. Calve does not delete it"):
        Rounds(table.bench, MaintenanceLimits(max_snapshots=1, least_age=NOW)).run()
    assert precious.exists()


def test_files_elsewhere_that_the_table_s_properties_choose_are_its_own(kept, tmp_path: Path) -> None:
    table: Kept = kept(())
    table.change({1: ("x", 1)})
    own = tmp_path / "other" / "own.parquet"
    own.parent.mkdir()
    shutil.copy(next(table.home.rglob("*.parquet")), own)
    table.java.updateProperties().set("write.data.path", f"file:{own.parent}").commit()
    listed(table, str(own))
    remove_all(table)
    table.change({2: ("y", 2)})
    assert expire(table.bench, NOW).snapshots
    assert not own.exists()

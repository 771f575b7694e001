from __future__ import annotations

from pathlib import Path

from calve.sources.database.epochs import Epochs
from calve.sources.database.reader import _fitted
from calve.sources.database.table import Column, DatabaseTable
from calve.state.local_folder import LocalFolder


def table(oid: int, *columns: tuple[str, int], stopped: str = "") -> DatabaseTable:
    made = (Column(name, number, "long", "", 20, -1, number == 1) for name, number in columns)
    return DatabaseTable("d", oid, "public", f"t{oid}", tuple(made), stopped=stopped)


def test_tables_of_several_epochs_are_as_in_the_last_one_or_as_before_they_were_stopped(tmp_path: Path) -> None:
    epochs = Epochs(LocalFolder(tmp_path))
    first, second = table(1, ("id", 1)), table(2, ("id", 1), ("a", 2))
    epochs.begin([first, second])
    renamed, late = table(1, ("id", 1), ("b", 2)), table(3, ("id", 1))
    epochs.add([renamed, table(2, ("a", 2), stopped="it has no key")])
    epochs.add([late], without=[1])
    assert epochs.of(0, 0) == [first, second]
    assert epochs.of(0, 2) == [renamed, second, late]


def test_rows_get_the_columns_that_their_table_has_later() -> None:
    before, now = table(1, ("id", 1), ("old", 2), ("gone", 3)), table(1, ("id", 1), ("new", 4), ("renamed", 2))
    assert _fitted(before, now, [[1, 2, 3], [4, None, 6]]) == [[1, None, 2], [4, None, None]]
    assert _fitted(before, before, [[1, 2, 3]]) == [[1, 2, 3]]

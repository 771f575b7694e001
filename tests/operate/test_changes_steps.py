"""Which snapshots a batch or a stream of `calve_changes` reads: always the same ones, or an error; without Spark."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import pytest

from calve.changes import snapshot
from calve.changes.snapshot import REPLACE, History, Snapshot
from calve.changes.table_changes import TableChanges
from calve.errors import CalveError, NoTargetError, PositionLostError, SettingsError
from calve.operate.changes_format.options import ChangesOptions
from calve.operate.changes_format.steps import batch_steps, check_stream, end_of_batch, stream_steps

Position = int | None


class Table:
    """A table's snapshots; `compacted` are those that change no rows."""

    identifier = "db.t"

    def __init__(
        self, *ids: int, parent: Position = None, others: Mapping[int, Position] | None = None, compacted: Any = ()
    ) -> None:
        def beside(number: int, parent: Position) -> Snapshot:
            return Snapshot(number, parent, 0, 0, REPLACE if number in compacted else "append")

        line = [beside(number, before) for number, before in zip(ids, [parent, *ids])]
        rest = {number: beside(number, before) for number, before in (others or {}).items()}
        self.history = History("db.t", "u", "main", line, rest)

    def steps(self, after: Position, until: Position) -> Any:
        return snapshot.steps(self.history, after, until)


def streamed(table: Table, after: Position, until: Position) -> list[tuple[int, bool]]:
    steps = stream_steps(cast(TableChanges, table), after, until)
    return [(step.snapshot.snapshot_id, step.is_full) for step in steps if step.changes_rows]


def newest(table: Table, after: Position, most: Position = None) -> Position:
    return end_of_batch(stream_steps(cast(TableChanges, table), after, None), after, most)


def read(table: Table, head: Position, oldest: Position, **options: int) -> list[tuple[int, bool]]:
    steps = batch_steps(cast(TableChanges, table), ChangesOptions("db.t", **options), head, oldest)  # type: ignore[arg-type]
    return [(step.snapshot.snapshot_id, step.is_full) for step in steps]


def test_a_stream_begins_with_the_newest_snapshot_and_goes_on_after_its_position() -> None:
    assert newest(Table(), None) is None
    assert newest(Table(1, 2, 3), None, most=1) == 3
    assert streamed(Table(1, 2, 3, 4), None, 3) == [(3, True)]  # as before a crash, whatever came since
    assert newest(Table(1, 2, 3), 3) == 3
    assert newest(Table(1, 2, 3, 4), 1, most=2) == 3
    assert streamed(Table(1, 2, 3, 4), 1, 3) == [(2, False), (3, False)]
    compacted = Table(1, 2, 3, compacted=[2, 3])
    assert newest(compacted, 1, most=1) == 2
    assert streamed(compacted, 1, 2) == []
    assert streamed(Table(2, 3, parent=1), 1, 3) == [(2, False), (3, False)]  # nothing between them is lost


@pytest.mark.parametrize(
    "table",
    [
        Table(1, 2, others={3: 2}),
        Table(1, 2, 4, others={3: 2}),
        Table(5, others={1: None, 2: 1, 3: 2}),
        Table(4, 5, parent=9),
        Table(7, 8),
        Table(),
    ],
    ids=["rolled back", "rolled back and written", "replaced", "expired", "recreated", "recreated, empty"],
)
def test_a_stream_that_lost_its_position_ends_with_the_way_out(table: Table) -> None:
    for after, until in ((3, None), (2, 3), (None, 3)):
        if until is None or after is None:
            with pytest.raises(PositionLostError, match="Delete the stream's checkpoint"):
                streamed(table, after, until)
        else:  # a batch that was planned, and not committed
            with pytest.raises(CalveError) as lost:
                streamed(table, after, until)
            assert isinstance(lost.value, PositionLostError)


def test_a_branch_that_came_back_has_the_position_again() -> None:
    assert streamed(Table(1, 2, 3, 4, others={5: 2}), 3, None) == [(4, False)]


def test_a_stream_does_not_leap_over_expired_snapshots() -> None:
    tagged = Table(7, 8, parent=6, others={3: 2})
    with pytest.raises(PositionLostError, match=r"Snapshots of db\.t after 3 have expired\. Delete the stream"):
        streamed(tagged, 3, 8)
    assert read(tagged, 8, 7, start_snapshot_id=3) == [(7, False), (8, False)]


def test_a_dataframe_has_the_snapshots_of_its_load_or_is_refused() -> None:
    assert read(Table(1, 2, 3), 2, 1) == [(1, True), (2, False)]
    assert read(Table(1, 2), None, None) == []  # written since
    assert read(Table(2, 3), 3, 1, start_snapshot_id=2) == [(3, False)]
    for table, head, oldest, options in (
        (Table(2, 3), 3, 1, {}),  # all rows of 2 would be INSERT, and updates by it are lost
        (Table(7, 8, parent=6, others={3: 2}), 8, 4, {"start_snapshot_id": 3}),
        (Table(1, others={2: 1}), 2, 1, {}),
        (Table(8, 9), 2, 1, {}),
    ):
        with pytest.raises(PositionLostError, match=r"Call load\(\) again"):
            read(table, head, oldest, **options)


def test_an_end_is_what_was_written() -> None:
    with pytest.raises(NoTargetError, match=r"The snapshot 0 of db\.t does not exist"):
        read(Table(1, 2), 2, 1, end_snapshot_id=0)
    with pytest.raises(SettingsError, match="A stream of changes has no end"):
        check_stream(ChangesOptions("db.t", end_snapshot_id=2))

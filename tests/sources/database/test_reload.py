"""Tables that are loaded again: requests, the note, and what a crash between two steps leaves."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from calve.errors import SourceError, SourceUnavailableError
from calve.observe.log import Log
from calve.sources.database import reload
from calve.sources.database.epochs import Epochs
from calve.sources.database.overview import states
from calve.sources.database.reload import ReloadRequest, ReloadStart, ReloadTracker
from calve.sources.database.stopped import mark, marked
from calve.sources.database.table import Column, DatabaseTable
from calve.sources.mysql.ddl.follow import renumbered
from calve.sources.postgres.settings import PostgresSettings
from calve.sources.tables import Tables
from calve.state.local_folder import LocalFolder
from calve.state.values import encoded

BEGUN = {"database": "d", "start": 1, "load": 0, "chunks": [{"table": 1, "bytes": 1}, {"table": 2, "bytes": 1}]}
CHUNKS = [{"table": 1, "bytes": 7}]


def table(oid: int, name: str, *columns: str, **more) -> DatabaseTable:
    made = (Column(one, number, "int", "int", 23, -1, number == 1) for number, one in enumerate(columns, 1))
    return DatabaseTable("d", oid, "app", name, tuple(made), **more)


STOPPED, OTHER = table(1, "cut", "id", "n", stopped="it was truncated"), table(2, "fine", "id")


@pytest.fixture
def state(tmp_path: Path) -> LocalFolder:
    return LocalFolder(tmp_path)


def source(folder: LocalFolder, *tables: DatabaseTable) -> ReloadTracker:
    """Give the reloads of a source whose load is committed."""
    epochs = Epochs(folder)
    epochs.load()
    if epochs.number < 0:
        epochs.begin(tables)
        folder.put("begun.json", encoded(BEGUN))
        folder.put("committed.json", encoded(2))
    return ReloadTracker(folder, epochs, Log("p"))


def begun(reloads: ReloadTracker, folder: LocalFolder, *tables: DatabaseTable) -> ReloadTracker:
    reload.request(folder, 0, [table.full_name for table in tables])
    found = reloads.wanted(0)
    assert found is not None
    reloads.begin(found[0], BEGUN, ReloadStart(100, list(tables), CHUNKS, 200))
    return reloads


def test_a_table_is_described_anew_and_its_changes_from_before_are_not_read(state: LocalFolder) -> None:
    reloads = begun(source(state, STOPPED, OTHER), state, table(1, "cut", "id", "n", "more"))
    mark(state, 1, "its rows were rewritten")
    assert dict(states(state))["app.cut"] == "waiting: it is loaded again"
    reloads.apply()
    epochs = Epochs(state)
    epochs.load()
    assert epochs.tables == {1: table(1, "cut", "id", "n", "more", since=99), 2: OTHER}
    assert reload.requests(state, 0) == []
    assert marked(state) == {}
    assert reloads.tables_to_empty is None, "what is in the log from before is written first"
    reloads.is_drained = True
    assert [one.name for one in reloads.tables_to_empty or []] == ["app.cut"]
    assert [one.name for one in reloads.to_keep] == ["app.fine"]


def test_a_crash_after_the_note_is_made_good_before_the_stream_runs(state: LocalFolder) -> None:
    begun(source(state, STOPPED, OTHER), state, table(1, "cut", "id"))
    after = source(state)
    after.resume(BEGUN)
    epochs = Epochs(state)
    epochs.load()
    assert (epochs.number, epochs.tables[1].stopped, epochs.tables[1].since) == (1, "", 99)
    assert after.wanted(0) is None
    after.resume(BEGUN)
    assert not (state / "tables/000002.json").exists(), "a step is not done twice"


def test_chunks_are_added_to_the_load_once_even_if_the_note_outlives_it(state: LocalFolder) -> None:
    reloads = begun(source(state, STOPPED, OTHER), state, table(1, "cut", "id"))
    reloads.apply()
    load = reloads.loading(BEGUN, replaces=False)
    assert load["chunks"] == [*BEGUN["chunks"], {"table": 1, "bytes": 7, "epoch": 1, "at": 99}]
    assert reload.read(state, load) is None
    state.put("begun.json", encoded(load))
    assert dict(states(state)) == {"app.cut": "waiting", "app.fine": "streaming"}
    reloads.finish()
    assert reload.read(state, BEGUN) is None


def test_rows_that_may_be_there_are_replaced(state: LocalFolder) -> None:
    reloads = begun(source(state, STOPPED), state, table(1, "cut", "id"))
    assert reloads.loading(BEGUN, replaces=True)["chunks"][-1]["replaces"]


def test_a_table_that_was_created_again_takes_the_place_of_the_old_one(state: LocalFolder) -> None:
    reloads = begun(source(state, STOPPED, OTHER), state, table(7, "cut", "id"))
    reloads.apply()
    epochs = Epochs(state)
    epochs.load()
    assert set(epochs.tables) == {2, 7}


def test_a_table_that_its_target_cannot_hold_stays_stopped_and_its_rows_stay(state: LocalFolder) -> None:
    other_type = msgspec.structs.replace(
        STOPPED, stopped="", columns=(STOPPED.columns[0], msgspec.structs.replace(STOPPED.columns[1], kind="string"))
    )
    reloads = begun(source(state, STOPPED), state, other_type)
    reloads.apply()
    reloads.is_drained = True
    assert reloads.tables_to_empty == []
    assert reloads.loading(BEGUN, replaces=False)["chunks"] == BEGUN["chunks"]
    epochs = Epochs(state)
    epochs.load()
    assert "drop its target table, then reload again" in epochs.tables[1].stopped


def test_a_request_waits_while_the_server_is_away_and_ends_if_it_can_never_be_done(state: LocalFolder) -> None:
    reloads = source(state, STOPPED)
    reload.request(state, 0, ["app.cut"])
    found = reloads.wanted(0)
    assert found is not None
    reloads.failed(*found, SourceUnavailableError("it is away", step="start"))
    assert reloads.wanted(0) is None, "not at once"
    assert len(reload.requests(state, 0)) == 1
    reloads.failed(*found, SourceError("it has no key", step="start"))
    assert reload.requests(state, 0) == []


def test_a_request_from_before_a_load_of_all_tables_is_fulfilled_by_it(state: LocalFolder) -> None:
    reload.request(state, 0, ["app.cut"])
    assert reload.requests(state, 1) == []


def test_only_selected_tables_are_looked_for_and_a_missing_one_is_named() -> None:
    settings = PostgresSettings(host="h", database="d", username="u", tables=Tables(include=["app.*"]))
    asked = ReloadRequest(0, ["app.a*", "other.b"])
    narrowed = asked.narrowed(settings).selected
    assert narrowed.has("app", "a*")
    assert not narrowed.has("app", "ab")
    assert not narrowed.has("other", "b")
    with pytest.raises(SourceError, match=r"no table other\.b to read"):
        ReloadStart(1, [table(1, "a*", "id")], [], 1).of(asked)


def test_columns_keep_the_numbers_that_they_have_and_new_ones_get_others() -> None:
    known = table(5, "cut", "id", "gone", "n", last_number=4)
    [again, new] = renumbered([table(1, "cut", "id", "n", "more"), table(2, "new", "id")], [known])
    assert (again.oid, {column.name: column.number for column in again.columns}) == (5, {"id": 1, "n": 3, "more": 5})
    assert (new.oid, [column.number for column in new.columns]) == (6, [1])

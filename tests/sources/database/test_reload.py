"""Tables that are loaded anew: requests, the note, and what a crash between two steps leaves."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from calve import durable
from calve.errors import SourceError, SourceUnavailableError
from calve.observe.log import Log
from calve.sources.database import reload
from calve.sources.database.epochs import Epochs
from calve.sources.database.overview import states
from calve.sources.database.reload import Beginning, Reloads, Request
from calve.sources.database.settings import Tables
from calve.sources.database.stopped import mark, marked
from calve.sources.database.table import Column, Table
from calve.sources.mysql.follow import renumbered
from calve.sources.postgres.settings import PostgresSettings

BEGUN = {"database": "d", "start": 1, "load": 0, "chunks": [{"table": 1, "bytes": 1}, {"table": 2, "bytes": 1}]}
CHUNKS = [{"table": 1, "bytes": 7}]


def table(oid: int, name: str, *columns: str, **more) -> Table:
    made = (Column(one, number, "int", "int", 23, -1, number == 1) for number, one in enumerate(columns, 1))
    return Table("d", oid, "app", name, tuple(made), **more)


STOPPED, OTHER = table(1, "cut", "id", "n", stopped="it was truncated"), table(2, "fine", "id")


def source(folder: Path, *tables: Table) -> Reloads:
    """Give the reloads of a source whose load is committed."""
    epochs = Epochs(folder)
    epochs.load()
    if epochs.number < 0:
        epochs.begin(tables)
        durable.replace(folder / "begun.json", BEGUN)
        durable.replace(folder / "committed.json", 2)
    return Reloads(folder, epochs, Log("p"))


def begun(reloads: Reloads, folder: Path, *tables: Table) -> Reloads:
    reload.request(folder, 0, [table.full_name for table in tables])
    found = reloads.wanted(0)
    assert found is not None
    reloads.begin(found[0], BEGUN, Beginning(100, list(tables), CHUNKS, 200))
    return reloads


def test_a_table_is_described_anew_and_its_changes_from_before_are_not_read(tmp_path: Path) -> None:
    reloads = begun(source(tmp_path, STOPPED, OTHER), tmp_path, table(1, "cut", "id", "n", "more"))
    mark(tmp_path, 1, "its rows were rewritten")
    assert dict(states(tmp_path))["app.cut"] == "waiting: it is loaded anew"
    reloads.apply()
    epochs = Epochs(tmp_path)
    epochs.load()
    assert epochs.tables == {1: table(1, "cut", "id", "n", "more", since=99), 2: OTHER}
    assert reload.requests(tmp_path, 0) == []
    assert marked(tmp_path) == {}
    assert reloads.to_clear is None, "what is in the log from before is written first"
    reloads.is_drained = True
    assert [one.name for one in reloads.to_clear or []] == ["app.cut"]
    assert [one.name for one in reloads.to_keep] == ["app.fine"]


def test_a_crash_after_the_note_is_made_good_before_the_stream_runs(tmp_path: Path) -> None:
    begun(source(tmp_path, STOPPED, OTHER), tmp_path, table(1, "cut", "id"))
    after = source(tmp_path)
    after.resume(BEGUN)
    epochs = Epochs(tmp_path)
    epochs.load()
    assert (epochs.number, epochs.tables[1].stopped, epochs.tables[1].since) == (1, "", 99)
    assert after.wanted(0) is None
    after.resume(BEGUN)
    assert not (tmp_path / "tables/000002.json").exists(), "a step is not done twice"


def test_chunks_are_added_to_the_load_once_even_if_the_note_outlives_it(tmp_path: Path) -> None:
    reloads = begun(source(tmp_path, STOPPED, OTHER), tmp_path, table(1, "cut", "id"))
    reloads.apply()
    load = reloads.loading(BEGUN, replaces=False)
    assert load["chunks"] == [*BEGUN["chunks"], {"table": 1, "bytes": 7, "epoch": 1, "at": 99}]
    assert reload.read(tmp_path, load) is None
    durable.replace(tmp_path / "begun.json", load)
    assert dict(states(tmp_path)) == {"app.cut": "waiting", "app.fine": "streaming"}
    reloads.finish()
    assert reload.read(tmp_path, BEGUN) is None


def test_rows_that_may_be_there_are_replaced(tmp_path: Path) -> None:
    reloads = begun(source(tmp_path, STOPPED), tmp_path, table(1, "cut", "id"))
    assert reloads.loading(BEGUN, replaces=True)["chunks"][-1]["replaces"]


def test_a_table_that_was_created_again_takes_the_place_of_the_old_one(tmp_path: Path) -> None:
    reloads = begun(source(tmp_path, STOPPED, OTHER), tmp_path, table(7, "cut", "id"))
    reloads.apply()
    epochs = Epochs(tmp_path)
    epochs.load()
    assert set(epochs.tables) == {2, 7}


def test_a_table_that_its_target_cannot_hold_stays_stopped_and_its_rows_stay(tmp_path: Path) -> None:
    other_type = msgspec.structs.replace(
        STOPPED, stopped="", columns=(STOPPED.columns[0], msgspec.structs.replace(STOPPED.columns[1], kind="string"))
    )
    reloads = begun(source(tmp_path, STOPPED), tmp_path, other_type)
    reloads.apply()
    reloads.is_drained = True
    assert reloads.to_clear == []
    assert reloads.loading(BEGUN, replaces=False)["chunks"] == BEGUN["chunks"]
    epochs = Epochs(tmp_path)
    epochs.load()
    assert "drop its target table, then reload again" in epochs.tables[1].stopped


def test_a_request_waits_while_the_server_is_away_and_ends_if_it_can_never_be_done(tmp_path: Path) -> None:
    reloads = source(tmp_path, STOPPED)
    reload.request(tmp_path, 0, ["app.cut"])
    found = reloads.wanted(0)
    assert found is not None
    reloads.failed(*found, SourceUnavailableError("it is away", step="start"))
    assert reloads.wanted(0) is None, "not at once"
    assert len(reload.requests(tmp_path, 0)) == 1
    reloads.failed(*found, SourceError("it has no key", step="start"))
    assert reload.requests(tmp_path, 0) == []


def test_a_request_from_before_a_load_of_all_tables_is_fulfilled_by_it(tmp_path: Path) -> None:
    reload.request(tmp_path, 0, ["app.cut"])
    assert reload.requests(tmp_path, 1) == []


def test_only_selected_tables_are_looked_for_and_a_missing_one_is_named() -> None:
    settings = PostgresSettings(host="h", database="d", username="u", tables=Tables(include=["app.*"]))
    asked = Request(0, ["app.a*", "other.b"])
    narrowed = asked.narrowed(settings).selected
    assert narrowed.has("app", "a*")
    assert not narrowed.has("app", "ab")
    assert not narrowed.has("other", "b")
    with pytest.raises(SourceError, match=r"no table other\.b to read"):
        Beginning(1, [table(1, "a*", "id")], [], 1).of(asked)


def test_columns_keep_the_numbers_that_they_have_and_new_ones_get_others() -> None:
    known = table(5, "cut", "id", "gone", "n", last_number=4)
    [again, new] = renumbered([table(1, "cut", "id", "n", "more"), table(2, "new", "id")], [known])
    assert (again.oid, {column.name: column.number for column in again.columns}) == (5, {"id": 1, "n": 3, "more": 5})
    assert (new.oid, [column.number for column in new.columns]) == (6, [1])

"""A set of rows on an object store keeps every row, however often it is joined and whatever is lost in between."""

from __future__ import annotations

import obstore
import pytest
from obstore.exceptions import GenericError

from calve.errors import WriteError
from calve.state.rows import StoreRows
from calve.state.store_folder import StoreFolder


@pytest.fixture
def folder(request: pytest.FixtureRequest) -> StoreFolder:
    return StoreFolder(f"memory://rows/{request.node.name}")


def test_many_additions_are_few_objects_and_all_rows(folder: StoreFolder) -> None:
    rows = StoreRows(folder, "finished")
    for number in range(2000):
        rows.add([(f"file-{number}", number)])
    assert len(folder.names()) < 70
    assert sorted(StoreRows(folder, "finished").load()) == sorted((f"file-{number}", number) for number in range(2000))


def test_the_next_process_continues_with_the_objects_of_the_last_one(folder: StoreFolder) -> None:
    for number in range(100):
        rows = StoreRows(folder, "finished")
        rows.load()
        rows.add([(number,)])
    assert len(folder.names()) < 40
    assert len(StoreRows(folder, "finished").load()) == 100


def test_an_addition_may_be_repeated(folder: StoreFolder) -> None:
    for _ in range(3):
        StoreRows(folder, "finished").add([("a", 1), ("b", 2)])
    assert sorted(StoreRows(folder, "finished").load()) == [("a", 1), ("b", 2)]
    assert len(folder.names()) == 1


def test_sets_of_other_names_and_other_objects_are_left_alone(folder: StoreFolder) -> None:
    taken, call = StoreRows(folder, "taken"), StoreRows(folder, "call")
    taken.add([("a",)])
    call.add([("b",)])
    folder.put("status.json", b"{}")
    call.clear()
    assert (taken.load(), call.load(), folder.get("status.json") is not None) == ([("a",)], [], True)


def test_a_reader_that_misses_joined_objects_lists_them_again(
    folder: StoreFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer, reader = StoreRows(folder, "finished"), StoreRows(folder, "finished")
    for number in range(31):
        writer.add([(number,)])
    names = StoreFolder.names

    def names_then_join(self: StoreFolder) -> list[str]:
        found = names(self)
        monkeypatch.undo()
        writer.add([(31,)])  # the 32nd: all are joined, and the listed objects are gone
        return found

    monkeypatch.setattr(StoreFolder, "names", names_then_join)
    assert sorted(reader.load()) == [(number,) for number in range(32)]


def test_a_failed_join_loses_nothing(folder: StoreFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = StoreRows(folder, "finished")
    for number in range(31):
        rows.add([(number,)])
    real = obstore.put

    def put(store: object, path: str, content: bytes) -> object:
        if "finished-1-" in path:
            raise GenericError("down")
        return real(store, path, content)  # type: ignore[call-overload]

    monkeypatch.setattr(obstore, "put", put)
    with pytest.raises(WriteError, match="does not answer: down"):
        rows.add([(31,)])
    monkeypatch.undo()
    rows.add([(31,)])
    assert len(StoreRows(folder, "finished").load()) == 32
    assert [name.split("-")[1] for name in folder.names()] == ["1"]

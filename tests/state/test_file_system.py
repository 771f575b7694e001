"""Objects of a store as files, for pyarrow and PyIceberg."""

from __future__ import annotations

from typing import Any

import obstore
import pyarrow.fs as pafs
import pytest
from obstore.exceptions import GenericError
from pyiceberg.io import load_file_io

from calve.observe.state_folder import Folder
from calve.state.clients import file_io_at
from calve.state.file_system import files_of
from calve.state.store_folder import StoreFolder


@pytest.fixture
def folder(request: pytest.FixtureRequest) -> StoreFolder:
    return StoreFolder(f"memory://files/{request.node.name}")


def test_a_folder_of_a_store_is_listed_read_and_written_like_a_local_one(folder: StoreFolder) -> None:
    seen = Folder.at(folder.location)
    assert (seen.exists(), seen.folders(), seen.has("b")) == (False, [], False)
    seen.write("b", b"one\ntwo")
    (seen / "sub").write("a", b"1")
    seen.write("_hidden", b"")
    assert (seen.exists(), seen.folders(), seen.has("b"), seen.has("sub")) == (True, ["sub"], True, False)
    assert [(info.base_name, info.size) for info in seen.file_infos()] == [("b", 7)]
    assert list(seen.lines("b")) == [b"one", b"two"]
    with pytest.raises(FileNotFoundError):
        seen.read("c")
    seen.remove("b")
    seen.remove("b")
    assert folder.names() == ["_hidden", "sub/a"]


def test_a_file_is_read_in_parts_moved_and_removed_with_its_folder(folder: StoreFolder) -> None:
    folder.put("a/b", b"0123456789")
    files, path = files_of(folder.location)
    with files.open_input_file(f"{path}/a/b") as file:
        assert (file.size(), file.read_at(3, 4), file.read_at(9, 8), file.seek(-2, 2), file.read()) == (
            10, b"456", b"89", 8, b"89",
        )  # fmt: skip
    files.move(f"{path}/a/b", f"{path}/c/d/e")
    found = files.get_file_info(pafs.FileSelector(path, recursive=True))
    assert sorted(one.path for one in found) == [f"{path}/{name}" for name in ("c", "c/d", "c/d/e")]
    files.delete_dir(f"{path}/c")
    assert not folder.exists()


def test_a_file_io_of_iceberg_uses_the_same_store(folder: StoreFolder) -> None:
    io, file = load_file_io(file_io_at(folder.location)), f"{folder}/x"
    assert not io.new_input(file).exists()
    with io.new_output(file).create(overwrite=True) as output:
        output.write(b"abc")
        assert folder.get("x") is None  # it appears whole
    assert (len(io.new_input(file)), io.new_input(file).open().read()) == (3, b"abc")
    io.delete(file)
    assert folder.get("x") is None


def test_a_store_that_does_not_answer_is_an_error_of_the_file(
    folder: StoreFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise GenericError("the network is gone")

    monkeypatch.setattr(obstore, "put", refuse)
    with pytest.raises(OSError, match="does not answer: the network is gone"):
        Folder.at(folder.location).write("a", b"1")

"""Files with events are for their user alone, or for a group that the user has chosen."""

from __future__ import annotations

import os
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from calve.files.private import create_private, make_private
from calve.ledger.lock import DriverLock
from calve.observe.state_folder import Folder
from calve.sources.log import segment
from calve.sources.source_files import LocalFiles
from calve.state import durable
from calve.state.local_folder import LocalFolder


@pytest.fixture(autouse=True)
def anything_goes() -> Iterator[None]:
    """Let the process create what everybody may write."""
    before = os.umask(0)
    yield
    os.umask(before)


def write_all(state: Path) -> None:
    """Write in all ways into a state that is not there yet."""
    durable.make_folder(state / "p" / "ledger")
    durable.publish(state / "p" / "ledger" / "1.json", b"{}")
    durable.replace(state / "p" / "ledger" / "2.json", b"{}")
    Folder.at(str(state / "p")).write("status.json", b"{}")
    files = LocalFiles(LocalFolder(state / "p" / "source"))
    files.write("a/b", b"1")
    files.append("a/c", b"1")
    DriverLock(state / "p" / "lock").release()
    os.close(segment.create(state / "p", 1, 0))
    create_private(state / "p" / "x.db")
    with closing(sqlite3.connect(state / "p" / "x.db")) as database:
        database.execute("CREATE TABLE t (a)")


def modes(state: Path) -> set[tuple[bool, str]]:
    return {(path.is_dir(), oct(stat.S_IMODE(path.stat().st_mode))) for path in (state, *state.rglob("*"))}


def test_a_state_is_for_its_user_alone_whatever_the_umask(tmp_path: Path) -> None:
    write_all(tmp_path / "new" / "state")
    assert modes(tmp_path / "new") == {(True, "0o700"), (False, "0o600")}


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        (0o2750, {(True, "0o2750"), (False, "0o640")}),
        (0o2770, {(True, "0o2770"), (False, "0o660")}),
        (0o750, {(True, "0o700"), (False, "0o600")}),
        (0o2755, {(True, "0o2700"), (False, "0o600")}),
    ],
)
def test_a_folder_with_setgid_and_nothing_for_others_is_shared_with_its_group(
    tmp_path: Path, mode: int, expected: set[tuple[bool, str]]
) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "state").chmod(mode)
    write_all(tmp_path / "state")
    assert modes(tmp_path / "state" / "p") == expected


def test_a_file_in_place_of_a_folder_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path in (tmp_path / "file", tmp_path / "file" / "folder"):
        with pytest.raises(OSError, match=r"File exists|Not a directory"):
            make_private(path)

"""Paths that are links, odd names, and what is no file."""

import json
import logging
import os
from pathlib import Path
from typing import Any

import pytest

from calve.errors import SourceError
from calve.sources.file.paths import local_path, portable, readable
from calve.sources.file.storage import Storage
from calve.sources.source import Planned
from sources.file.folders import ALL, events, names, opened, write


def planned(folder: Path, path: str | None = None, **options: Any) -> Planned | None:
    files = opened(folder, path, **options)
    files.start(None, once=True)
    return files.plan(None, ALL)


@pytest.mark.parametrize("link", [os.symlink, os.link])
def test_a_file_is_read_once_by_its_own_name_whatever_links_stand_beside_it(
    tmp_path: Path, link: object, caplog: pytest.LogCaptureFixture
) -> None:
    path = write(tmp_path, "b.ndjson")
    link(path, path.with_name("latest.ndjson"))
    write(tmp_path, "c.ndjson", b'{"a":2}\n')
    with caplog.at_level(logging.WARNING):
        assert names(planned(tmp_path)) == ["b.ndjson", "c.ndjson"]
    assert "latest.ndjson is another path of" in caplog.text


def test_a_link_that_comes_later_or_moves_reads_no_file_twice(tmp_path: Path) -> None:
    first = write(tmp_path, "1.ndjson")
    files = opened(tmp_path)
    files.start(None, once=False)
    batch = files.plan(None, ALL)
    assert names(batch) == ["1.ndjson"]
    latest = first.with_name("0-latest.ndjson")
    latest.symlink_to(first)
    first.with_name("copy.ndjson").hardlink_to(first)
    assert files.plan(batch.position, ALL) is None
    second = write(tmp_path, "2.ndjson", b'{"a":2}\n')
    latest.unlink()
    latest.symlink_to(second)
    assert names(files.plan(batch.position, ALL)) == ["2.ndjson"]


def test_a_link_alone_is_read_by_its_name_and_a_folder_that_links_to_itself_ends(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere.ndjson"
    elsewhere.write_bytes(b"{}\n")
    folder = write(tmp_path, "x/a.ndjson").parent
    (folder / "link.ndjson").symlink_to(elsewhere)
    (folder / "loop").symlink_to(folder)
    for path in (tmp_path / "in" / "**" / "*.ndjson", tmp_path / "in"):
        assert sorted(names(planned(tmp_path, str(path), follow_links=True))) == ["a.ndjson", "link.ndjson"]


@pytest.mark.parametrize("pattern", ["in", "in/*", "in/**/*.ndjson", "in/*/*", "i*/*"])
def test_a_link_out_of_the_folder_of_a_glob_is_not_read_unless_allowed(
    tmp_path: Path, pattern: str, caplog: pytest.LogCaptureFixture
) -> None:
    base = tmp_path / "base"
    (base / "in" / "x").mkdir(parents=True)
    secret = tmp_path / "secret" / "key.ndjson"
    secret.parent.mkdir()
    secret.write_bytes(b'{"key":"s3cr3t"}\n')
    for folder in (base / "in", base / "in" / "x"):
        (folder / "link.ndjson").symlink_to(secret)
        (folder / "folder").symlink_to(secret.parent)
        (folder / "own.ndjson").write_bytes(b"{}\n")
        (folder / "inside.ndjson").symlink_to(base / "in" / "own.ndjson")
    with caplog.at_level(logging.WARNING):
        batch = planned(tmp_path, f"{base}/{pattern}")
    assert {Path(os.path.realpath(split.body["path"])).name for split in batch.splits} == {"own.ndjson"}
    assert "is behind a link out of" in caplog.text
    assert "set follow_links: true" in caplog.text
    allowed = planned(tmp_path, f"{base}/{pattern}", follow_links=True)
    assert "key.ndjson" in {Path(os.path.realpath(split.body["path"])).name for split in allowed.splits}
    named = planned(tmp_path, str(base / "in" / "link.ndjson"))
    assert names(named) == ["link.ndjson"], "the user named it"


def test_what_is_no_file_is_said_and_the_others_are_read(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = write(tmp_path, "a.ndjson").parent
    os.mkfifo(folder / "pipe.ndjson")
    (folder / "folder.ndjson").mkdir()
    (folder / "gone.ndjson").symlink_to(folder / "nowhere")
    (folder / "loop.ndjson").symlink_to(folder / "loop.ndjson")
    with caplog.at_level(logging.WARNING):
        assert names(planned(tmp_path)) == ["a.ndjson"]
    assert "pipe.ndjson is not read: it is not a regular file" in caplog.text
    assert "gone.ndjson is not read: it is a link that leads to no file" in caplog.text
    assert "loop.ndjson is not read: it is a link that leads to no file" in caplog.text
    with pytest.raises(SourceError, match="is not a regular file"):
        planned(tmp_path, str(folder / "pipe.ndjson"))


NAMES = [
    b"caf\xe9",
    b"new\nline",
    b"\xff\xfe",
    "caf\u00e9 \U0001d11e".encode(),
    b"[x]*?",
    b"a\\xe9",
    b"n" * 240,
    b"'\"",
]


@pytest.mark.parametrize("name", NAMES)
def test_a_file_is_read_whatever_its_name(tmp_path: Path, name: bytes) -> None:
    write(tmp_path, "a.ndjson")
    path = os.fsencode(tmp_path / "in") + b"/" + name + b".ndjson"
    Path(os.fsdecode(path)).write_bytes(b'{"b":1}\n')
    files = opened(tmp_path)
    files.start(None, once=True)
    batch = files.plan(None, ALL)
    json.dumps(batch.splits[1].body, ensure_ascii=False).encode()
    assert sorted(events(files, batch)) == [b'{"a":1}', b'{"b":1}']
    files.acknowledge(batch)
    again = opened(tmp_path)
    again.start(batch.position, once=True)
    assert again.plan(batch.position, ALL) is None


def test_a_path_comes_back_from_its_text(tmp_path: Path) -> None:
    for name in NAMES:
        path = os.fsdecode(b"/x/" + name)
        assert local_path(portable(path)) == path
        readable(portable(path)).encode()
    assert readable(portable(os.fsdecode(b"/x/caf\xe9"))) == "/x/caf\\xe9"


def test_folders_that_lead_to_each_other_in_circles_are_listed_once(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "x.ndjson").write_text("{}\n")
        for number in range(3):
            (tmp_path / name / f"self{number}").symlink_to(".")
    (tmp_path / "a" / "other").symlink_to("../b")
    (tmp_path / "b" / "other").symlink_to("../a")
    for pattern in (tmp_path, tmp_path / "**" / "*.ndjson"):
        found = {str(Path(each.path).relative_to(tmp_path)) for each in Storage().find(str(pattern))}
        assert found == {"a/x.ndjson", "b/x.ndjson", "a/other/x.ndjson", "b/other/x.ndjson"}


def test_a_file_below_a_link_to_a_folder_is_found_by_the_name_of_the_link(tmp_path: Path) -> None:
    (tmp_path / "day").mkdir()
    (tmp_path / "day" / "x\n.ndjson").write_text("{}\n")
    (tmp_path / "today").symlink_to("day")
    found = [Path(each.path).name for each in Storage().find(str(tmp_path / "**" / "today" / "**"))]
    assert found == ["x\n.ndjson"]

"""Files that grow: each line once, whatever happens to its file."""

from __future__ import annotations

import gzip
import os
from datetime import timedelta
from pathlib import Path

import pytest

from calve.errors import SettingsError, SourceError
from calve.pipeline.plugins import PLUGINS
from calve.settings import parse_text
from calve.sources.file import source
from calve.sources.file.settings import FileSettings
from calve.state.local_folder import LocalFolder
from sources.file.tail.world import LINES, Tail, append, old


def test_lines_are_read_as_they_are_appended_and_an_unfinished_one_waits(log: Path) -> None:
    tail = Tail(log.parent)
    assert tail.lines() == []
    append(log, "a\nb\nun")
    assert tail.rows() == [("a", "app.log", 1), ("b", "app.log", 2)]
    assert not tail.source.backlog(tail.position)
    append(log, "finished\n\nc\n")
    assert tail.rows() == [("unfinished", "app.log", 3), ("c", "app.log", 5)]
    assert Tail.start(tail).lines() == []
    append(log, "d\n")
    assert tail.rows() == [("d", "app.log", 6)]


def test_once_ends_with_the_complete_lines_that_were_there(log: Path) -> None:
    log.write_text("a\nb\nrest")
    tail = Tail(log.parent, once=True)
    append(log, " of it\nc\n")
    (log.parent / "other.log").write_text("x\n")
    assert tail.lines() == ["a", "b"]
    assert tail.start(once=True).lines() == ["rest of it", "c"]


def test_files_that_were_read_without_tail_are_followed_from_their_former_end(log: Path) -> None:
    for name, text in (("app.log", "a\nb\n"), ("grown.log", "c\n"), ("cut.log", "d\ne\n")):
        (log.parent / name).write_text(text)
    options = {"path": str(log.parent / "*.log"), "codec": LINES}
    whole = source.open(FileSettings(**options), LocalFolder(log.parent / "state"), "p")
    whole.start(None, True)
    planned = whole.plan(None, 1 << 20)
    assert planned is not None
    whole.acknowledge(planned)
    append(log.with_name("grown.log"), "f\n")
    log.with_name("cut.log").write_text("g\n")
    log.with_name("new.log").write_text("h\n")
    tail = Tail(log.parent, "*.log", position=planned.position)
    assert sorted(tail.lines()) == ["f", "g", "h"]
    append(log, "i\n")
    assert tail.lines() == ["i"]


def test_once_and_a_file_that_does_not_exist_is_an_error(log: Path) -> None:
    with pytest.raises(SourceError, match="does not exist"):
        Tail(log.parent, once=True)


def test_a_renamed_file_is_read_to_its_end_before_the_new_one(log: Path) -> None:
    log.write_text("a\nb")
    tail = Tail(log.parent)
    assert tail.lines() == ["a"]
    log.rename(log.with_name("app.log.1"))
    log.write_text("x\n")
    append(log.with_name("app.log.1"), "c\nd\n")
    old(log.with_name("app.log.1"))
    assert tail.rows() == [("bc", "app.log", 2), ("d", "app.log", 3), ("x", "app.log", 1)]
    append(log.with_name("app.log.1"), "late\n")
    assert tail.start().lines() == ["late"]


def test_a_file_that_was_renamed_while_nobody_looked_is_found_again(log: Path) -> None:
    log.write_text("a\n")
    tail = Tail(log.parent)
    assert tail.lines() == ["a"]
    tail.source.stop()
    append(log, "b\n")
    log.rename(log.with_name("app.log.1"))
    log.write_text("c\n")
    assert sorted(tail.start().lines()) == ["b", "c"]


def test_the_last_line_of_a_renamed_file_counts_without_its_end_when_it_has_not_grown(log: Path) -> None:
    log.write_text("a\nlast")
    tail = Tail(log.parent, rotate_wait=timedelta(minutes=1))
    assert tail.lines() == ["a"]
    log.rename(log.with_name("app.log.1"))
    assert tail.lines() == []
    old(log.with_name("app.log.1"))
    assert tail.lines() == ["last"]


def test_a_removed_file_is_read_to_its_end(log: Path) -> None:
    log.write_text("a\n")
    tail = Tail(log.parent, rotate_wait=timedelta(0))
    assert tail.lines() == ["a"]
    writer = log.open("a")
    log.unlink()
    writer.write("b\nc")
    writer.close()
    assert tail.lines() == ["b", "c"]
    log.write_text("new\n")
    assert tail.lines() == ["new"]


@pytest.mark.parametrize("restarts", [False, True])
def test_a_cut_file_is_read_from_its_start_even_if_it_is_longer_than_before(log: Path, restarts: bool) -> None:
    log.write_text("a\nb\n")
    tail = Tail(log.parent)
    assert tail.lines() == ["a", "b"]
    for again in ("c\n", "the new content is longer\nthan the old one\n", "d\n"):
        log.write_text(again)
        if restarts:
            tail.start()
        assert tail.lines() == again.splitlines()


def test_a_cut_file_with_the_same_beginning_is_recognized_by_what_was_read_last(log: Path) -> None:
    banner = "x" * 2000 + "\n"
    log.write_text(f"{banner}a\n")
    tail = Tail(log.parent)
    assert tail.lines() == [banner.strip(), "a"]
    log.write_text(f"{banner}b\nc\n")
    assert tail.start().lines() == [banner.strip(), "b", "c"]


def test_zeros_before_the_first_line_are_skipped(log: Path) -> None:
    with log.open("w") as writer:
        writer.write("a\nb\n")
        writer.flush()
        tail = Tail(log.parent)
        assert tail.lines() == ["a", "b"]
        os.truncate(log, 0)
        writer.write("c\n")  # the writer does not append, so it goes on behind a hole
    assert log.read_bytes() == b"\0\0\0\0c\n"
    assert tail.lines() == ["c"]


def test_an_inode_that_is_used_again_is_a_new_file(log: Path) -> None:
    log.write_text("first\n")
    tail = Tail(log.parent, "*.log")
    assert tail.lines() == ["first"]
    entry = tail.position["files"][0]
    log.unlink()
    other = log.with_name("other.log")
    other.write_text("other content\n")
    status = other.stat()
    entry[1:3] = [status.st_dev, status.st_ino]  # as if the file system had given it the number of the removed one
    assert tail.start().rows() == [("other content", "other.log", 1)]


def test_a_device_with_another_number_after_a_reboot_is_the_same_file(log: Path) -> None:
    log.write_text("a\n")
    tail = Tail(log.parent)
    assert tail.lines() == ["a"]
    tail.position["files"][0][1] += 1
    append(log, "b\n")
    assert tail.start().lines() == ["b"]


def test_a_folder_that_was_away_does_not_make_its_files_new(log: Path) -> None:
    log.write_text("a\n")
    tail = Tail(log.parent)
    assert tail.lines() == ["a"]
    other = log.parent.with_name("elsewhere")
    log.parent.rename(other)
    log.parent.mkdir()
    tail.folder = other
    second = log.with_name("app.log")
    assert tail.start().lines() == []
    second.write_text("b\n")
    assert tail.lines() == ["b"]
    second.unlink()
    (other / "app.log").rename(second)
    append(second, "c\n")
    assert tail.start().lines() == ["c"]


def test_a_file_that_became_a_folder_is_left_alone(log: Path, caplog: pytest.LogCaptureFixture) -> None:
    log.write_text("a\n")
    tail = Tail(log.parent)
    assert tail.lines() == ["a"]
    log.rename(log.with_name("kept"))
    log.mkdir()
    (log / "b.log").write_text("b\n")
    append(log.with_name("kept"), "c\n")
    assert tail.lines() == ["c"]
    assert "is a folder now" in caplog.text
    log.rename(log.with_name("folder"))
    log.write_text("d\n")
    assert tail.lines() == ["d"]


def test_an_unreadable_file_is_told_once_and_read_when_it_may_be(
    log: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    log.write_text("a\n")
    really = os.open

    def refuses(path: str, *more: int) -> int:
        if str(path) == str(log):
            raise PermissionError(13, "Permission denied")
        return really(path, *more)

    monkeypatch.setattr(os, "open", refuses)
    tail = Tail(log.parent)
    assert tail.lines() == []
    assert tail.lines() == []
    assert caplog.text.count("is not readable for this user") == 1
    monkeypatch.undo()
    assert tail.lines() == ["a"]


def test_a_file_whose_disk_fails_is_read_when_it_answers(
    log: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    log.write_text("a\n")
    tail = Tail(log.parent)
    assert tail.lines() == ["a"]
    append(log, "b\n")

    def fails(*_: object) -> bytes:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "pread", fails)
    assert tail.lines() == []
    assert tail.lines() == []
    assert caplog.text.count("Input/output error") == 1
    monkeypatch.undo()
    assert tail.lines() == ["b"]


def test_compressed_files_are_refused_by_name_or_by_content(log: Path, caplog: pytest.LogCaptureFixture) -> None:
    log.with_name("app.log.1.gz").write_bytes(gzip.compress(b"x\n"))
    log.with_name("app.log.2").write_bytes(gzip.compress(b"y\n"))
    log.write_text("a\n")
    assert Tail(log.parent, "app.log*").lines() == ["a"]
    for name in ("app.log.1.gz", "app.log.2"):
        assert f"{name} is compressed and is not followed" in caplog.text


def test_a_pattern_follows_new_files_and_names_rotated_ones_once(log: Path) -> None:
    log.with_name("app.log.1").write_text("a\n")
    old(log.with_name("app.log.1"))
    log.write_text("b\n")
    tail = Tail(log.parent, "app.log*", codec=None)
    assert tail.lines() == ["a", "b"]
    log.with_name("app.log.1").rename(log.with_name("app.log.2"))
    log.rename(log.with_name("app.log.1"))
    log.write_text("c\n")
    assert tail.start().lines() == ["c"]


def test_links_to_a_file_are_the_same_file(log: Path) -> None:
    (log.parent / "real").mkdir()
    real = log.parent / "real" / "0.log"
    real.write_text("a\n")
    log.symlink_to(real)
    log.with_name("b.log").symlink_to(real)
    tail = Tail(log.parent, "*.log")
    assert tail.rows() == [("a", "app.log", 1)]
    append(real, "b\n")
    real.rename(real.with_name("0.log.20261123"))
    real.write_text("c\n")
    old(real.with_name("0.log.20261123"))
    assert tail.start().rows() == [("b", "app.log", 2), ("c", "app.log", 1)]


def test_a_link_out_of_the_folder_of_a_glob_is_not_followed_unless_allowed(
    log: Path, tmp_path_factory: pytest.TempPathFactory, caplog: pytest.LogCaptureFixture
) -> None:
    real = tmp_path_factory.mktemp("elsewhere") / "0.log"
    real.write_text("secret\n")
    log.symlink_to(real)
    assert Tail(log.parent, "*.log").rows() == []
    assert "app.log is not followed: it is behind a link out of" in caplog.text
    assert Tail(log.parent, "*.log", follow_links=True).rows() == [("secret", "app.log", 1)]


def test_only_codecs_that_read_lines_are_followed(log: Path, caplog: pytest.LogCaptureFixture) -> None:
    log.with_suffix(".csv").write_text("a,b\n1,2\n")
    assert Tail(log.parent, "*.c*", codec=None).lines() == []
    assert "`tail` reads lines" in caplog.text
    for options in ("codec: {csv: {}}", "compression: gzip", "codec: {json: {}}", "path: 'in/*.csv'"):
        text = f"p:\n  source: {{file: {{{'' if 'path' in options else 'path: a.log, '}tail: true, {options}}}}}\n  sink: [{{iceberg: {{table_identifier: a.b}}}}]"
        with pytest.raises(SettingsError, match="tail"):
            parse_text(text, PLUGINS)


def test_a_file_whose_name_is_not_utf8_is_followed_over_a_restart_and_a_rotation(log: Path) -> None:
    path = Path(os.fsdecode(os.fsencode(log.parent) + b"/caf\xe9.log"))
    append(path, "a\nb\n")
    tail = Tail(log.parent, "*.log")
    assert tail.rows() == [("a", "caf\\xe9.log", 1), ("b", "caf\\xe9.log", 2)]
    append(path, "c\n")
    tail.start()
    path.rename(path.with_name(path.name + ".1"))
    append(path, "d\n")
    assert sorted(tail.lines()) == ["c", "d"]

from __future__ import annotations

import time
from datetime import timedelta
from pathlib import Path

import pytest

from calve.errors import SourceError
from calve.sources.http.keys import KeyStore
from calve.state.local_folder import LocalFolder

DAY = timedelta(days=1)


def now() -> int:
    return time.time_ns() // 1_000_000


def opened(folder: Path, window: timedelta = DAY, limit: int = 1000) -> KeyStore:
    store = KeyStore(LocalFolder(folder), window, limit)
    store.load()
    return store


def test_kept_keys_are_known_after_a_restart(tmp_path: Path) -> None:
    opened(tmp_path).keep([(now(), b"a"), (now(), b"b")])
    store = opened(tmp_path)
    assert b"a" in store
    assert b"b" in store
    assert b"c" not in store


def test_keys_older_than_the_window_are_forgotten_on_disk_too(tmp_path: Path) -> None:
    opened(tmp_path).keep([(now() - 1000, b"a")])
    assert b"a" not in opened(tmp_path, window=timedelta(milliseconds=1))
    assert not list(tmp_path.iterdir())


def test_a_clock_that_is_set_forward_by_a_day_makes_no_key_old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = 0.0
    store = KeyStore(LocalFolder(tmp_path), DAY, 16, lambda: seconds)
    store.load()
    store.keep([(now(), b"a")])
    with monkeypatch.context() as patched:
        ahead = time.time() + 2 * 86_400
        patched.setattr(time, "time_ns", lambda: int(ahead * 1e9))
        patched.setattr(time, "time", lambda: ahead)
        store.keep([(now(), b"b")])
    store.keep([(now(), b"c")])
    assert all(key in store for key in (b"a", b"b", b"c"))
    seconds = 86_401.0
    store.keep([(now(), b"d")])
    assert b"a" not in store
    assert b"d" in store


def test_no_more_keys_than_the_bound_are_kept_and_the_newest_stay(tmp_path: Path) -> None:
    store = opened(tmp_path, limit=16)
    for number in range(100):
        store.keep([(now(), b"%d" % number)])
    kept = [number for number in range(100) if b"%d" % number in store]
    assert kept == list(range(84, 100))
    assert len(list(tmp_path.iterdir())) == 16


def test_a_torn_last_line_is_cut_off_and_written_behind(tmp_path: Path) -> None:
    opened(tmp_path).keep([(now(), b"a")])
    path = next(tmp_path.iterdir())
    path.write_bytes(path.read_bytes() + b"123 to")
    opened(tmp_path).keep([(now(), b"b")])
    store = opened(tmp_path)
    assert b"a" in store
    assert b"b" in store
    assert b"to" not in store


def test_a_damaged_list_is_said(tmp_path: Path) -> None:
    opened(tmp_path).keep([(now(), b"a")])
    path = next(tmp_path.iterdir())
    path.write_bytes(b"nonsense\n" + path.read_bytes())
    with pytest.raises(SourceError, match="idempotency keys"):
        opened(tmp_path)

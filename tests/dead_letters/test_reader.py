from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from calve.dead_letters.reader import DeadLetter, Unreadable, locations_of, read, stores_at, summarise
from calve.errors import SourceError
from calve.observe.state_folder import CHUNK_BYTES, Folder
from calve.observe.watch import Watch


def entry(**changed: Any) -> dict[str, Any]:
    return {
        "pipeline": "orders",
        "sink": "iceberg",
        "table": "shop.orders",
        "timestamp": "2026-01-01T00:00:00Z",
        "reason": "'x' is not a valid int",
        "code": "NOT_COERCIBLE",
        "field": "amount",
        "event": '{"amount": "x"}',
        "metadata": {},
        **changed,
    }


def write(folder: Path, name: str, *lines: bytes | dict[str, Any]) -> Folder:
    folder.mkdir(parents=True, exist_ok=True)
    data = [
        line if isinstance(line, bytes) else json.dumps(line, ensure_ascii=False).encode() + b"\n" for line in lines
    ]
    (folder / name).write_bytes(b"".join(data))
    return Folder.at(str(folder))


def test_originals_come_back_byte_for_byte(tmp_path: Path) -> None:
    odd = b'{"name": "\xff\x00"}'
    encoded = base64.b64encode(odd).decode()
    folder = write(tmp_path, "1.ndjson", entry(event='{"é": 1}'), entry(event=encoded, event_encoding="base64"))
    assert [found.original() for found, _ in read(folder) if isinstance(found, DeadLetter)] == [
        '{"é": 1}'.encode(),
        odd,
    ]


def test_broken_lines_are_passed_over_with_a_note(tmp_path: Path) -> None:
    cut = json.dumps(entry()).encode()[:30]
    folder = write(tmp_path, "1.ndjson", entry(), b"\n", b"foreign\n", b'{"some": "json"}\n', b"\xff\n", entry(), cut)
    kinds = [type(found) for found, _ in read(folder)]
    assert kinds == [DeadLetter, Unreadable, Unreadable, Unreadable, DeadLetter, Unreadable]
    assert [(Path(one.file).name, one.line) for one in summarise("orders", [folder]).unreadable] == [
        ("1.ndjson", 3),
        ("1.ndjson", 4),
        ("1.ndjson", 5),
        ("1.ndjson", 7),
    ]


def test_unpublished_and_foreign_files_are_not_looked_at(tmp_path: Path) -> None:
    for name in ("_1.ndjson", ".2.ndjson", "readme.txt"):
        write(tmp_path, name, entry())
    assert list(read(Folder.at(str(tmp_path)))) == []


def test_entries_are_counted_by_table_and_code_with_their_times(tmp_path: Path) -> None:
    write(tmp_path, "2.ndjson", entry(timestamp="2026-01-03T00:00:00Z"), entry(table=None, code="MALFORMED"))
    folder = write(tmp_path, "1.ndjson", entry(timestamp="2025-01-01T00:00:00Z"))
    summary = summarise("orders", [folder])
    assert summary.counts == {("shop.orders", "NOT_COERCIBLE"): 2, ("", "MALFORMED"): 1}
    assert (summary.first, summary.last) == ("2025-01-01T00:00:00Z", "2026-01-03T00:00:00Z")
    assert {Path(file).name for file in summary.newest_files} == {"1.ndjson", "2.ndjson"}


def test_a_timestamp_in_milliseconds_is_shown_as_a_time() -> None:
    assert DeadLetter(code="X", timestamp=1_767_225_600_000).time() == "2026-01-01T00:00:00.000+00:00"


def test_lines_longer_than_a_chunk_stay_whole(tmp_path: Path) -> None:
    long = "x" * (CHUNK_BYTES * 2 + 17)
    folder = write(tmp_path, "1.ndjson", entry(event=long), entry(event="short"))
    assert [found.event for found, _ in read(folder) if isinstance(found, DeadLetter)] == [long, "short"]


def test_a_file_that_vanishes_meanwhile_is_passed_over(tmp_path: Path) -> None:
    write(tmp_path, "1.ndjson", entry())
    folder = write(tmp_path, "2.ndjson", entry())
    found = read(folder)
    next(found)
    (tmp_path / "2.ndjson").unlink()
    assert list(found) == []


def test_a_folder_that_is_not_there_has_no_dead_letters(tmp_path: Path) -> None:
    assert list(read(Folder.at(str(tmp_path / "never")))) == []


def test_the_status_says_where_the_rejects_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with Watch() as watch:
        watch.pipeline("orders", str(tmp_path / "orders"))
        watch.pipeline("clicks", str(tmp_path / "clicks"), dlq="elsewhere")
        watch.pipeline("views", str(tmp_path / "views"), dlq=[str(tmp_path / "a"), str(tmp_path / "b")])
    monkeypatch.chdir("/")
    places = {
        name: [place.path for place in stores_at(locations_of(str(tmp_path), name))]
        for name in ("orders", "clicks", "views")
    }
    assert places == {
        "orders": [str(tmp_path / "orders" / "dlq")],
        "clicks": [str(tmp_path / "elsewhere")],
        "views": [str(tmp_path / "a"), str(tmp_path / "b")],
    }


def test_a_folder_that_cannot_be_read_is_an_error_with_a_way_out(tmp_path: Path) -> None:
    (tmp_path / "dlq").write_text("a file where the folder should be")
    with pytest.raises(SourceError, match=r"cannot be read.*Check your permissions"):
        list(read(Folder.at(str(tmp_path / "dlq"))))

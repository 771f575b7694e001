"""Dead letters that only a commit knows of are in their file once, however often the commit is tried."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from calve.dead_letters.at_commit import counted, keep
from calve.errors import WriteError

ABOUT = {"pipeline": "p", "sink": "s", "table": "db.t"}


def letter(event: str, code: str = "REQUIRED_MISSING") -> bytes:
    return json.dumps({"code": code, "event": event}).encode() + b"\n"


def test_what_an_attempt_tells_takes_the_place_of_what_the_one_before_told(tmp_path: Path) -> None:
    path = tmp_path / "dlq" / "b-1.ndjson"
    for told in (["a", "b"], ["b"], ["b", "c", "c"]):
        keep(str(path), [letter(event) for event in told], ABOUT, {})
        entries = [json.loads(line) for line in path.read_text().splitlines()]
        assert entries == [{**ABOUT, "code": "REQUIRED_MISSING", "event": event} for event in told]
        assert counted(str(path), {}) == {"REQUIRED_MISSING": len(told)}
    for _ in range(2):
        keep(str(path), [], ABOUT, {})
        assert list(path.parent.iterdir()) == []
        assert counted(f"file://{path}", {}) == {}


def test_a_folder_that_refuses_is_an_error_before_anything_is_committed(tmp_path: Path) -> None:
    (tmp_path / "dlq").write_text("")
    with pytest.raises(WriteError):
        keep(str(tmp_path / "dlq" / "b-1.ndjson"), [letter("a")], ABOUT, {})

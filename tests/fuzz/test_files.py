"""A few folders of `make fuzz FUZZ=--files` in this process, and laws of its oracle."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

from fuzz.file_packing import Packed, packed
from fuzz.files_play import check, play

FOLDERS = 40


def test_each_whole_record_of_a_file_is_one_event_and_each_damaged_one_is_one_reject(tmp_path: Path) -> None:
    counts, findings = play(random.Random("suite"), tmp_path / "first")
    for number in range(FOLDERS):
        counts_of, findings_of = play(random.Random(f"suite-{number}"), tmp_path / str(number))
        counts += counts_of
        findings += findings_of
    assert findings == []
    assert all(counts[name] > FOLDERS for name in ("files", "events", "rejects"))


def test_a_file_is_always_the_same_and_of_every_format() -> None:
    assert [packed(random.Random(seed)) for seed in range(9)] == [packed(random.Random(seed)) for seed in range(9)]
    suffixes = {packed(random.Random(seed)).suffix for seed in range(300)}
    assert {"csv", "csv.gz", "csv.zst", "json", "json.gz", "ndjson", "jsonl.zst", "txt", "log.gz"} <= suffixes


def test_the_oracle_sees_what_is_lost_doubled_half_or_without_its_reason() -> None:
    file = Packed("json.gz", b"", None, [{"a": 1}, {"a": 2}], [{"a": 3}], (2, 2), is_cut=True)
    rejects = [("x", "not JSON"), ("y", "The file f ends in the middle of its gzip data (cut off?)")]

    def found(values: list[int], reasons: list[tuple[str, str]] = rejects, of: Packed = file) -> list[str]:
        return [finding.kind for finding in check(of, [*(({"a": value}, "") for value in values), *reasons])]

    assert found([1, 2]) == found([1, 2, 3]) == []
    assert found([1]) == found([2, 1]) == found([1, 2, 2]) == found([1, 2, 3, 3]) == found([1, 2, 4]) == ["value"]
    assert found([1, 2], rejects[1:]) == ["count"]
    assert found([1, 2], [rejects[0], rejects[0]]) == ["count"]
    assert found([1, 2], of=replace(file, rejects=(1, 1))) == ["count"]

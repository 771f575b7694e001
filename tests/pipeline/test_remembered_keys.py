"""A pipeline that remembers keys: over kills, restarts, repeated batches and commits, against a dictionary."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow.parquet as pq
import pytest

from calve.ledger import ledger as ledger_module
from calve.ledger import local_records
from calve.ledger.ledger import Ledger
from calve.observe.log import Log
from calve.observe.totals import Totals
from calve.pipeline.batch import run_batch
from calve.pipeline.remembered_keys import RememberedKeys
from calve.processors import key_filter
from calve.sources.source import Planned, Split
from calve.task.isolation import Excluded, Isolation, position
from kit.lake import Lake

WINDOW_TENTHS = 30
STEPS = [
    {"deduplicate": {"keys": ["id"], "window": f"{WINDOW_TENTHS // 10}s"}},
    {"delete_entries": {"with_keys": ["id"]}},
    {"add_entries": {"entries": [{"key": "k", "format": "${n}"}]}},
]
POINTS = (
    "ledger.after-begin",
    "task.after-keys",
    "ledger.before-stage",
    "ledger.after-stage",
    "ledger.before-committed",
    "ledger.after-committed",
)
IDS = ("1", "1.0", '"1"', '"\\u0031"', "null", '"é"', '{"a":[1]}', f'"{"y" * 5000}"', *map(str, range(2, 30)))


class KilledError(BaseException):
    """Stands for the end of the process."""


class Pipeline:
    """A pipeline whose process is killed at points, and started again."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.lake = Lake(folder / "lake", {"table_identifier": "ns.t", "auto_create": True}, STEPS)
        self.now = 1_800_000_000.0
        self.rows: list[str] = []
        self.times: dict[int, int] = {}
        self.duplicates = 0
        self._state = folder / "p" / "ledger"
        self._point = ""
        monkeypatch.setattr(ledger_module, "time", SimpleNamespace(time=lambda: self.now))
        for module in (ledger_module, local_records, key_filter):
            monkeypatch.setattr(module, "stop_at", self._stop_at)
        self.start()

    def start(self) -> None:
        self.ledger = Ledger.open(self._state, "p")
        self.keys = RememberedKeys(self.ledger, self.lake.memory, Log("p"))

    def run(self, planned: Planned, point: str) -> None:
        """Write a batch, killed at a point; the next process continues as a run does."""
        self._point = point
        batch = self.ledger.last_batch + 1
        for _ in range(2):
            try:
                record = run_batch(batch, planned, self.now, self.ledger, self.lake.writer(self.keys.before))
                self.keys.staged(record)
                return
            except KilledError:
                self.ledger.close()
                self.now += 0.3
                self.start()
        raise AssertionError("killed twice")

    def commit(self, point: str) -> None:
        """Commit all batches; their rows count once the ledger has them as committed, or the next process does."""
        pending = self.ledger.pending()
        if not pending:
            return
        for begun in pending:
            assert begun.staged
            self.times[begun.batch] = begun.planned.time_tenths
            files = [file.file_path for entry in begun.staged.tables for file in entry.files]
            self.rows += [row for path in files for row in pq.read_table(path)["k"].to_pylist()]
            self.duplicates += begun.staged.duplicates
        self._point = point
        try:
            self.ledger.set_committed(pending[-1].batch, Totals())
        except KilledError:
            self.ledger.close()
            self.start()
            if self.ledger.committed.batch != pending[-1].batch:
                self.ledger.set_committed(pending[-1].batch, Totals())

    def _stop_at(self, point: str) -> None:
        if point == self._point:
            self._point = ""
            raise KilledError


@pytest.mark.parametrize("seed", range(3))
def test_each_event_passes_once_within_the_window_wherever_the_process_dies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    chance, pipeline = random.Random(seed), Pipeline(tmp_path, monkeypatch)
    batches: list[list[str]] = []
    numbers = iter(range(10**6))
    for _ in range(25):
        splits = [list(_events(chance, numbers)) for _ in range(chance.randrange(4))]
        batches.append([text for split in splits for text in split])
        planned = Planned([Split({"events": events}, 64 << 20) for events in splits], {"at": len(batches)})
        pipeline.now += chance.choice([0.1, 0.5, WINDOW_TENTHS / 10])
        pipeline.run(planned, chance.choice(["", *POINTS]))
        if chance.random() < 0.4:
            pipeline.commit(chance.choice(["", *POINTS]))
    pipeline.commit("")
    expected = list(_model(batches, pipeline.times))
    assert pipeline.rows == expected
    assert pipeline.duplicates == sum(map(len, batches)) - len(expected)
    assert {*(tmp_path / "p" / "seen").iterdir()} >= {
        tmp_path / "p" / "seen" / file.name for file in pipeline.ledger.key_files
    }
    pipeline.ledger.close()


def _events(chance: random.Random, numbers: Iterator[int]) -> Iterator[str]:
    for _ in range(chance.randrange(60)):
        key = f'"id":{chance.choice(IDS)},' if chance.random() < 0.95 else ""
        yield f'{{{key}"n":"{next(numbers)}"}}'


def _model(batches: list[list[str]], times: dict[int, int]) -> Iterator[str]:
    """Yield the numbers of the events that pass, by a dictionary of Python's own values."""
    passed: dict[Any, int] = {}
    for batch, texts in enumerate(batches, 1):
        for text in texts:
            event = json.loads(text, parse_float=Decimal)
            value = event.get("id")
            key = (type(value), json.dumps(value, default=str, sort_keys=True))
            if value is not None and passed.get(key, -WINDOW_TENTHS) > times[batch] - WINDOW_TENTHS:
                continue
            passed[key] = times[batch]
            yield event["n"]


def test_a_batch_that_is_written_again_later_drops_the_same_events(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As it is after a failed commit: later batches are staged already, and an event is left out."""
    pipeline = Pipeline(tmp_path, monkeypatch)
    plans = [
        Planned([Split({"events": [f'{{"id":{n},"n":"{n}"}}' for n in ids]}, 1)], {}) for ids in ([1], [1, 2, 3], [2])
    ]
    for planned in plans:
        pipeline.now += 0.1
        pipeline.run(planned, "")
    files = pipeline.ledger.key_files
    lost = Excluded((position(0, 1), position(0, 2)), None, "", "it fails")
    isolation = Isolation(excluded=(lost,), is_of_staged=True)
    writer = pipeline.lake.writer(pipeline.keys.before)
    [receipt] = writer.attempt(2, plans[1], isolation)
    [path] = [file.file_path for entry in receipt.tables for file in entry.files]
    assert pq.read_table(path)["k"].to_pylist() == ["3"]
    assert receipt.key_files == []
    assert pipeline.ledger.key_files == files
    pipeline.ledger.close()


def test_files_without_a_record_go_but_never_those_of_a_later_driver(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A driver that stands still after a batch is staged may go on when another one has continued."""
    folder = tmp_path / "p" / "seen"
    folder.mkdir(parents=True)
    (folder / "orphan").touch()
    pipeline = Pipeline(tmp_path, monkeypatch)
    planned = Planned([Split({"events": ['{"id":1,"n":"1"}']}, 1)], {})
    record = run_batch(1, planned, pipeline.now, pipeline.ledger, pipeline.lake.writer(pipeline.keys.before))
    (folder / "later").touch()
    pipeline.keys.staged(record)
    assert {file.name for file in folder.iterdir()} == {"later", *(file.name for file in pipeline.ledger.key_files)}
    pipeline.ledger.close()


def test_forgotten_keys_are_counted_and_said_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(STEPS[0]["deduplicate"], "max_keys", 4)
    pipeline = Pipeline(tmp_path, monkeypatch)
    for first in (0, 10):
        events = [f'{{"id":{first + number},"n":"0"}}' for number in range(10)]
        pipeline.now += 0.1
        pipeline.run(Planned([Split({"events": events}, 1)], {}), "")
    forgotten = [staged.forgotten_keys for begun in pipeline.ledger.pending() if (staged := begun.staged)]
    assert forgotten == [6, 10]
    assert caplog.text.count("keys were forgotten before their window ended") == 1
    pipeline.ledger.close()

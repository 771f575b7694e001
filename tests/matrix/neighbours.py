"""Lets others work on the tables of running pipelines: `make crash CRASH="--neighbours 100"`.

Two pipelines, each a process with a state of its own, write numbered events into the same four tables: one that is
appended to, and one for each write mode of updates. A neighbour with a Spark of his own does something at random to
each table in turn: maintenance, rollbacks, changes of the schema, SQL, replacements (`matrix.neighbour`). After each of
his actions, all events that were sent before it must be committed, and the rows must be exactly those that the events
and the neighbour make (`matrix.watched`). If Calve holds a table because it was replaced, its staged files are
forgotten, as the error says.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import random
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from calve.catalog.catalog import embedded
from kit.running import Calve
from matrix.neighbour import DROP_AND_CREATE, Neighbour
from matrix.watched import APPEND, Numbers, Watched

__all__ = ["EXTENSIONS", "Found", "Neighbours", "table"]

PATIENCE_SECONDS = 400
AWAY_SECONDS = 3.0
EVERY_SECONDS = 1.5
MODES = ("equality-delete", "merge-on-read", "copy-on-write")
EXTENSIONS = {"spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"}
"""What the neighbour's Spark needs for branches and partition fields."""
PIPELINES = ("p", "q")
REPLACE = "CREATE OR REPLACE"
NUMBERS = 1_000_000_000
"""The events of the second pipeline begin here."""


@dataclass
class Found:
    """What came of one kind of action on tables of one mode.

    Attributes:
        times: How often it was done.
        refused: How often Spark refused it: a commit was faster, or, in the end, for the reason in `said`.
        lost: Rows that are missing.
        duplicated: Rows that are there too often.
        held: How often a pipeline held the table, or ended, until an operator did what the error said.
        said: What Calve said then.
    """

    times: int = 0
    refused: int = 0
    lost: int = 0
    duplicated: int = 0
    held: int = 0
    said: set[str] = field(default_factory=set)


class Writer:
    """One pipeline in a process of its own, and what sends its events."""

    def __init__(self, folder: Path, name: str, numbers: Numbers, catalog: dict[str, str]) -> None:
        self.name, self.numbers = name, numbers
        self.calve = Calve(folder / name, json.dumps({name: {"source": _SOURCE, "sink": list(_sinks(catalog))}}))
        self._inbox = self.calve.folder / "in"
        self._inbox.mkdir()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._send, daemon=True)

    def start(self) -> None:
        """Start the pipeline, and send events."""
        self.calve.start()
        self._thread.start()

    def end(self) -> None:
        """Send no more."""
        self._ended.set()
        self._thread.join()

    def _send(self) -> None:
        while not self._ended.wait(EVERY_SECONDS):
            new = self._inbox / ".new"
            new.write_text(self.numbers.lines())
            new.rename(self._inbox / f"{self.numbers.sent:09}.ndjson")
            self.numbers.sent += len(range(20))

    def error(self, table: str) -> str:
        """Return what keeps a table from being committed."""
        status = self.calve.status(self.name)
        troubles = [(status.get("tables", {}).get(table) or {}).get("error"), *status.get("errors", [])]
        return next((f"{one['error']}. {one['hint']}" for one in troubles if one), "")

    def forget(self, table: str) -> None:
        """Do what the error says: stop, give up the staged files of a table that was replaced, start again."""
        self.calve.stop()
        _command(self.calve, "state", "forget", table, "--yes")
        self.calve.start()
        self.calve.until(lambda: "state forget" not in self.error(table), "it has a status of its own")

    def rejects(self) -> int:
        """Return how many events are dead letters."""
        return len(self.calve.dead_letters(self.name))


class Neighbours:
    """Two pipelines, four tables and a neighbour in one folder.

    Args:
        folder: A new folder.
        spark: The neighbour's.
        seed: Of what he does.
    """

    def __init__(self, folder: Path, spark: SparkSession, seed: str) -> None:
        self._chance = random.Random(seed)
        lakehouse = folder / "lakehouse"
        lakehouse.mkdir(parents=True)
        catalog = embedded(lakehouse)
        for key, value in catalog.items():
            spark.conf.set(f"spark.sql.catalog.lakehouse.{key}", value)
        spark.conf.set("spark.sql.catalog.lakehouse.cache-enabled", "false")
        spark.conf.set("spark.sql.catalog.lakehouse", "org.apache.iceberg.spark.SparkCatalog")
        spark.sql("CREATE NAMESPACE IF NOT EXISTS lakehouse.to")
        numbers = [Numbers(place * NUMBERS, -1 - place) for place in range(len(PIPELINES))]
        self._writers = [Writer(folder, name, each, catalog) for name, each in zip(PIPELINES, numbers)]
        reader = Calve(folder, "")
        self.tables = [Watched(reader, spark, mode, numbers) for mode in (APPEND, *MODES)]
        for table in self.tables:
            table.create()
        self.neighbour = Neighbour(self._chance, lambda: time.sleep(AWAY_SECONDS))
        self.found: dict[tuple[str, str], Found] = {}

    @property
    def sent(self) -> int:
        """How many events were sent."""
        return sum(writer.numbers.sent for writer in self._writers)

    def start(self) -> None:
        """Start the pipelines, and wait until every table has events of both."""
        for writer in self._writers:
            writer.start()
        for table in self.tables:
            self._reach(table, [20 for _ in self._writers])

    def end(self) -> None:
        """Stop, commit what is left, and leave nothing running."""
        with contextlib.ExitStack() as all_of_them:
            for writer in self._writers:
                all_of_them.callback(writer.calve.end)
                all_of_them.callback(writer.end)

    def drain(self) -> int:
        """Work off all that was sent, compare all tables a last time, and return how many events are dead letters."""
        for writer in self._writers:
            writer.end()
        for table in self.tables:
            self._settle(table, "at the end", [writer.numbers.sent for writer in self._writers])
        for writer in self._writers:
            assert writer.calve.stop() == 0, writer.calve.said()[-3000:]
        return sum(writer.rejects() for writer in self._writers)

    def play(self, actions: Iterable[str]) -> Iterator[tuple[str, str, Found]]:
        """Do these things, each to another table, and compare all; yield action, mode and what was found of each."""
        each = iter(actions)
        while some := list(itertools.islice(each, len(self.tables))):
            pairs = list(zip(some, self._chance.sample(self.tables, len(some))))
            sent = [self._act(action, table) for action, table in pairs]
            for (action, table), events in zip(pairs, sent):
                self._settle(table, action, events)
                yield action, table.mode, self.found[action, table.mode]

    def _act(self, action: str, table: Watched) -> list[int]:
        """Do one thing to a table; return how many events were sent before."""
        entry = self.found.setdefault((action, table.mode), Found())
        since = table.metadata().metadata_location
        refused = self.neighbour.act(action, table)
        entry.refused += refused if refused is not None else 1
        entry.times += refused is not None
        if refused is None:
            entry.said.add(self.neighbour.refusal)
        sent = [writer.numbers.sent for writer in self._writers]
        if action != DROP_AND_CREATE and (turn := table.turn(since)):
            _count(entry, table.accept(turn))
        return sent

    def _settle(self, table: Watched, action: str, sent: list[int]) -> None:
        entry = self.found.setdefault((action, table.mode), Found())
        held = self._reach(table, sent, entry)
        if action == DROP_AND_CREATE or held:
            table.accept_new()
        elif action.startswith(REPLACE):
            table.accept_gap()
        rows, _ = table.now()
        _count(entry, table.compare(rows))

    def _reach(self, table: Watched, sent: list[int], entry: Found | None = None) -> bool:
        """Wait until a table has events; return whether staged files had to be forgotten for that."""
        deadline, is_held = time.monotonic() + PATIENCE_SECONDS, False
        while True:
            reached = table.now()[1]
            late = [each for each in zip(self._writers, reached, sent) if each[1] < each[2]]
            if not late:
                return is_held
            for writer, *_ in late:
                is_held |= self._help(writer, table, entry)
            if time.monotonic() > deadline:
                said = "\n".join(f"{each[0].error(table.identifier)} {each[0].calve.said()[-2000:]}" for each in late)
                raise AssertionError(f"{table.identifier} has {reached} of {sent} events: {said}")
            time.sleep(0.3)

    def _help(self, writer: Writer, table: Watched, entry: Found | None) -> bool:
        error = writer.error(table.identifier)
        process = writer.calve.process
        if process and process.poll() is not None:
            _note(entry, f"ended: {writer.calve.said()[-300:]}")
            writer.calve.start()
        if "state forget" not in error:
            return False
        _note(entry, error)
        writer.forget(table.identifier)
        return True


def table(found: Mapping[tuple[str, str], Found]) -> str:
    """Return in Markdown how often each action was done to a table of each mode, and what was lost or duplicated."""
    modes = (APPEND, *MODES)
    lines = ["| the neighbour | " + " | ".join(modes) + " | lost | duplicated | held |", "|---|" + "---:|" * 7]
    for action in dict.fromkeys(action for action, _ in found):
        each = [found.get((action, mode), Found()) for mode in modes]
        times = [str(one.times or "") for one in each]
        sums = [sum(one.lost for one in each), sum(one.duplicated for one in each), sum(one.held for one in each)]
        lines.append(f"| {action} | " + " | ".join([*times, *map(str, sums)]) + " |")
    return "\n".join(lines)


def _note(entry: Found | None, said: str) -> None:
    if entry:
        entry.held += 1
        entry.said.add(said)


def _count(entry: Found, wrong: tuple[Counter[Any], Counter[Any]]) -> None:
    lost, more = wrong
    entry.lost += lost.total()
    entry.duplicated += more.total()
    if lost or more:
        entry.said.add(f"lacks {sorted(lost.items(), key=str)[:3]}, has {sorted(more.items(), key=str)[:3]}")


def _command(calve: Calve, *words: str) -> None:
    import subprocess

    made = subprocess.run(calve.command(*words), cwd=calve.folder, capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stdout + made.stderr


_SOURCE = {"file": {"path": "in/*.ndjson", "poll_interval": "200ms"}}


def _sinks(catalog: dict[str, str]) -> Iterator[dict[str, Any]]:
    quick = {"catalog": catalog, "flush_interval": "5s", "commit_interval": "8s"}
    yield {"iceberg": {"table_identifier": "to.append", "exclude_keys": ["op"], **quick}}
    for mode in MODES:
        keyed = {"operation": "${/op}", "identifier_columns": ["id"], "include_keys": ["id", "v", "extra"]}
        name = f"to.{mode.replace('-', '_')}"
        yield {"iceberg": {"table_identifier": name, "write_mode": mode, **keyed, **quick}}

"""What kills a source of a database again and again, and compares the rows with the database at the end."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import threading
import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from calve.sources.database import reload
from calve.sources.database.connection import ClosedError, ServerError
from calve.sources.database.overview import states
from calve.state.folder import StateFolder
from calve.state.location import state_folder_at
from calve.stop_point import VARIABLE
from kit.running import until
from services.objects import ObjectStore
from sources.database import pipeline

KILLS = int(os.environ.get("CALVE_KILLS", "4"))


class Writer(threading.Thread, ABC):
    """Changes rows in transactions of all sizes, and rolls some of them back.

    Attributes:
        pause_seconds: Between two transactions.
        ticks: Whether it changes a row at a time, and those of `app.tick`, which only grow.
    """

    pause_seconds = 0.05
    ticks = False

    def __init__(self, connect: Callable[[], Any], seed: int) -> None:
        super().__init__(daemon=True)
        self._connect = connect
        self.random = random.Random(seed)
        self.enough = threading.Event()

    def run(self) -> None:
        while not self.enough.is_set():
            try:
                with self._connect() as connection:
                    while not self.enough.is_set():
                        for statement in self._tick() if self.ticks else self.transaction():
                            connection.query(statement)
                        time.sleep(self.pause_seconds)
            except (ClosedError, ServerError):
                time.sleep(0.05)

    def _tick(self) -> list[str]:
        time.sleep(0.1)
        return [self.change(), f"update app.tick set n = n + 1 where id = {self.random.randint(1, 3)}"]

    @abstractmethod
    def transaction(self) -> list[str]:
        """Return the statements of a transaction."""

    def change(self) -> str:
        """Return a statement that changes a few rows; only of a writer that ticks."""
        raise NotImplementedError


class Process:
    """The pipeline, killed and started again on the same folder.

    Attributes:
        source: Where its source keeps what it must remember; with the option `source` it is on an object store.
    """

    def __init__(self, folder: Path, kind: str, port: int, database: str, **options: object) -> None:
        self.folder = folder
        self.source = state_folder_at(str(options.get("source", folder / "source")))
        command = [sys.executable, pipeline.__file__, str(folder), kind, str(port), database]
        self._command = [*command, json.dumps(options)]

    def start(self, stop_at: str = "") -> None:
        with (self.folder / "log").open("ab") as log:
            environment = {**os.environ, VARIABLE: stop_at}
            self.process = subprocess.Popen(self._command, stdout=log, stderr=log, env=environment)

    @property
    def runs(self) -> bool:
        return self.process.poll() is None

    def commit(self, store: pipeline.Store, count: int) -> None:
        """Wait until so many batches are committed."""
        before = store.commits
        until(
            lambda: store.commits >= before + count or not self.runs,
            f"{count} batches are committed",
            every_seconds=0.002,  # a load of small ranges is over soon
        )

    def kill(self) -> None:
        assert self.runs, (self.folder / "log").read_text()[-3000:]
        self.process.kill()
        self.process.wait()


def killed(process: Process, seed: int, writers: list[Writer], shake: Callable[[int], None]) -> None:
    """Kill the process at random moments of the load and of the stream; then let the writers end.

    Args:
        process: The pipeline.
        seed: Of the moments.
        writers: They run all the time.
        shake: Called after each kill with its number, to do something to the database.
    """
    moments = random.Random(seed)
    store = pipeline.Store(process.folder)
    for writer in writers:
        writer.start()
    loaded = 0
    for number in range(KILLS):
        process.start()
        if number >= KILLS / 2:
            until(lambda: store.is_loaded or not process.runs, "the load is committed")
        process.commit(store, moments.randrange(1, 9) if number else 1)
        time.sleep(moments.uniform(0, 0.3) if number else 0)  # anywhere in a batch
        process.kill()
        loaded += not store.is_loaded
        shake(number)
    assert 0 < loaded <= KILLS / 2, "some kills are for the load, and some for the stream"
    process.start()
    for writer in writers:
        writer.enough.set()
        writer.join()


def kept_whole(process: Process, writer: Writer, amid: Callable[[], None], reloads: bool) -> None:
    """Kill the process amid transactions that keep the sum over `app.account`; the process itself checks the sum.

    Args:
        process: The pipeline.
        writer: It begins when the load is committed.
        amid: Called between two kills.
        reloads: Whether rows of a load are all from one moment; then the table is loaded again, too.
    """
    moments, store = random.Random(), pipeline.Store(process.folder)
    process.start()
    until(lambda: (store.state("position") or {}).get("chunk") or not process.runs, "the load is committed")
    writer.start()
    for number in range(KILLS // 2):
        process.commit(store, moments.randrange(1, 9))
        time.sleep(moments.uniform(0, 0.3))  # anywhere in a transaction
        process.kill()
        if number == KILLS // 4:
            amid()
        process.start()
    process.commit(store, 3)
    if reloads:
        reload.request(process.source, 0, ["app.account"])
        until(lambda: store.state("cleared") or not process.runs, "the target is emptied")
        process.commit(store, 4)
    writer.enough.set()
    writer.join()


PLACES = ("disk", "store")


def place(where: str, object_store: ObjectStore, environment: pytest.MonkeyPatch) -> dict[str, str]:
    """Return the option of a process whose source keeps everything on a disk, or on an object store."""
    for name, value in object_store.environment().items():
        environment.setenv(name, value)
    return {"source": object_store.place(f"kills-{uuid.uuid4().hex}/source")} if where == "store" else {}


POINTS = ("reload.after-note", "reload.after-epoch", "pipeline.after-clear", "reload.after-begun")
"""Where a reload of some tables is killed: each time it is between two durable steps."""


def reloaded(process: Process, writers: list[Writer], truncate: Callable[[], None]) -> None:
    """Load tables again while writers go on, and kill that at every step; `truncate` stops `app.pair`."""
    store, folder = pipeline.Store(process.folder), process.source
    for writer in writers:
        writer.start()
    process.start()
    until(lambda: store.is_loaded or not process.runs, "the load is committed")
    truncate()
    truncated = "stopped: it was truncated, and the rows in the target were not removed"
    until(lambda: overview(folder)["app.pair"] == truncated or not process.runs, "the table is stopped")
    process.kill()
    for number, point in enumerate(POINTS):
        store.spoil("item")
        reload.request(folder, 0, ["app.item", "app.pair"] if number % 2 else ["app.item"])
        process.start(point)
        until(lambda: not process.runs, f"it is killed at {point}")
    for _ in range(2):  # amid chunks, and what follows them
        process.start()
        process.commit(store, 3)
        process.kill()
    process.start()
    until(lambda: set(overview(folder).values()) == {"streaming"} or not process.runs, "everything is loaded")
    for writer in writers:
        writer.enough.set()
        writer.join()


def overview(folder: StateFolder) -> dict[str, str]:
    return dict(states(folder))


def same_in_the_end(process: Process, expected: dict[str, dict[str, dict]], seed: int) -> None:
    """Wait until the rows are those of the database, and end the process."""
    store = pipeline.Store(process.folder)

    def same() -> bool:
        assert process.runs, (process.folder / "log").read_text()[-3000:]
        return all(_complete(store.rows(name)) == rows for name, rows in expected.items())

    try:
        until(same, f"the rows are those of the database (seed {seed})")
    finally:
        process.kill()


def _complete(rows: dict[str, dict]) -> dict[str, dict]:
    """Give rows that were written before the column was added a NULL in it, as in the database."""
    added = {"large": "extra", "balance": "more"}
    return {
        key: {**row, **{new: row.get(new) for old, new in added.items() if old in row}} for key, row in rows.items()
    }

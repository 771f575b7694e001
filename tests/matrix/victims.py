"""What is killed: the smallest pipeline behind a source of a database, or the whole of Calve with Spark."""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from calve.catalog.catalog import embedded
from calve.errors import SourceError
from calve.sources.database import full_reload, reload
from calve.sources.database.overview import load_of, states
from calve.state.folder import StateFolder
from calve.state.local_folder import LocalFolder
from calve.stop_point import ONCE_VARIABLE, VARIABLE
from kit.readers import with_rust
from kit.running import Calve, until
from matrix import small_chunks
from services.mysql import PASSWORD
from sources.database import pipeline
from sources.database.shop import Shop

__all__ = ["FILES", "STREAMING", "SmallPipeline", "Victim", "WholeCalve", "differences"]

Rows = list[tuple[str, dict[str, Any]]]
WRITE_MODES = ("equality-delete", "merge-on-read", "copy-on-write")
LOADING, STREAMING = "the load", "the stream"
RELOADING = "a reload"
FILES = "task.in-write"
"""The point at which a worker is killed, once; the driver goes on."""
TARGET = 'app.${getMetadata("table_name")}'


class Victim(ABC):
    """A process that follows a database, killed and started again on the same folder.

    Attributes:
        source: The folder of the source, within the state.
        was_loaded: Whether all tables were loaded at some time.
    """

    source: StateFolder
    was_loaded = False

    @abstractmethod
    def start(self, stop_at: str = "") -> None:
        """Start the process, which ends itself at a stop point if one is given."""

    @property
    @abstractmethod
    def runs(self) -> bool:
        """Whether it runs."""

    @property
    @abstractmethod
    def code(self) -> int:
        """The exit code of a process that has ended."""

    @abstractmethod
    def kill(self) -> None:
        """`kill -9`."""

    @property
    @abstractmethod
    def commits(self) -> int:
        """How much is committed, in any unit."""

    @property
    @abstractmethod
    def said(self) -> str:
        """The end of what it said."""

    @abstractmethod
    def read(self, expected: dict[str, dict[str, dict]]) -> Iterator[tuple[str, dict[str, Rows]]]:
        """Yield what each engine reads of the tables, by the engine's name, until it is right or for too long.

        Args:
            expected: The rows of the database by table and key.
        """

    def check_runs(self) -> None:
        """Fail if it has ended."""
        assert self.runs, f"it has ended by itself: {self.said}"

    @property
    def phase(self) -> str:
        """What it is about; exact while it does not run."""
        try:
            found = [what for _, what in states(self.source)]
        except SourceError:
            return LOADING
        is_busy = any(what.startswith(("waiting", "loading")) for what in found)
        self.was_loaded |= bool(found) and not is_busy
        return STREAMING if not is_busy else RELOADING if self.was_loaded else LOADING

    @property
    def stopped(self) -> dict[str, str]:
        """The tables that are stopped, and why."""
        return {name: what for name, what in states(self.source) if what.startswith("stopped")}

    def ask(self, tables: Iterable[str]) -> bool:
        """Ask for tables to be loaded again, or for all; return False if no load has begun yet."""
        try:
            load = load_of(self.source)
        except SourceError:
            return False
        if tables:
            reload.request(self.source, load, tables)
        else:
            full_reload.request(self.source, load)
        return True

    def until_loaded(self) -> None:
        """Wait until everything is loaded, or it has ended."""
        until(lambda: not self.runs or self.phase == STREAMING, "all tables are loaded")

    def until_committed(self, count: int) -> None:
        """Wait until so much more is committed, or it has ended."""
        before = self.commits
        until(lambda: not self.runs or self.commits >= before + count, f"{count} more commits", every_seconds=0.002)

    def until_dead(self, seconds: float) -> bool:
        """Wait until it has killed itself; return False if it has not."""
        with contextlib.suppress(AssertionError):
            until(lambda: not self.runs, "it ends", seconds)
        if self.runs:
            return False
        assert self.code == -9, f"it has ended with {self.code}: {self.said}"
        return True


class SmallPipeline(Victim):
    """The source with the smallest honest pipeline behind it."""

    def __init__(self, folder: Path, shop: Shop) -> None:
        self._process = shop.process(folder)
        self._store = pipeline.Store(folder)
        self.source = LocalFolder(folder / "source")

    def start(self, stop_at: str = "") -> None:
        self._process.start(stop_at)

    @property
    def runs(self) -> bool:
        return self._process.runs

    @property
    def code(self) -> int:
        return int(self._process.process.returncode)

    def kill(self) -> None:
        self._process.kill()

    @property
    def commits(self) -> int:
        return self._store.commits

    @property
    def said(self) -> str:
        return (self._process.folder / "log").read_text()[-3000:]

    def read(self, expected: dict[str, dict[str, dict]]) -> Iterator[tuple[str, dict[str, Rows]]]:
        def same() -> bool:
            self.check_runs()
            return all(not any(differences(rows, [*self._store.rows(name).items()])) for name, rows in expected.items())

        with contextlib.suppress(AssertionError):
            until(same, "the rows are those of the database")
        self.check_runs()
        yield "SQLite", {name: [*self._store.rows(name).items()] for name in (*expected, "lost")}


class WholeCalve(Victim):
    """`calve run`, with Iceberg tables in the embedded catalog.

    Args:
        folder: A new folder.
        shop: The database.
        mode: The write mode of the sink, a number.
        spark: Reads the tables, and runs Calve to the end of what is there.
    """

    def __init__(self, folder: Path, shop: Shop, mode: int, spark: SparkSession) -> None:
        self._kind = shop.source
        self._calve = _SmallChunks(folder, self._yaml(folder, shop, WRITE_MODES[mode % len(WRITE_MODES)]), spark)
        self._once = folder / "worker-was-killed"
        self.source = LocalFolder(folder / "calve-state" / "shop" / self._kind)

    def _yaml(self, folder: Path, shop: Shop, mode: str) -> str:
        user = {"username": "postgres", "database": shop.database} if self._kind == "postgres" else {"username": "root"}
        login = {"password": PASSWORD, "ssl_mode": "disable", "allow_cleartext_password": True, **user}
        source = {"host": "127.0.0.1", "port": shop.server.port, **login}
        lakehouse = embedded(folder / "lakehouse")
        sink = {
            "table_identifier": TARGET,
            "write_mode": mode,
            "auto_create": True,
            "schema_evolution": True,
            "commit_interval": "300ms",
            "flush_interval": "200ms",
            "max_batch_bytes": "128kb",
            "catalog": lakehouse | {"warehouse": f"file://{lakehouse['warehouse']}"},  # Rust knows only URLs
        }
        source["tables"] = {"include": ["app.*"]}
        return json.dumps({"shop": {"source": {self._kind: source}, "sink": [{"iceberg": sink}]}})

    def start(self, stop_at: str = "") -> None:
        self._once.unlink(missing_ok=True)
        once = str(self._once) if stop_at.startswith(FILES) else ""
        path = os.pathsep.join(filter(None, sys.path))  # for small_chunks
        self._calve.start(environment={VARIABLE: stop_at, ONCE_VARIABLE: once, "PYTHONPATH": path})

    @property
    def _process(self) -> subprocess.Popen[bytes]:
        assert self._calve.process
        return self._calve.process

    @property
    def runs(self) -> bool:
        return self._calve.process is not None and self._calve.process.poll() is None

    @property
    def code(self) -> int:
        return int(self._process.returncode)

    def kill(self) -> None:
        self.check_runs()
        self._calve.kill()

    @property
    def commits(self) -> int:
        """The sum of the numbers of the tables' metadata files."""
        return sum(int(Path(place).name.partition("-")[0]) for place in self._metadata().values())

    @property
    def said(self) -> str:
        return self._calve.said()[-6000:]

    def until_worker_dies(self, seconds: float) -> bool:
        """Wait until a worker has died at the stop point; return False if none has."""
        with contextlib.suppress(AssertionError):
            until(lambda: self._once.exists() or not self.runs, "a worker dies", seconds)
        self.check_runs()
        return self._once.exists()

    def read(self, expected: dict[str, dict[str, dict]]) -> Iterator[tuple[str, dict[str, Rows]]]:
        """End the process, work off what is there by a run of its own, and read the tables with both engines."""
        code = self._calve.stop()
        assert code == 0, f"it has ended with {code}: {self.said}"
        assert self._calve.once() == 1, self.said
        assert "but the rows of 1 stopped table: app.lost" in self.said
        assert not self._calve.dead_letters("shop"), self.said
        spark, metadata = self._calve.shared_spark(), self._metadata()
        read = {name: spark.table(f"lakehouse.app.{name}") for name in (*expected, "lost")}
        columns = {name: table.columns for name, table in read.items()}
        yield "Spark", {name: _keyed(table.toArrow().to_pylist()) for name, table in read.items()}
        rust = {}
        for name, names in columns.items():
            asked = ", ".join(f'"{one}"' for one in names)
            rows = with_rust(metadata[name], f"select {asked} from t")
            rust[name] = _keyed([dict(zip(names, row, strict=True)) for row in rows])
        yield "Rust", rust

    def _metadata(self) -> dict[str, str]:
        """Return where the metadata of each table are; cheap enough to be asked again and again."""
        file = self._calve.folder / "lakehouse" / "catalog.db"
        if not file.exists():
            return {}
        with contextlib.closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as catalog:
            if not catalog.execute("select 1 from sqlite_master where name = 'iceberg_tables'").fetchall():
                return {}
            return dict(catalog.execute("select table_name, metadata_location from iceberg_tables"))


class _SmallChunks(Calve):
    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, small_chunks.__file__, *arguments]


def _keyed(rows: list[dict[str, Any]]) -> Rows:
    """Return rows with the text of their key, as the database gives it."""
    return [(str(row["id"]) if "id" in row else f"{row['a']}|{_escaped(row['b'])}", row) for row in rows]


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("|", "\\|")


def differences(expected: dict[str, dict], found: Rows) -> tuple[int, int]:
    """Count the rows that are missing or other ones, and those that are too many; a column that was added is NULL."""
    by_key = dict(found)
    same = sum(
        key in by_key and all(by_key[key].get(name) == value for name, value in row.items())
        for key, row in expected.items()
    )
    return len(expected) - same, len(found) - len(by_key.keys() & expected.keys())

"""A round of the matrix: one pipeline with a sink of one write mode, killed several times; then all is counted."""

from __future__ import annotations

import json
import random
import subprocess
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from calve.commit.index_folder import KEYS
from calve.commit.key_state import FILE
from calve.state.store_folder import StoreFolder
from calve.stop_point import VARIABLE
from kit.running import Calve, each_event
from kit.small_indexes import IndexedCalve, machine
from matrix.feeds import Feed
from services.opensearch import OpenSearch

__all__ = ["ANY_TIME", "APPEND", "INDEXED", "MODES", "OPENSEARCH", "Counts", "Round"]

APPEND, OPENSEARCH = "append", "opensearch"
MODES = (APPEND, "equality-delete", "copy-on-write", "merge-on-read", OPENSEARCH)
INDEXED = "merge-on-read with a key index"
"""A mode of rounds of its own; on format version 3 if the state is on an object store."""
TABLE = "to.target"
ANY_TIME = "any time"
REACH_SECONDS = 240
HTTP_REACH_SECONDS = 30
START_SECONDS = 7.0
QUICK = {"commit_interval": "100ms", "auto_create": True, "schema_evolution": True}
COLUMNS = [{"name": "id", "type": "long"}, {"name": "v", "type": "long"}]
LOG = [{"name": "n", "type": "long"}, *COLUMNS]


@dataclass
class Counts:
    """What a round found.

    Attributes:
        kills: By point.
        missed: Points that a process did not reach before it had done its work.
        events: How many events or changes there were.
        lost: What is missing, by table.
        duplicated: What is there too often, by table.
        besides: What else happened.
    """

    kills: Counter[str] = field(default_factory=Counter)
    missed: Counter[str] = field(default_factory=Counter)
    events: int = 0
    lost: Counter[str] = field(default_factory=Counter)
    duplicated: Counter[str] = field(default_factory=Counter)
    besides: Counter[str] = field(default_factory=Counter)


class Round:
    """One folder with a pipeline `p`, its state and its tables.

    Args:
        folder: A new folder.
        feed: Gives the events; its source is the pipeline's.
        mode: The sink and its write mode, one of `MODES`.
        spark: Reads the tables.
        state: An address on an object store with the variables to reach it; or empty, for a folder.
        opensearch: The server, if it is the sink.
    """

    def __init__(
        self,
        folder: Path,
        feed: Feed,
        mode: str,
        spark: SparkSession,
        state: tuple[str, dict[str, str]] | None = None,
        opensearch: OpenSearch | None = None,
    ) -> None:
        self._feed, self._mode, self._opensearch = feed, mode, opensearch
        self._is_mirror = "iceberg" in feed.source
        self._index = f"matrix-{folder.name}".lower()
        self._state, self._environment = state or ("", {})
        self._arguments = ("--state", self._state) if state else ()
        kind, self._cache = Calve, folder / "cache"
        if mode == INDEXED:
            kind, self._environment = IndexedCalve, self._environment | machine(self._cache)
        self._calve = kind(folder, json.dumps({"p": {"source": feed.source, "sink": [self._sink()]}}), spark)
        self.counts = Counts()

    def _sink(self) -> dict[str, Any]:
        if self._mode == APPEND:
            return {"iceberg": {"table_identifier": TABLE, "schema": {"columns": LOG}, **QUICK}}
        if self._mode == OPENSEARCH:
            assert self._opensearch
            keys = ('getMetadata("document_id")', 'getMetadata("bulk_action")') if self._is_mirror else ("/id", "/do")
            key, action = (f"${{{one}}}" for one in keys)
            index = {"hosts": [self._opensearch.address], "index": self._index, "document_id": key, "action": action}
            return {"opensearch": index}
        operation = '${getMetadata("iceberg_operation")}' if self._is_mirror else "${/op}"
        keyed = {"operation": operation, "identifier_columns": ["id"], **QUICK}
        more = {} if self._is_mirror else {"exclude_keys": ["n", "op", "do"], "schema": {"columns": COLUMNS}}
        mode: dict[str, Any] = {"write_mode": self._mode}
        if self._mode == INDEXED:
            version = "3" if self._state else "2"
            mode = {"write_mode": "merge-on-read", "table_properties": {"format-version": version}}
        return {"iceberg": {"table_identifier": TABLE, **mode, **keyed, **more}}

    def strike(self, point: str, chance: random.Random) -> None:
        """Give events, start a process, and let it die at a point; at one of a task its worker dies, and it ends."""
        self._feed.give(self._calve)
        environment = dict(self._environment)
        if point != ANY_TIME:
            environment[VARIABLE] = f"{point}:1"
        once = ("--once",) if self._feed.is_once else ()
        patience = "1ms" if point.startswith("task.") else "2s"  # before events are suspected of the worker's death
        process = self._calve.start(*once, "--give-up-after", patience, *self._arguments, environment=environment)
        try:
            if point == ANY_TIME:
                process.wait(chance.uniform(1, START_SECONDS))
            else:
                process.wait(REACH_SECONDS if once else HTTP_REACH_SECONDS)
        except subprocess.TimeoutExpired:
            self._calve.kill()
            self.counts.kills[ANY_TIME] += 1
            if point != ANY_TIME:
                self.counts.missed[point] += 1
            return
        is_dead = process.returncode < 0 or (process.returncode == 1 and point.startswith("task."))
        (self.counts.kills if is_dead else self.counts.missed)[point] += 1

    def finish(self) -> Counts:
        """Work off what is left without a kill, and count."""
        if not self._feed.is_once:
            self._run_until_accepted()
        elif self._mode == INDEXED:
            self._feed.give(self._calve)  # for a last commit, which compares all files with the index
        code = self._calve.start("--once", *self._arguments, environment=self._environment).wait(600)
        assert code == 0, self._calve.said()[-4000:]
        if self._mode == INDEXED:
            self._check_index()
        changes = self._feed.changes
        self.counts.events = changes.numbers + changes.bad.total()
        rows = Counter(changes.rows.items())
        if self._mode == APPEND:
            self._compare("append", self._rows("n"), Counter((number,) for number in range(changes.numbers)))
        elif self._opensearch and self._mode == OPENSEARCH:
            documents = self._opensearch.documents(self._index)
            self._compare("opensearch", Counter((int(key), one["v"]) for key, one in documents.items()), rows)
        else:
            self._compare(self._mode, self._rows("id", "v"), rows)
        if not self._is_mirror:
            self._compare("dead letters", Counter(one["event"] for one in self._dead_letters()), changes.bad)
        return self.counts

    def _check_index(self) -> None:
        """Fail if commits did not use an index all the time."""
        place = self._cache / KEYS if self._state else self._calve.folder / "calve-state" / "p"
        assert list(place.glob(f"*/*/{FILE}")), "there is no index"
        assert "search the table instead" not in self._calve.said()
        assert "begins anew" not in self._calve.said()

    def _rows(self, *columns: str) -> Counter[Any]:
        found = self._calve.shared_spark().table(f"lakehouse.{TABLE}").select(*columns).collect()
        return Counter(tuple(row) for row in found)

    def _compare(self, name: str, found: Counter[Any], expected: Counter[Any]) -> None:
        self.counts.lost[name] += (expected - found).total()
        self.counts.duplicated[name] += (found - expected).total()

    def _run_until_accepted(self) -> None:
        self._feed.give(self._calve)  # so that the process listens when it is stopped
        process = self._calve.start(*self._arguments, environment=self._environment)
        self._feed.end()
        assert process.poll() is None, f"{process.returncode}: {self._calve.said()[-4000:]}"
        assert self._calve.stop() == 0, self._calve.said()[-4000:]

    def _dead_letters(self) -> list[dict[str, Any]]:
        if not self._state:
            return self._calve.dead_letters("p")
        folder = StoreFolder.at(f"{self._state}/p/dlq")
        names = [name for name in folder.names() if name.endswith(".ndjson") and not name.startswith(("_", "."))]
        contents = [found.content for name in names if (found := folder.get(name))]
        return [entry for content in contents for line in content.splitlines() for entry in each_event(line)]

    def end(self) -> None:
        """Leave nothing running."""
        self._calve.end()

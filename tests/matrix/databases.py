"""Kills what reads a database, again and again, amid writers, DDL, cut connections and crashes of the server.

A round is one server: PostgreSQL, MySQL or MariaDB in turn. What follows it is the smallest honest pipeline
(`sources.database.pipeline`), or the whole of Calve with Spark and Iceberg tables. It is killed at random moments and
at stop points of the load, of the stream, and of tables that are loaded again, while three sessions write, a fourth one
changes tables, and a fifth one ends connections. At the end each table must have exactly the rows of the database, and
one whose key was changed must be stopped alone. Two engines read the Iceberg tables.
"""

from __future__ import annotations

import json
import random
import shutil
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from matrix.round import Counts
from matrix.strikes import ANY, KILLS, Strike, plan
from matrix.victims import FILES, STREAMING, SmallPipeline, Victim, WholeCalve, differences
from sources.database.shop import KINDS, Cutter, Shop, again

__all__ = ["KINDS", "play"]

WRITERS = 3
LOST = (["1", "2"], [], ["1", "2", "3"])
"""The rows of the table whose key was changed.

They are those from before; if all tables are loaded again afterwards none; if meanwhile, and a kill makes it go on under
a later snapshot, all.
"""
CUT_SECONDS = {False: 4.0, True: 15.0}
REACH_SECONDS = {False: 30.0, True: 60.0}
START_SECONDS = 9.0
"""About how long the whole of Calve needs to start; some kills come before."""


def play(number: int, seed: str, folder: Path, spark: SparkSession | None = None) -> tuple[str, Counts]:
    """Play one round.

    Args:
        number: Its number.
        seed: Of all rounds.
        folder: A new folder; kept if anything is wrong.
        spark: With it the whole of Calve is killed, otherwise the smallest pipeline.

    Returns:
        The kind of the server, and what was found.
    """
    kind, chance = KINDS[number % len(KINDS)], random.Random(f"{seed}-{number}")
    folder.mkdir(parents=True)
    shop = Shop(kind, is_small=spark is not None)
    turn = number // len(KINDS)
    victim: Victim = WholeCalve(folder, shop, turn, spark) if spark else SmallPipeline(folder, shop)
    played = _Round(victim, shop, chance, folder)
    try:
        played.kill(plan(turn, spark is not None, chance))
        played.compare()
    finally:
        if victim.runs:
            victim.kill()
        shop.close()
    counts = played.counts
    if not counts.lost.total() + counts.duplicated.total():
        shutil.rmtree(folder)
    return kind, counts


class _Round:
    """One server, what follows it, and what was found."""

    def __init__(self, victim: Victim, shop: Shop, chance: random.Random, folder: Path) -> None:
        self._victim, self._shop, self._chance, self._folder = victim, shop, chance, folder
        self._is_whole = isinstance(victim, WholeCalve)
        self.counts = Counts()

    def kill(self, strikes: Sequence[Strike]) -> None:
        """Kill amid all that happens; let the writers end, and the process run."""
        shop, chance = self._shop, self._chance
        writers: list[Any] = [shop.writer(chance.randrange(1 << 30)) for _ in range(WRITERS)]
        writers.append(Cutter(shop, chance.randrange(1 << 30), CUT_SECONDS[self._is_whole]))
        for writer in writers:
            writer.start()
        for each, strike in enumerate(strikes):
            if each == KILLS // 2:
                self._load()
            self._strike(strike)
            again(lambda each=each: self._shake(each))
        self._victim.start()
        for writer in writers:
            writer.enough.set()
            writer.join()
        self.counts.besides.update(shop.events)

    def _load(self) -> None:
        """Let the load be over, then let the server crash, and kill."""
        victim = self._victim
        victim.start()
        victim.until_loaded()
        again(self._shop.crash)
        victim.until_committed(1)
        self._kill_now()

    def _strike(self, strike: Strike) -> None:
        """Start the process, and let it die."""
        victim = self._victim
        if strike.point == "catalog.after-evolve":
            again(self._shop.change)
        if strike.fills:
            again(self._shop.fill)
        if strike.is_early:
            self._ask(strike.tables)
        victim.start("" if strike.point == ANY else f"{strike.point}:{strike.nth}")
        if strike.tables is not None and not strike.is_early:
            victim.until_committed(1)
            self._ask(strike.tables)
        if strike.point == ANY:
            self._kill_at_any_time()
        elif strike.point == FILES:
            found = self.counts.kills if victim.until_worker_dies(REACH_SECONDS[True]) else self.counts.missed
            found[strike.point] += 1
            victim.until_committed(1)
            self._kill_now()
        elif victim.until_dead(REACH_SECONDS[self._is_whole]):
            self.counts.kills[strike.point] += 1
        else:
            self.counts.missed[strike.point] += 1
            self._kill_now()

    def _kill_at_any_time(self) -> None:
        chance = self._chance
        if self._is_whole and chance.random() < 0.4:
            time.sleep(chance.uniform(0, START_SECONDS))
        else:
            self._victim.until_committed(chance.randrange(1, 5 if self._is_whole else 9))
            time.sleep(chance.uniform(0, 0.3))
        self._kill_now()

    def _kill_now(self) -> None:
        self._victim.kill()
        self.counts.kills[f"{ANY}, {self._victim.phase}"] += 1

    def _ask(self, tables: tuple[str, ...] | None) -> None:
        if tables is not None and self._victim.ask(tables):
            what = "tables asked to be loaded again" if tables else "such requests for all tables"
            self.counts.besides[what] += len(tables) or 1

    def _shake(self, each: int) -> None:
        """Do something to the tables, while the process is dead."""
        shop, chance = self._shop, self._chance
        if each == KILLS - 2:
            shop.lose()
        if each == KILLS - 3:
            shop.truncate()
            self._ask(chance.choice([("app.pair",), ("app.pair", "app.item"), ()]))
        if self._victim.phase == STREAMING and chance.random() < 0.3:
            shop.widen()
        if chance.random() < 0.4:
            chance.choice([shop.change, shop.fill])()

    def compare(self) -> None:
        """Count what is not as in the database, when the last row has followed by the stream."""
        self._victim.until_loaded()
        self._shop.end()
        self._victim.until_committed(1)
        expected, counts = self._shop.wanted(), self.counts
        counts.events = self._victim.commits
        for engine, read in self._victim.read(expected):
            for name, rows in expected.items():
                lost, more = differences(rows, read[name])
                counts.lost[f"{name}, {engine}"] += lost
                counts.duplicated[f"{name}, {engine}"] += more
                if lost or more:
                    told = json.dumps({"expected": rows, "found": read[name]}, default=str)
                    (self._folder / f"{name}-{engine}.json").write_text(told)
            keys = sorted(key for key, _ in read["lost"])
            assert keys in LOST, keys
        stopped = self._victim.stopped
        assert set(stopped) == {"app.lost"}, stopped

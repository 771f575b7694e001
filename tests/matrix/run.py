"""Kills pipelines at every point and at any time, and counts what is lost: `make crash ROUNDS=100 SEED=1`.

With `--starts 200` a process with many pipelines is started and ended so often instead, without a kill
(`matrix.starts`), and with `--takeovers 100` a standby takes over so often (`matrix.takeovers`). With `--databases` the
rounds are those of `matrix.databases`; with `--whole` as well, the whole of Calve is killed in them, and not only its
source. With `--key-index` commits find the rows of keys by an index, and are killed while that changes, too.

A round is one pipeline with one of the sources, a sink of one write mode, and its state in a folder or on an object
store; rounds take the combinations in turn. It is killed ten times, each time with new events, at points that take
turns or at any time. Then it works off what is left, and every row, dead letter or document is compared with what was
sent. All that is needed is started here. A round that is not exact keeps its folder, and is played again by
`--round N` with the same seed.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import os
import random
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

from pyspark.sql import SparkSession

from calve.catalog.catalog import embedded
from calve.engine import session
from matrix import databases, record
from matrix.feeds import Feed, FileFeed, HttpFeed, KafkaFeed, TableFeed
from matrix.neighbours import EXTENSIONS, Neighbours
from matrix.neighbours import table as neighbour_table
from matrix.round import ANY_TIME, APPEND, INDEXED, MODES, OPENSEARCH, Counts, Round
from matrix.starts import Starts
from matrix.takeovers import Takeovers
from services.kafka import Kafka
from services.objects import ObjectStore
from services.opensearch import OpenSearch
from services.process import free_ports

FOLDER = Path(__file__).parents[2] / "build" / "crash"
SOURCES = ("file", "kafka", "iceberg", "http")
STATES = ("local", "s3")
COMBINATIONS = [
    (source, state, mode)
    for mode in MODES
    for state in STATES
    for source in SOURCES
    if (source, mode) != ("iceberg", APPEND)  # the changes of a table are applied, or are documents
]
INDEXED_COMBINATIONS = [
    (source, STATES[(turn + at) % len(STATES)], INDEXED)
    for turn in range(len(STATES))
    for at, source in enumerate(SOURCES)
]
KILLS_OF_A_ROUND = 10
PATH = (
    "catalog.after-create",
    "task.in-write",
    "ledger.before-begin",
    "ledger.after-begin",
    "ledger.before-stage",
    "ledger.after-stage",
    "pipeline.after-publish",
    "pipeline.after-stage",
    "commit.before-swap",
    "commit.after-swap",
    "commit.after-table",
    "pipeline.after-acknowledge",
    "ledger.before-committed",
    "ledger.after-committed",
    ANY_TIME,
    ANY_TIME,
)
EVOLVED = ("catalog.after-evolve",)
MORE = {"iceberg": ("spool.before-publish",), "file": EVOLVED, "kafka": EVOLVED, "http": EVOLVED}
"""A table that mirrors another evolves in the commit that brings the rows."""
OF_INDEX = ("index.after-run", "commit.after-deletes", "index.after-merge", "index.after-save")
WITHOUT_TABLES = ("catalog.", "commit.")
ONLY_FIRST = "catalog.after-create"
"""Tables are made once, so this point comes first in a round or not at all."""


Found = dict[tuple[str, ...], list[Counts]]
"""What rounds found, by source, state and write mode; of databases by database and what was killed."""


class Servers:
    """What the rounds share."""

    def __init__(self, folder: Path) -> None:
        self._stack = contextlib.ExitStack()
        engine = session.start("local[2]", {"spark.sql.shuffle.partitions": "2"}, needs_s3=True)
        self._stack.callback(session.stop, engine)
        self.spark: SparkSession = engine.session
        self.kafka = self._stack.enter_context(Kafka(folder / "kafka"))
        self.objects = self._stack.enter_context(ObjectStore(folder / "objects"))
        self.opensearch = self._stack.enter_context(OpenSearch(folder / "opensearch"))

    def close(self) -> None:
        self._stack.close()


def main() -> int:
    """Play the rounds, or until a signal; return 1 if anything was lost or duplicated."""
    for wish in (signal.SIGINT, signal.SIGTERM):  # a shell has what it starts in the background ignore the first
        signal.signal(wish, signal.default_int_handler)
    asked = _arguments()
    shutil.rmtree(asked.folder, ignore_errors=True)
    asked.folder.mkdir(parents=True)
    if asked.databases:
        return _play_databases(asked)
    if asked.neighbours:
        return _play_neighbours(asked)
    if asked.starts:
        return _play_starts(asked)
    if asked.takeovers:
        return _play_takeovers(asked)
    servers = Servers(asked.folder / "servers")
    found: Found = {}
    failed, began = 0, time.monotonic()
    try:
        for number in _numbers(asked):
            source, state, mode = _combination(number, asked)
            try:
                counts = _play(number, asked, servers)
            except Exception as error:  # a round that fails must not end a long record
                failed += 1
                print(f"round {number}: {''.join(traceback.format_exception(error))}", flush=True)
                continue
            found.setdefault((source, state, mode), []).append(counts)
            _save(asked, found)
            wrong = counts.lost.total() + counts.duplicated.total()
            failed += bool(wrong)
            print(
                f"round {number}: {source}, {mode}, state {state}: {counts.kills.total()} kills, {counts.events} events, "
                f"{counts.lost.total()} lost, {counts.duplicated.total()} duplicated ({time.monotonic() - began:.0f} s)",
                flush=True,
            )
    except KeyboardInterrupt:
        print("ended; the table has the rounds before", flush=True)
    finally:
        servers.close()
        _write(asked, found)
    return 1 if failed else 0


def _play_neighbours(asked: argparse.Namespace) -> int:
    engine = session.start("local[2]", {"spark.sql.shuffle.partitions": "2", **EXTENSIONS})
    neighbours, chance = Neighbours(asked.folder / "neighbours", engine.session, asked.seed), random.Random(asked.seed)
    names, began, ended = list(neighbours.neighbour.actions), time.monotonic(), "no dead letters were counted"
    try:
        neighbours.start()
        turns = itertools.chain(*(chance.sample(names, len(names)) for _ in range(-(-asked.neighbours // len(names)))))
        for action, mode, one in neighbours.play(itertools.islice(turns, asked.neighbours)):
            print(f"{time.monotonic() - began:.0f} s: {action}, {mode}: {one}", flush=True)
        ended = f"{neighbours.drain()} dead letters"
    except KeyboardInterrupt:
        print("ended; the table has the actions before", flush=True)
    finally:
        neighbours.end()
        session.stop(engine)
    found = neighbours.found.values()
    line = f"{sum(one.times for one in found)} actions, {neighbours.sent} events, {ended}"
    (asked.folder / "neighbours.md").write_text(f"{neighbour_table(neighbours.found)}\n\n{line}\n")
    print(neighbour_table(neighbours.found), line, sep="\n")
    return 1 if any(one.lost or one.duplicated for one in found) else 0


def _play_starts(asked: argparse.Namespace) -> int:
    starts, began = Starts(asked.folder / "starts", asked.pipelines, asked.seed), time.monotonic()
    try:
        while starts.counts.total() < asked.starts:
            before = len(starts.wrong)
            starts.play()
            for line in starts.wrong[before:]:
                print(line, flush=True)
            if not starts.counts.total() % 10:
                print(f"{starts.counts.total()} starts ({time.monotonic() - began:.0f} s)", flush=True)
    except KeyboardInterrupt:
        print("ended; these are the starts before", flush=True)
    ends = ", ".join(f"{count} ended {how}" for how, count in sorted(starts.counts.items()))
    line = f"{starts.counts.total()} starts of {asked.pipelines} pipelines ({ends}): {len(starts.wrong)} findings"
    if starts.seconds:
        ran, checked = (median(each) for each in zip(*starts.seconds, strict=True))
        line += f"; a start takes {ran:.1f} s, and its check {checked:.1f} s (medians)"
    (asked.folder / "starts.json").write_text(json.dumps({"line": line, "wrong": starts.wrong}, indent=1))
    print(line)
    return 1 if starts.wrong else 0


def _play_takeovers(asked: argparse.Namespace) -> int:
    with contextlib.ExitStack() as left:
        objects = left.enter_context(ObjectStore(asked.folder / "objects"))
        left.enter_context(_exported(objects.environment()))
        folder = (asked.folder / "takeovers").absolute()
        played = Takeovers(folder, objects.place("takeovers"), objects.environment(), asked.seed)
        left.callback(played.end)
        try:
            for _ in range(asked.takeovers):
                print(played.play(), flush=True)
        except KeyboardInterrupt:
            print("ended; the table has the takeovers before", flush=True)
        events, lost, duplicated = played.finish()
    line = f"{played.count} takeovers: {events} events, {lost} lost, {duplicated} duplicated"
    (asked.folder / "takeovers.json").write_text(json.dumps({"line": line, "seconds": played.seconds}, indent=1))
    print(f"{played.table()}\n\n{line}")
    return 1 if lost or duplicated else 0


def _play_databases(asked: argparse.Namespace) -> int:
    found: Found = {}
    failed, began = 0, time.monotonic()
    engine = session.start("local[2]", {"spark.sql.shuffle.partitions": "2"}) if asked.whole else None
    try:
        for number in _numbers(asked):
            try:
                kind, counts = databases.play(
                    number, asked.seed, asked.folder / f"round-{number}", engine and engine.session
                )
            except Exception as error:  # a round that fails must not end a long record
                failed += 1
                print(f"round {number}: {''.join(traceback.format_exception(error))}", flush=True)
                continue
            found.setdefault((kind, "whole" if asked.whole else "source"), []).append(counts)
            _save(asked, found)
            lost, duplicated = counts.lost.total(), counts.duplicated.total()
            failed += bool(lost + duplicated)
            besides = ", ".join(f"{many} {what}" for what, many in counts.besides.items())
            print(
                f"round {number}: {kind}: {counts.kills.total()} kills, {besides}; {lost} lost, {duplicated} too many, "
                f"{counts.missed.total()} points not reached "
                f"({time.monotonic() - began:.0f} s)",
                flush=True,
            )
    except KeyboardInterrupt:
        print("ended; the table has the rounds before", flush=True)
    finally:
        if engine is not None:
            session.stop(engine)
        _write(asked, found)
        print(f"{failed} rounds failed")
    return 1 if failed else 0


def _write(asked: argparse.Namespace, found: Found) -> None:
    print(_save(asked, found))


def _save(asked: argparse.Namespace, found: Found) -> str:
    sources, modes = record.columns(_by(found, slice(0, 2))), record.columns(_by(found, slice(2, 3)))
    text = "\n\n".join("\n".join(record.by_point(table)) for table in (sources, modes) if table)
    (asked.folder / "matrix.md").write_text(text + "\n")
    rounds = {", ".join(name): [vars(counts) for counts in played] for name, played in found.items()}
    (asked.folder / "matrix.json").write_text(json.dumps({"seed": asked.seed, "rounds": rounds}, indent=1))
    command = f"make crash ROUNDS={asked.rounds} SEED={asked.seed}"
    tables = {"command": command, "date": f"{datetime.now(UTC):%Y-%m-%d}", "sources": sources, "modes": modes}
    (asked.folder / "record.json").write_text(json.dumps(tables, indent=1) + "\n")
    return text


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--seed", default="1")
    parser.add_argument("--first", type=int, default=0, help="the first round, for a part of a record beside another")
    parser.add_argument("--round", type=int, help="play only this round of the seed")
    parser.add_argument("--folder", type=Path, default=FOLDER)
    parser.add_argument("--neighbours", type=int, default=0, help="let others work on the tables so often instead")
    parser.add_argument("--starts", type=int, default=0, help="start and end a process so often instead")
    parser.add_argument("--takeovers", type=int, default=0, help="let a standby take over so often instead")
    parser.add_argument("--pipelines", type=int, default=20, help="with --starts: how many the process has")
    parser.add_argument("--key-index", action="store_true", help="let all commits use a key index instead")
    parser.add_argument("--databases", action="store_true", help="kill sources of databases instead")
    parser.add_argument("--whole", action="store_true", help="with --databases: kill all of Calve, not only its source")
    return parser.parse_args()


def _numbers(asked: argparse.Namespace) -> Sequence[int]:
    return [asked.round] if asked.round is not None else range(asked.first, asked.first + asked.rounds)


def _combination(number: int, asked: argparse.Namespace) -> tuple[str, str, str]:
    combinations = INDEXED_COMBINATIONS if asked.key_index else COMBINATIONS
    return combinations[number % len(combinations)]


def _play(number: int, asked: argparse.Namespace, servers: Servers) -> Counts:
    source, state, mode = _combination(number, asked)
    chance = random.Random(f"{asked.seed}-{number}")
    folder = asked.folder / f"round-{number}"
    feed = _feed(source, chance, folder, servers, number)
    place = (servers.objects.place(f"{asked.seed}-{number}"), servers.objects.environment()) if state == "s3" else None
    with _exported(place[1] if place else {}):
        played = Round(folder, feed, mode, servers.spark, place, servers.opensearch)
        try:
            for point in _points(source, mode, number, chance):
                played.strike(point, chance)
            counts = played.finish()
        finally:
            played.end()
    if not counts.lost.total() + counts.duplicated.total():
        shutil.rmtree(folder)
    return counts


def _points(source: str, mode: str, number: int, chance: random.Random) -> list[str]:
    """Choose the points of a round: over the rounds of a combination, and over the combinations, they take turns."""
    points = [*PATH, *MORE[source]]
    if mode == OPENSEARCH:
        points = [point for point in points if not point.startswith(WITHOUT_TABLES)]
    first = number // len(COMBINATIONS) * KILLS_OF_A_ROUND + number % len(COMBINATIONS) * 3
    chosen = [*OF_INDEX] if mode == INDEXED else []
    chosen += [points[(first + each) % len(points)] for each in range(KILLS_OF_A_ROUND - len(chosen))]
    chance.shuffle(chosen)
    return sorted(chosen, key=lambda point: point != ONLY_FIRST)


def _feed(source: str, chance: random.Random, folder: Path, servers: Servers, number: int) -> Feed:
    if source == "file":
        return FileFeed(chance)
    if source == "kafka":
        return KafkaFeed(chance, servers.kafka, f"matrix-{number}")
    if source == "http":
        return HttpFeed(chance, free_ports(1)[0])
    lakehouse = folder / "lakehouse"
    lakehouse.mkdir(parents=True)
    spark = servers.spark.newSession()
    for key, value in embedded(lakehouse).items():
        spark.conf.set(f"spark.sql.catalog.lakehouse.{key}", value)
    spark.conf.set("spark.sql.catalog.lakehouse", "org.apache.iceberg.spark.SparkCatalog")
    return TableFeed(chance, spark, "db.source", {"name": "lakehouse", **embedded(lakehouse)})


@contextlib.contextmanager
def _exported(variables: dict[str, str]) -> Iterator[None]:
    """Set environment variables, which this process needs as well to read a state."""
    before = dict(os.environ)
    os.environ.update(variables)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def _by(found: Found, part: slice) -> dict[str, list[Counts]]:
    """Group what was found by a part of its combination."""
    grouped: dict[str, list[Counts]] = {}
    for name, each in found.items():
        if name[part]:
            grouped.setdefault(", ".join(name[part]), []).extend(each)
    return grouped


if __name__ == "__main__":
    sys.exit(main())

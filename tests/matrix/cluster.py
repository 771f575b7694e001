"""Kills executors, workers and drivers on a Spark cluster, and counts what is lost: `make crash-cluster KILLS=20`.

A master and two workers run as processes with folders of their own, and know Calve only from `calve bundle`. A driver
reads numbered events from Kafka into a table of a REST catalog; tables and state are in S3, and a second driver waits
as a standby. At random times an executor, a worker or the leading driver is killed (-9). After each kill, all events
that were sent before it must be committed; at the end each must be in the table once.

With `--dynamic` nothing is killed. Executors are allocated dynamically, and in pauses without events Spark takes all of
them back; the events after a pause need new ones.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from pyiceberg.catalog import load_catalog

from calve.operate import bundle
from calve.state.store_folder import StoreFolder
from kit.running import Calve, until
from services.kafka import Kafka
from services.objects import ObjectStore
from services.spark_cluster import SparkCluster

FOLDER = Path(__file__).parents[2] / "build" / "crash-cluster"
PATIENCE_SECONDS = 300
WORKERS = 2
EVENTS = 50
STRIKES = ("executor", "worker", "driver")
PAUSES = ("pause",)
SMALL = {"spark.cores.max": "2", "spark.executor.cores": "1", "spark.executor.memory": "512m"}
DYNAMIC = {
    "spark.dynamicAllocation.enabled": "true",
    "spark.dynamicAllocation.shuffleTracking.enabled": "true",
    "spark.dynamicAllocation.shuffleTracking.timeout": "3s",
    "spark.dynamicAllocation.executorIdleTimeout": "2s",
    "spark.dynamicAllocation.minExecutors": "0",
}


class Feed:
    """Sends numbered events to Kafka, several times a second.

    Attributes:
        paused: While it is held, nothing is sent.
    """

    def __init__(self, broker: Kafka) -> None:
        self.sent = 0
        self._broker = broker
        self._ended = threading.Event()
        self.paused = threading.Lock()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Send no more."""
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._ended.wait(0.3):
            events = [f'{{"id": {number}}}' for number in range(self.sent, self.sent + EVENTS)]
            with self.paused:
                self.sent += self._broker.produce("cluster", events, partitions=(0, 1, 2))


class Drivers:
    """A driver, and one that waits for its turn.

    Args:
        folder: Each driver has its log in it.
        arguments: Of `calve run`.
        yaml: The configuration.
        objects: Has the state.
    """

    def __init__(self, folder: Path, arguments: list[str], yaml: str, objects: ObjectStore) -> None:
        self._folder, self._arguments, self._yaml = folder, arguments, yaml
        self._objects = objects
        self._state = StoreFolder.at(objects.place("state/stream"))
        self._started = 0
        self.all = [self._start()]

    def rows(self) -> int:
        """Return how many rows are committed."""
        found = self._state.get("status.json")
        tables = json.loads(found.content).get("tables", {}) if found else {}
        return sum(table["rows"] for table in tables.values())

    def stand_by(self) -> None:
        """Start a second driver, and wait until it waits."""
        self.all.append(self._start())
        self.all[-1].until(lambda: "standby: waits for the driver" in self.all[-1].said(), "it waits")

    def kill_leader(self) -> None:
        """Kill the leading driver (-9) with its JVM."""
        self.all.pop(0).kill()

    def reach(self, rows: int, what: str) -> None:
        """Wait until so many rows are committed."""
        try:
            until(lambda: self.rows() >= rows, what, PATIENCE_SECONDS)
        except AssertionError as error:
            raise AssertionError("\n".join([str(error), *(one.said()[-3000:] for one in self.all)])) from error

    def end(self) -> None:
        """Leave nothing running."""
        for one in self.all:
            one.end()

    def _start(self) -> Calve:
        made = Calve(self._folder / "driver", self._yaml)
        made.log = self._folder / f"driver-{self._started}.log"
        self._started += 1
        made.start(*self._arguments, "--standby", environment=self._objects.environment())
        return made


def main() -> int:
    """Kill as often as asked, or until a signal; return 1 if anything was lost or duplicated."""
    for wish in (signal.SIGINT, signal.SIGTERM):  # a shell has what it starts in the background ignore the first
        signal.signal(wish, signal.default_int_handler)
    asked = _arguments()
    folder = asked.folder.absolute()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    bundle.write(folder / "calve.tar.gz")
    with (
        ObjectStore(folder / "objects") as objects,
        Kafka(folder / "kafka") as broker,
        SparkCluster(folder / "spark", WORKERS, objects.environment()) as cluster,
    ):
        os.environ.update(objects.environment())
        broker.create_topic("cluster", partitions=3)
        more = dict(word.split("=", 1) for word in asked.conf)
        dynamic = DYNAMIC if asked.dynamic else {}
        settings = SMALL | dynamic | bundle.settings(str(folder / "calve.tar.gz")) | more
        confs = [word for key, value in settings.items() for word in ("--conf", f"{key}={value}")]
        arguments = ["--master", cluster.master, "--state", objects.place("state"), *confs]
        drivers = Drivers(folder, arguments, _yaml(broker, objects), objects)
        feed = Feed(broker)
        kills: Counter[str] = Counter()
        try:
            drivers.reach(1, "the first rows are committed")
            try:
                _play(asked, cluster, drivers, feed, kills)
            except KeyboardInterrupt:
                print("ended; the strikes before count", flush=True)
            feed.end()
            drivers.reach(feed.sent, "all events are committed")
            assert drivers.all[0].stop() == 0, drivers.all[0].said()[-3000:]
        finally:
            drivers.end()
        ids = load_catalog("rest", **objects.rest_catalog()).load_table("out.cluster").scan().to_arrow()["id"]
        found, expected = Counter(ids.to_pylist()), Counter(range(feed.sent))
    lost, duplicated = (expected - found).total(), (found - expected).total()
    said = ", ".join(f"{kills[what]} {what}s" for what in _kinds(asked))
    line = f"{kills.total()} strikes ({said}): {feed.sent} events, {lost} lost, {duplicated} duplicated"
    (folder / "cluster.json").write_text(json.dumps({"kills": kills, "events": feed.sent, "line": line}))
    print(line)
    return 1 if lost or duplicated else 0


def _play(asked: argparse.Namespace, cluster: SparkCluster, drivers: Drivers, feed: Feed, kills: Counter[str]) -> None:
    chance = random.Random(asked.seed)
    strikes: dict[str, Callable[[], None]] = {
        "executor": lambda: os.kill(chance.choice(cluster.executors()), signal.SIGKILL),
        "worker": lambda: cluster.kill_worker(chance.randrange(WORKERS)),
        "driver": drivers.kill_leader,
        "pause": lambda: _pause(cluster, drivers, feed),
    }
    kinds = _kinds(asked)
    for number in range(asked.kills):
        what = kinds[number % len(kinds)]
        if what == "driver":
            drivers.stand_by()
        time.sleep(chance.uniform(0, 3))  # anywhere in a batch
        struck, sent = time.monotonic(), feed.sent
        strikes[what]()
        kills[what] += 1
        drivers.reach(sent, f"it goes on after strike {number}, a {what}")
        cluster.clean()
        print(f"strike {number}: {what}; all was committed after {time.monotonic() - struck:.1f} s", flush=True)


def _kinds(asked: argparse.Namespace) -> tuple[str, ...]:
    return PAUSES if asked.dynamic else STRIKES


def _pause(cluster: SparkCluster, drivers: Drivers, feed: Feed) -> None:
    """Send nothing until Spark has taken all executors back; then send again, which new executors must read."""
    before = set(cluster.executors())
    assert before
    with feed.paused:
        drivers.reach(feed.sent, "all is committed before the pause")
        until(lambda: not cluster.executors(), "all executors are given back", PATIENCE_SECONDS)
        sent = feed.sent
    drivers.reach(sent + EVENTS, "events after the pause are committed")
    assert not before & set(cluster.executors())


def _yaml(broker: Kafka, objects: ObjectStore) -> str:
    topic = {"name": "cluster", "group_id": "cluster", "serde_format": "json"}
    iceberg = {
        "table_identifier": "out.cluster",
        "auto_create": True,
        "schema": {"columns": [{"name": "id", "type": "long"}]},
        "catalog": objects.rest_catalog(),
        "flush_interval": "500ms",
        "commit_interval": "1s",
    }
    source = {"kafka": {"bootstrap_servers": [broker.address], "topics": [topic]}}
    return json.dumps({"stream": {"source": source, "sink": [{"iceberg": iceberg}]}})


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", default="1")
    parser.add_argument("--folder", type=Path, default=FOLDER)
    parser.add_argument("--dynamic", action="store_true", help="let Spark take executors back in pauses; kill nothing")
    parser.add_argument("--conf", action="append", default=[], help="a setting of Spark, as KEY=VALUE")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())

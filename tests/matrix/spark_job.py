"""Kills a user's own Spark job with `calve.spark.sink`, and compares its tables: `make crash-spark KILLS=20`.

The job reads Kafka, whose producer goes on all the time, and writes into tables: all records, and one
table for each kind with upserts and deletes. Kinds and fields come up on the way, and each release of the job has its
own column. The whole job is killed (-9) at stop points and at any time, and so are its JVM alone and the broker. At the
end the tables and the dead letters are those of a model of the records that the broker has acknowledged.

With `--cluster` the driver runs on a standalone cluster, and executors and workers are killed, too; state and
checkpoint are in S3, and executors know Calve only from `calve bundle`.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import cycle, islice
from pathlib import Path
from typing import Any

from confluent_kafka import Message

from calve.state.location import state_folder_at
from calve.stop_point import VARIABLE
from kit.running import until
from matrix.spark_model import Expected, record
from matrix.spark_places import OnCluster, OnThisMachine
from services.kafka import Kafka

FOLDER = Path(__file__).parents[2] / "build" / "crash-spark"
PATIENCE_SECONDS = 600
RECORDS_A_BATCH = 2000
PARTITIONS = 2
POINTS = (
    "commit.after-table",
    "ledger.after-begin",
    "commit.after-swap:3",
    "pipeline.after-stage:2",
    "ledger.before-begin",
    "pipeline.after-acknowledge:2",
    "commit.before-swap:2",
)
PIPELINE = """
orders:
  source: {spark: {}}
  processor:
    - parse_json: {source: message, delete_source: true}
  sink:
    - iceberg:
        table_identifier: shop.all
        schema: {columns: [{name: n, type: long}, {name: text, type: int}]}
        schema_evolution: true
        auto_create: true
        on_type_mismatch: dlq
        catalog: {type: spark, name: lake}
    - iceberg:
        table_identifier: "shop.${/kind}"
        identifier_columns: [k]
        upsert: true
        operation: "${/op}"
        auto_create: true
        schema_evolution: true
        catalog: {type: spark, name: lake}
"""


class Feed:
    """Sends records to Kafka several times a second, those of a key to one partition.

    Attributes:
        acknowledged: The value of each record that the broker has acknowledged, by partition and offset.
    """

    def __init__(self, broker: Kafka) -> None:
        self.acknowledged: dict[tuple[int, int], str] = {}
        self.sent = 0
        self._producer = broker.producer(**{"delivery.timeout.ms": 300_000})
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Send no more, and wait for all acknowledgements."""
        self._ended.set()
        self._thread.join()
        assert self._producer.flush(PATIENCE_SECONDS) == 0
        assert len(self.acknowledged) == self.sent

    def _run(self) -> None:
        while not self._ended.wait(0.5):
            for _ in range(5):
                key, value = record(self.sent)
                self._producer.produce("orders", value, partition=key % PARTITIONS, on_delivery=self._on_delivery)
                self.sent += 1
            self._producer.poll(0)

    def _on_delivery(self, error: object, message: Message) -> None:
        assert error is None, error
        self.acknowledged[message.partition(), message.offset()] = message.value().decode()


@dataclass
class Job:
    """The user's job, in a process that is started again and again.

    Args:
        folder: Its log and its settings.
        settings: What it reads.
    """

    folder: Path
    settings: dict[str, Any]
    releases: int = 0
    _process: subprocess.Popen[bytes] | None = field(default=None, init=False)

    @property
    def log(self) -> Path:
        """The file for what the current process says."""
        return self.folder / f"job-{self.releases}.log"

    @property
    def said(self) -> str:
        """What the current process has said."""
        return self.log.read_text(errors="replace")

    @property
    def batches(self) -> int:
        """How many batches the current process has written; -1: its stream has not begun."""
        said = self.said
        return said.count("\nbatch ") if "\nthe stream begins" in said else -1

    def start(self, stop_at: str = "", once: bool = False) -> None:
        """Start the next release of the job."""
        self.releases += 1
        columns = ["cast(value as string) message", "partition", "offset", f"'r' release_{self.releases // 5}"]
        settings = self.folder / "settings.json"
        settings.write_text(json.dumps(self.settings | {"once": once, "columns": columns}))
        command = [sys.executable, str(Path(__file__).parents[1] / "kit" / "kafka_job.py"), str(settings)]
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                command,
                cwd=self.folder,
                stdout=log,
                stderr=log,
                start_new_session=True,
                env=os.environ | {VARIABLE: stop_at},
            )

    def wrote(self, batches: int, what: str) -> None:
        """Wait until the current process has begun the stream, and has written so many batches."""

        def holds() -> bool:
            assert self.runs or self.batches >= batches, f"the job has ended before {what}"
            return self.batches >= batches

        self._until(holds, what)

    @property
    def runs(self) -> bool:
        """Whether the process runs."""
        return self._process is not None and self._process.poll() is None

    def ends(self) -> int:
        """Wait for the end of the process, and leave nothing of it; return its exit code."""
        assert self._process
        self._until(lambda: not self.runs, "the job ends")
        self.kill()
        return self._process.returncode

    def kill(self) -> None:
        """Kill the process, its JVM and its workers (-9), if there is one."""
        if self._process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def kill_jvm(self) -> None:
        """Kill the JVM alone (-9)."""
        assert self._process
        pid = self._process.pid
        [jvm] = (int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split() if _is_jvm(child))
        os.kill(jvm, signal.SIGKILL)

    def _until(self, holds: Callable[[], bool], what: str) -> None:
        try:
            until(holds, what, PATIENCE_SECONDS)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.said[-4000:]}") from error


def main() -> int:
    """Kill as often as asked; return 1 if a table or the dead letters differ from the model."""
    for ending in (signal.SIGINT, signal.SIGTERM):  # a shell has what it starts in the background ignore the first
        signal.signal(ending, signal.default_int_handler)
    asked = _arguments()
    folder = asked.folder.absolute()
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "job").mkdir(parents=True)
    with contextlib.ExitStack() as servers:
        broker = servers.enter_context(Kafka(folder / "kafka"))
        broker.create_topic("orders", partitions=PARTITIONS)
        place = servers.enter_context(OnCluster(folder) if asked.cluster else OnThisMachine(folder))
        job = Job(folder / "job", place.settings | {"pipeline": PIPELINE, "kafka": _options(broker)})
        feed, kills = Feed(broker), Counter[str]()
        try:
            _play(asked, job, feed, broker, place, kills)
        finally:
            job.kill()
        expected = Expected(feed.acknowledged)
        differences = [*expected.differences(place.rows), *expected.letters_differ(_letters(place.settings["state"]))]
    what = ", ".join(f"{count} {strike}" for strike, count in kills.items())
    print(*differences, sep="\n")
    print(f"{kills.total()} strikes ({what}): {feed.sent} records, {expected.summary}, {len(differences)} differences")
    return 1 if differences else 0


def _play(
    asked: argparse.Namespace,
    job: Job,
    feed: Feed,
    broker: Kafka,
    place: OnThisMachine | OnCluster,
    kills: Counter[str],
) -> None:
    chance = random.Random(asked.seed)
    try:
        for number, strike in enumerate(islice(cycle(place.strikes), asked.kills)):
            began = time.monotonic()
            _strike(strike, number, job, broker, place, chance)
            kills[strike] += 1
            print(f"{number}: {strike}, {feed.sent} records sent, {time.monotonic() - began:.0f} s", flush=True)
    except KeyboardInterrupt:
        print("ended; the strikes before count", flush=True)
    feed.end()
    job.kill()
    job.start(once=True)
    assert job.ends() == 0, job.said[-4000:]


def _strike(
    strike: str, number: int, job: Job, broker: Kafka, place: OnThisMachine | OnCluster, chance: random.Random
) -> None:
    if strike == "point":
        job.kill()
        job.start(stop_at=POINTS[number // 2 % len(POINTS)])
        assert job.ends() == -signal.SIGKILL, job.said[-4000:]
        return
    if not job.runs:
        job.start()
    job.wrote(0 if strike in ("job", "jvm") else 1, "the stream begins")
    time.sleep(chance.uniform(0, 10))  # anywhere in a batch
    if strike == "job":
        job.kill()
    elif strike == "jvm":
        job.kill_jvm()
        assert job.ends() > 0, "a job without a JVM must fail"
    else:
        batches = job.batches
        if strike == "broker":
            broker.kill()
            broker.start()
        else:
            place.strike(strike, chance)
        job.wrote(batches + 2, f"batches after the end of the {strike}")


def _options(broker: Kafka) -> dict[str, str]:
    return {
        "kafka.bootstrap.servers": broker.address,
        "subscribe": "orders",
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": str(RECORDS_A_BATCH),
    }


def _letters(state: str) -> list[dict[str, Any]]:
    """Return the published dead letters of the pipeline."""
    folder = state_folder_at(state) / "orders" / "dlq"
    contents = (folder.get(name) for name in folder.names() if name[0] not in "_.")
    return [json.loads(line) for tagged in contents if tagged for line in tagged.content.splitlines()]


def _is_jvm(pid: str) -> bool:
    return Path(f"/proc/{pid}/comm").read_text().strip() == "java"


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", default="1")
    parser.add_argument("--folder", type=Path, default=FOLDER)
    parser.add_argument(
        "--cluster", action="store_true", help="run the job on a standalone cluster, with all state in S3"
    )
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())

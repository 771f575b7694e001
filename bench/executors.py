"""Kafka → one Iceberg table on a standalone Spark cluster with 1, 2 and 4 executors of one core each.

    make bench-executors BENCH="--events 2000000 --rounds 2"

A master and two workers run on this machine, so with fewer processor cores than executors nothing more can be gained:
the CPU seconds per million events then say what an executor costs. The topic has eight partitions. `inside events/s`
leaves out the start. Every table's rows and sums are read by DuckDB and compared with what was sent.
"""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path

from bench import lake
from bench.calve_run import calve_run
from bench.made_events import SUMS, Events
from bench.measure import CPU, Figures, parser, take_turns
from bench.report import Report
from services.kafka import STEADY, Kafka
from services.spark_cluster import SparkCluster

TOPIC = "events"
PARTITIONS = 8
EXECUTORS = (1, 2, 4)
YAML = """
events:
  source:
    kafka: {{bootstrap_servers: ["{address}"], topics: [{{name: events, serde_format: json}}]}}
  sink:
    - iceberg: {{table_identifier: bench.events, auto_create: true, commit_interval: 5s, max_batch_bytes: 128mb}}
"""


def main() -> None:
    """Run each number of executors in turns, and report the medians."""
    chosen = parser(__doc__, 2_000_000, 2).parse_args()
    made = Events(chosen.events)
    with (
        tempfile.TemporaryDirectory(prefix="calve-bench-") as place,
        Kafka(Path(place) / "kafka", options=STEADY) as broker,
        SparkCluster(Path(place) / "spark", 2, {}) as cluster,
    ):
        CPU.leave_out(broker.pid)
        broker.create_topic(TOPIC, partitions=PARTITIONS)
        broker.produce(TOPIC, made, partitions=range(PARTITIONS))
        yaml = YAML.format(address=broker.address)

        def run(executors: int, number: int) -> Figures:
            folder = Path(place) / f"{executors}-{number}"
            settings = {"spark.cores.max": executors, "spark.executor.cores": 1, "spark.executor.memory": "512m"}
            more = [word for key, value in settings.items() for word in ("--conf", f"{key}={value}")]
            found = calve_run(folder, yaml, chosen.events, "--master", cluster.master, *more)
            lake.check([folder / "lakehouse" / "bench" / "events"], SUMS, made.sums())
            return found

        results = take_turns({f"{each} executors": partial(run, each) for each in EXECUTORS}, chosen.rounds)
    Report("executors", "Executors of a Spark cluster").bars(results, "inside events/s")


if __name__ == "__main__":
    main()

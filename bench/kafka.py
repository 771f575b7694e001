"""Kafka → one Iceberg table: Calve against the Kafka Connect sink, Spark's `from_json` and Flink.

    make bench-kafka BENCH="--events 6000000 --rounds 3 --flink"

Each reads the whole topic (4 partitions) from the same broker into a fresh table on local storage, in a process of its
own; they take turns, and medians are compared. Start-up is included, and CPU seconds are those of the run and the
broker. Calve has all checks on and makes the table from the events; Spark and Flink are given its schema. All commit
every 10 s; the Kafka Connect sink never ends, so it is stopped when its last event is readable: `idle s` is what it
waited for that commit. Every table's rows and sums are read by DuckDB and compared with what was sent.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

from bench import lake, peers
from bench.calve_run import calve_run
from bench.made_events import COLUMNS, SUMS, Events
from bench.measure import Figures, Results, medians, parser, ratio, take_turns
from bench.report import Report
from services.kafka import STEADY, Kafka

TOPIC = "events"
YAML = """
{topic}:
  source:
    kafka:
      bootstrap_servers: ["{address}"]
      topics: [{{name: {topic}, serde_format: json}}]
  sink:
    - iceberg:
        table_identifier: "{table}"
        auto_create: true
        schema_evolution: true
        commit_interval: 10s
        {more}
"""
LEAST = {"connect": 5.0, "spark": 5.0, "flink": 3.5}
"""How many times as fast as each Calve shall be."""


def contenders(broker: Kafka, home: Path | None, count: int, batch: str) -> dict[str, Callable[[Path], Figures]]:
    """Return what runs each contender in a folder."""
    address = broker.address
    yaml = YAML.format(address=address, topic=TOPIC, table="bench.events", more=f"max_batch_bytes: {batch}")
    found: dict[str, Callable[[Path], Figures]] = {
        "calve": lambda folder: calve_run(folder, yaml, count),
        "connect": lambda folder: peers.connect(broker, TOPIC, folder, count),
        "spark": lambda folder: peers.spark_from_json(address, TOPIC, folder, count),
    }
    if home:
        names = {"table": "events", "columns": COLUMNS.replace("at string", "`at` string"), "format": "json"}
        names |= {"topic": TOPIC, "address": address, "properties": "'format-version'='2'"}
        found["flink"] = lambda folder: peers.flink(home, peers.FLINK_SQL.format(folder=folder, **names), folder, count)
    return found


def compare(results: Results) -> Report:
    """Compare Calve with each of the others, and with its own targets."""
    report = Report("kafka", "Kafka into one Iceberg table")
    if "calve" in results:
        report.target("CPU seconds per million, broker included", medians(results)["calve"]["CPU s/M"], most=3)
        for name in (name for name in LEAST if name in results):
            report.target(f"times the rate of {name}", ratio(results, "events/s", "calve", name), least=LEAST[name])
    return report


def main() -> None:
    options = parser(__doc__, 4_000_000, 2)
    options.add_argument("--batch", default="256mb", help="max_batch_bytes of Calve")
    options.add_argument("--only", nargs="+", help="contenders: calve connect spark flink")
    options.add_argument("--flink", action="store_true", help="download Flink (310 MB) where it is not there yet")
    chosen = options.parse_args()
    made = Events(chosen.events)
    with (
        tempfile.TemporaryDirectory(prefix="calve-bench-") as place,
        Kafka(Path(place) / "kafka", options=STEADY) as broker,
    ):
        broker.create_topic(TOPIC, partitions=4)
        broker.produce(TOPIC, made, partitions=range(4))
        home = peers.flink_home(chosen.flink)
        if not home:
            print("Flink is not there: give --flink to download it (310 MB)")
        runs = contenders(broker, home, chosen.events, chosen.batch)

        def run(name: str, number: int) -> Figures:
            folder = Path(place) / f"{name}-{number}"
            found = runs[name](folder)
            lake.check([folder / "lakehouse" / "bench" / "events"], SUMS, made.sums())
            return found

        results = take_turns({name: partial(run, name) for name in chosen.only or runs}, chosen.rounds)
    compare(results).bars(results, "events/s")


if __name__ == "__main__":
    main()

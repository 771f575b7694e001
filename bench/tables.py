"""Kafka → many Iceberg tables, whose names the events say: Calve with 1 to 2,000, the Kafka Connect sink with 50.

    make bench-tables BENCH="--tables 1 50 200 2000 --rounds 2"
    make bench-tables BENCH="--tables 10000 --hot 100 --events 1000000"

The tables exist: a first run, which is not measured, makes them from an event each. Then each reads its topic (4
partitions, the events of all tables mixed) in a process of its own, start-up and commits included. CPU seconds are
those of the run and the broker. Every table's rows and sums are read by DuckDB and compared with what was sent.

With `--hot` a pipeline makes all tables and goes on running; then what so many of them take is measured, against a
pipeline that knows only these.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from bench import lake, peers, quiet_tables
from bench.calve_run import calve_run
from bench.kafka import YAML
from bench.made_events import SUMS, Events
from bench.measure import Figures, Results, medians, parser, ratio, take_turns
from bench.report import Report
from services.kafka import STEADY, Kafka

PEER_TABLES = 50
ROUTED = "iceberg.tables.dynamic-enabled=true\niceberg.tables.route-field=tenant"
MOST = {200: 1.5, 2000: 3.0}
"""How many times the CPU seconds of one table so many may take."""


def run(who: str, broker: Kafka, folder: Path, made: dict[str, Events]) -> Figures:
    """Make the tables, then write into them; return the figures of the latter."""
    found: Figures = {}
    for topic, events in made.items():
        if who == "connect":
            found = peers.connect(broker, topic, folder, events.count, ROUTED)
        else:
            yaml = YAML.format(address=broker.address, topic=topic, table="${/tenant}", more="")
            found = calve_run(folder, yaml, events.count)
    expected = [sum(sums) for sums in zip(*(events.sums() for events in made.values()), strict=True)]
    lake.check(lake.folders(folder / "lakehouse" / "bench"), SUMS, expected)
    return found


def compare(results: Results) -> Report:
    """Compare with the targets."""
    report = Report("tables", "Kafka into many Iceberg tables")
    middle = {name: found["CPU s/M"] for name, found in medians(results).items()}
    for tables, most in MOST.items():
        if {"calve 1", f"calve {tables}"} <= middle.keys():
            value = middle[f"calve {tables}"] / middle["calve 1"]
            report.target(f"CPU of {tables} tables to that of one", value, most=most)
    ours, theirs = f"calve {PEER_TABLES}", f"connect {PEER_TABLES}"
    if {ours, theirs} <= results.keys():
        text = f"times the rate of the Kafka Connect sink, {PEER_TABLES} tables"
        report.target(text, ratio(results, "events/s", ours, theirs), least=10)
    return report


def main() -> None:
    options = parser(__doc__, 6_000_000, 1)
    options.add_argument("--tables", type=int, nargs="+", default=[1, 50, 200, 2000])
    options.add_argument("--hot", type=int, help="events for so many of the tables, after all of them exist")
    options.add_argument("--only", choices=("calve", "connect"))
    chosen = options.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="calve-bench-") as place,
        Kafka(Path(place) / "kafka", options=STEADY) as broker,
    ):
        if chosen.hot:
            quiet_tables.main(broker, Path(place), max(chosen.tables), chosen.hot, chosen.events, chosen.rounds)
            return
        made = {}
        for tables in chosen.tables:
            topics = {f"seed{tables}": tables, f"events{tables}": chosen.events}
            made[tables] = {topic: Events(count, tables, "bench.t") for topic, count in topics.items()}
            for topic, events in made[tables].items():
                broker.create_topic(topic, partitions=4)
                broker.produce(topic, events, partitions=range(4))
        pairs = [("calve", tables) for tables in made] + [("connect", PEER_TABLES)] * (PEER_TABLES in made)
        runs = {
            f"{who} {tables}": lambda number, who=who, tables=tables: run(
                who, broker, Path(place) / f"{who}-{tables}-{number}", made[tables]
            )
            for who, tables in pairs
            if chosen.only in (None, who)
        }
        results = take_turns(runs, chosen.rounds)
    compare(results).bars(results, "CPU s/M")


if __name__ == "__main__":
    main()

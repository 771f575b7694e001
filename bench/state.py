"""Kafka → one Iceberg table with commits every 5 s: the state on an object store against a local state.

    make bench-state BENCH="--events 4000000 --rounds 4"

Each reads the whole topic (4 partitions) in batches of 32 MB into a fresh local table, in a process of its own; they
take turns, in pairs. Only the state is elsewhere: a folder, or a prefix on SeaweedFS on this machine, whose own CPU
seconds do not count. `events/s` has the start, which is nearly the same for both; `inside events/s` is from the start
of the first batch to the last commit. Every table's rows and sums are read by DuckDB and compared with what was sent.
"""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path

from bench import lake
from bench.calve_run import calve_run
from bench.made_events import SUMS, Events
from bench.measure import CPU, Figures, medians, parser, ratio, take_turns
from bench.report import Report
from services.kafka import STEADY, Kafka
from services.objects import ObjectStore

TOPIC = "events"
YAML = """
events:
  source:
    kafka: {{bootstrap_servers: ["{address}"], topics: [{{name: events, serde_format: json}}]}}
  sink:
    - iceberg: {{table_identifier: bench.events, auto_create: true, commit_interval: 5s, max_batch_bytes: 32mb}}
"""
LEAST = 0.95
"""The share of the local rate that is left with the state on an object store."""
LOCAL, STORE = "local", "object store"


def main() -> None:
    """Run the pairs, and report the medians and the ratios."""
    chosen = parser(__doc__, 4_000_000, 4).parse_args()
    made = Events(chosen.events)
    with (
        tempfile.TemporaryDirectory(prefix="calve-bench-") as place,
        Kafka(Path(place) / "kafka", options=STEADY) as broker,
        ObjectStore(Path(place) / "objects") as objects,
    ):
        CPU.leave_out(objects.pid)
        broker.create_topic(TOPIC, partitions=4)
        broker.produce(TOPIC, made, partitions=range(4))
        yaml = YAML.format(address=broker.address)

        def run(name: str, number: int) -> Figures:
            folder = Path(place) / f"{name.replace(' ', '-')}-{number}"
            state = ("--state", objects.place(f"state-{number}")) if name == STORE else ()
            found = calve_run(folder, yaml, chosen.events, *state, environment=objects.environment())
            lake.check([folder / "lakehouse" / "bench" / "events"], SUMS, made.sums())
            return found

        results = take_turns({name: partial(run, name) for name in (LOCAL, STORE)}, chosen.rounds)
    report = Report("state", "The state on an object store")
    for rate in ("events/s", "inside events/s"):
        report.target(f"share of the local {rate}", ratio(results, rate, STORE, LOCAL), least=LEAST)
    report.target("share of the local CPU seconds", ratio(results, "CPU s/M", STORE, LOCAL))
    report.target("commits of a run", medians(results)[STORE]["commits"])
    report.bars(results, "inside events/s")


if __name__ == "__main__":
    main()

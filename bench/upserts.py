"""Debezium's changes in Kafka → an Iceberg table with updates and deletes: Calve against Flink's upsert.

    make bench-upserts BENCH="--events 1000000 --rounds 3 --modes all --reads --flink"

Each run reads the whole topic (4 partitions, a key always in the same one) into a fresh table, in a process of its
own; the contenders take turns, and medians are compared. Start-up is included, and CPU seconds are those of the run
and the broker. A plain Spark reads every table whole, compares it with what the changes leave, and times that; with
`--reads` also after `calve maintain --only convert`, and compacted.
"""

from __future__ import annotations

import json
import random
import tempfile
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path

from bench import lake, peers
from bench.calve_run import calve_run
from bench.measure import Figures, Results, parser, ratio, take_turns
from bench.report import Report
from kit.debezium_events import lives
from services.kafka import STEADY, Kafka

TOPIC = "changes"
PARTITIONS = 4
MODES = ("merge-on-read", "equality-delete", "copy-on-write")
SUMS = "count(*); sum(id); sum(n); sum(length(name) + length(note)); CAST(sum(amount) AS LONG); count(at)"
COLUMNS = "id BIGINT, n BIGINT, name STRING, amount DOUBLE, `at` STRING, note STRING, PRIMARY KEY (id) NOT ENFORCED"
UPSERT = "'format-version'='2', 'write.upsert.enabled'='true'"
YAML = """
bench:
  source:
    kafka:
      bootstrap_servers: ["{address}"]
      topics: [{{name: changes, serde_format: debezium}}]
  sink:
    - iceberg:
        table_identifier: bench.rows
        auto_create: true
        identifier_columns: [id]
        write_mode: {mode}
        commit_interval: 10s
        max_batch_bytes: 256mb
"""


class Changes:
    """Debezium envelopes of changes of few keys, and what they leave.

    Attributes:
        rows: By key, its row as JSON.
    """

    def __init__(self, count: int, keys: int) -> None:
        self.count = count
        self.rows: dict[int, str] = {}
        self._keys = keys

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        """Yield a key and its change."""
        for number, key, before, after in lives(self.count, self._keys, random.Random(7), row):
            word = "d" if after is None else "u" if before else "c"
            if after is None:
                del self.rows[key]
            else:
                self.rows[key] = after
            ends = f'"before":{before or "null"},"after":{after or "null"}'
            yield key, f'{{{ends},"op":"{word}","ts_ms":{1767225600000 + number}}}'.encode()


def sums(texts: Iterable[str]) -> list[int]:
    """Return what `SUMS` are over rows."""
    total = [0] * 6
    for one in map(json.loads, texts):
        each = (1, one["id"], one["n"], len(one["name"]) + len(one["note"]), one["amount"], 1)
        total = [one + other for one, other in zip(total, each, strict=True)]
    return [int(one) for one in total]


def row(key: int, number: int) -> str:
    """Return a row as JSON, about 150 bytes."""
    at = f"2026-03-{number % 18 + 10}T{number % 14 + 10}:00:00Z"
    return (
        f'{{"id":{key},"n":{number},"name":"customer {key % 1000}","amount":{number % 9973}.25,'
        f'"at":"{at}","note":"{"x" * (number % 40 + 20)}"}}'
    )


def produce(broker: Kafka, changes: Changes) -> None:
    """Fill the topic: a partition for each remainder of the key."""
    parts: list[list[bytes]] = [[] for _ in range(PARTITIONS)]
    for key, value in changes:
        parts[key % PARTITIONS].append(value)
    for number, part in enumerate(parts):
        broker.produce(TOPIC, part, partitions=[number])


def check(table: Path, rows: Iterable[str]) -> float:
    """Compare a table, read by Spark, with rows; return the seconds of a full read, warm."""
    found = lake.read_by_spark(table, SUMS)
    if found["sums"] != (expected := sums(rows)):
        raise SystemExit(f"wrong output: {SUMS} are {found['sums']} instead of {expected}")
    return float(found["seconds"])


def reads(folder: Path, rows: Iterable[str]) -> Figures:
    """Return the seconds of full reads of a table of Calve's, once converted, and once compacted."""
    found: Figures = {}
    for name, step in {"converted, read s": "convert", "compacted, read s": "compact"}.items():
        lake.output(["-m", "calve", "maintain", "bench.rows", "--only", step], folder)
        found[name] = check(folder / "lakehouse" / "bench" / "rows", rows)
    return found


def run(who: str, broker: Kafka, folder: Path, changes: Changes, home: Path | None) -> Figures:
    """Apply the topic, and check the table."""
    if who in MODES:
        found = calve_run(folder, YAML.format(address=broker.address, mode=who), changes.count)
    else:
        assert home
        names = {"table": "rows", "columns": COLUMNS, "format": "debezium-json", "properties": UPSERT}
        sql = peers.FLINK_SQL.format(folder=folder, topic=TOPIC, address=broker.address, **names)
        found = peers.flink(home, sql, folder, changes.count)
    return found | {"read s": check(folder / "lakehouse" / "bench" / "rows", changes.rows.values())}


def compare(results: Results) -> Report:
    """Compare with the targets."""
    report = Report("upserts", "Debezium's changes into an Iceberg table")
    if "flink" in results and MODES[0] in results:
        report.target("times the rate of Flink", ratio(results, "events/s", MODES[0], "flink"), least=3)
    if {*MODES[:2]} <= results.keys():
        report.target("times the CPU of equality deletes", ratio(results, "CPU s/M", *MODES[:2]), most=1.4)
    return report


def main() -> None:
    options = parser(__doc__, 1_000_000, 2)
    options.add_argument("--keys", type=int, help="how many rows are changed (default: half of the events)")
    options.add_argument("--modes", nargs="+", choices=(*MODES, "all"), default=[MODES[0]], help="of Calve")
    options.add_argument("--reads", action="store_true", help="time full reads after maintenance, too")
    options.add_argument("--flink", action="store_true", help="download Flink (310 MB) where it is not there yet")
    chosen = options.parse_args()
    changes = Changes(chosen.events, chosen.keys or chosen.events // 2)
    home = peers.flink_home(chosen.flink)
    if not home:
        print("Flink is not there: give --flink to download it (310 MB)")
    names = [*(MODES if "all" in chosen.modes else chosen.modes), *(["flink"] if home else [])]
    with (
        tempfile.TemporaryDirectory(prefix="calve-bench-") as place,
        Kafka(Path(place) / "kafka", options=STEADY) as broker,
    ):
        broker.create_topic(TOPIC, partitions=PARTITIONS)
        produce(broker, changes)

        def turn(name: str, number: int) -> Figures:
            folder = Path(place) / f"{name}-{number}"
            found = run(name, broker, folder, changes, home)
            more = chosen.reads and name == MODES[0]
            return found | (reads(folder, changes.rows.values()) if more else {})

        runs: dict[str, Callable[[int], Figures]] = {name: partial(turn, name) for name in names}
        results = take_turns(runs, chosen.rounds)
    compare(results).bars(results, "events/s")


if __name__ == "__main__":
    main()

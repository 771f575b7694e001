"""A topic of ordinary events with hostile ones of every kind among them: each is a row or a dead letter, nothing stops.

    make bench-hostile BENCH="--events 1000000 --hostile 1000"

Calve reads the topic once from a real Kafka broker, with `auto_create` and `schema_evolution`. Checked: exit code 0,
every ordinary event is a row once, every hostile one a row or a dead letter, and PyIceberg reads the table.
"""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from bench.kafka import TOPIC, YAML
from bench.made_events import Events
from bench.measure import measured, parser, shown
from kit.hostile_events import FIRST_ID, hostile_event
from kit.running import Calve
from services.kafka import STEADY, Kafka


def mixed(ordinary: int, hostile: int) -> Iterator[bytes]:
    """Return the ordinary events with the hostile ones spread among them."""
    every, made = max(ordinary // hostile, 1), 0
    for number, event in enumerate(Events(ordinary)):
        if number % every == 0 and made < hostile:
            yield hostile_event(made)
            made += 1
        yield event


def main() -> None:
    options = parser(__doc__, 1_000_000, 1)
    options.add_argument("--hostile", type=int, default=1_000)
    chosen = options.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="calve-bench-") as place,
        Kafka(Path(place) / "kafka", options=STEADY) as broker,
    ):
        broker.create_topic(TOPIC, partitions=4)
        broker.produce(TOPIC, mixed(chosen.events, chosen.hostile), partitions=range(4))
        calve = Calve(
            Path(place) / "calve",
            YAML.format(address=broker.address, topic=TOPIC, table="bench.events", more="max_batch_bytes: 64mb"),
        )
        with measured(chosen.events) as found:
            code = calve.start("--once").wait(3600)
        print(calve.said())
        _check(calve, chosen.events, chosen.hostile, code)
        print(", ".join(f"{shown(value)} {key}" for key, value in found.items()))


def _check(calve: Calve, ordinary: int, hostile: int, code: int) -> None:
    ids = Counter(calve.rows("bench.events")["id"].to_pylist())
    rows = sum(count for id, count in ids.items() if id is None or id >= FIRST_ID)
    letters = list(calve.dead_letters(TOPIC))
    codes = Counter(letter["code"] for letter in letters)
    print(f"exit code {code}; hostile events: {rows} rows, {len(letters)} dead letters {json.dumps(codes)}")
    lost = ordinary - sum(1 for id, count in ids.items() if id is not None and id < FIRST_ID and count == 1)
    if code or lost or rows + len(letters) != hostile:
        raise SystemExit(f"{lost} ordinary events lost or duplicated; {rows + len(letters)} of {hostile} hostile ones")
    print(
        f"all {ordinary:,} ordinary events are rows, once each; all {hostile:,} hostile ones are rows or dead letters"
    )


if __name__ == "__main__":
    main()

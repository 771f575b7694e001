"""A table of a compacted topic has the newest value of each key, wherever the process died."""

from __future__ import annotations

import json
import random

import pytest

POINTS = ("ledger.after-begin", "commit.after-swap")
"""A batch that is read again, perhaps after its topic was compacted, and one that is committed already."""
YAML = """
tables:
  source:
    kafka:
      bootstrap_servers: ["{address}"]
      topics: [{{name: upserts}}]
  sink:
    - iceberg: {{table_identifier: crash.upserts, auto_create: true, identifier_columns: from_key, key_column: id}}
"""


@pytest.mark.services
@pytest.mark.spark
def test_each_key_has_its_newest_value_wherever_the_process_died(kafka_broker, doomed) -> None:
    kafka_broker.create_topic("upserts", partitions=2, **{"cleanup.policy": "compact"})
    calve, newest = doomed(YAML.format(address=kafka_broker.address)), {}
    for number, point in enumerate([*POINTS, ""]):
        chance = random.Random(number)
        changes = [(f"k{chance.randrange(40)}", chance.choice([number, number, None])) for _ in range(100)]
        newest |= dict(changes) | {"kept": number}
        values = [None if value is None else json.dumps({"value": value}) for _, value in changes]
        keys = [key for key, _ in changes]
        kafka_broker.produce("upserts", [*values, json.dumps({"value": number})], keys=[*keys, "kept"])
        if point:
            calve.killed_at(point)
    assert calve.once() == 0, calve.said()[-1500:]
    rows = {row["id"]: row["value"] for row in calve.rows("crash.upserts").to_pylist()}
    assert rows == {key: value for key, value in newest.items() if value is not None}
    assert calve.rows("crash.upserts").num_rows == len(rows)
    assert calve.dead_letters("tables") == []

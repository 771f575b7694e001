"""Wherever the process dies: the index is what the events say, each dead letter is there once."""

from __future__ import annotations

import json
import os
import random
from collections import Counter
from typing import Any

import pytest

from services.opensearch import OpenSearch

KILLS = int(os.environ.get("CALVE_OPENSEARCH_KILLS", "1"))
POINTS = ("pipeline.after-stage",)
"""The batch is durable and nothing is left to commit; `test_stop_points` has the others."""
YAML = """
log:
  source:
    file: {{path: "in/*.ndjson"}}
  sink:
    - opensearch:
        hosts: ["{address}"]
        index: crash-log
        template_content: {{mappings: {{properties: {{n: {{type: integer}}}}}}}}
        bulk_size: 1
state:
  source:
    file: {{path: "in/*.ndjson"}}
  sink:
    - opensearch:
        hosts: ["{address}"]
        index: crash-state
        document_id: "${{/key}}"
        action: "${{/do}}"
        exclude_keys: [n]
        max_batch_bytes: 200kb
"""


@pytest.mark.crash
@pytest.mark.spark
@pytest.mark.services
def test_an_index_equals_its_events_wherever_the_process_died(opensearch: OpenSearch, doomed) -> None:
    calve = doomed(YAML.format(address=opensearch.address))
    oracle: dict[str, Any] = {}
    sizes = [60] * len(POINTS) + [3000] * KILLS
    for file, size in enumerate(sizes):
        calve.feed(file, events(file, size, oracle))
        if file < len(POINTS):
            calve.killed_at(POINTS[file])  # documents that were sent behind it are sent again under their ids
        else:
            before = opensearch.count("crash-log")
            calve.start()
            calve.until(
                lambda before=before: opensearch.count("crash-log") > before, "documents of the batch are there"
            )
            calve.kill()
    assert calve.once() == 0, calve.said()[-1500:]
    good = [(file, i) for file, size in enumerate(sizes) for i in range(size) if i % 20 != 7]
    assert Counter((one["file"], one["i"]) for one in opensearch.documents("crash-log").values()) == Counter(good)
    rejected = Counter((one["file"], one["i"]) for one in (json.loads(e["event"]) for e in calve.dead_letters("log")))
    assert rejected == Counter((file, i) for file, size in enumerate(sizes) for i in range(size) if i % 20 == 7)
    assert opensearch.documents("crash-state") == oracle


def events(file: int, count: int, oracle: dict[str, Any]) -> list[dict[str, Any]]:
    """Make up events: each twentieth does not fit `crash-log`; `do` and `key` are changes of `crash-state`."""
    chance = random.Random(file)
    made = []
    for i in range(count):
        event = {"file": file, "i": i, "n": "bad" if i % 20 == 7 else i, "key": f"k{chance.randrange(40)}"}
        event["do"] = chance.choice(("index", "upsert", "delete"))
        made.append(event)
        fields = {name: value for name, value in event.items() if name != "n"}
        if event["do"] == "delete":
            oracle.pop(event["key"], None)
        else:
            oracle[event["key"]] = (oracle.get(event["key"], {}) if event["do"] == "upsert" else {}) | fields
    return made

"""Wherever the process dies: the index is what the events say, each dead letter is there once."""

from __future__ import annotations

import json
import os
import random
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from calve.stop_point import VARIABLE
from running import Calve
from services.opensearch import OpenSearch

KILLS = int(os.environ.get("CALVE_OPENSEARCH_KILLS", "2"))
POINTS = (
    "ledger.after-begin",
    "ledger.before-stage",
    "pipeline.after-stage",
    "pipeline.after-publish",
    "ledger.before-committed",
)
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
def test_an_index_equals_its_events_wherever_the_process_died(
    opensearch: OpenSearch, spark: SparkSession, tmp_path: Path
) -> None:
    chance = random.Random()
    calve = Calve(tmp_path, YAML.format(address=opensearch.address), spark)
    oracle: dict[str, Any] = {}
    files = 0
    try:
        for point in POINTS:
            write(tmp_path / "in", files, 60, oracle)
            files += 1
            code = calve.start("--once", "--give-up-after", "2s", environment={VARIABLE: point}).wait(120)
            assert code != 0, f"{point} was never reached: {calve.said()[-1500:]}"
        for _ in range(KILLS):
            write(tmp_path / "in", files, 3000, oracle)
            files += 1
            calve.start()
            time.sleep(chance.uniform(4, 12))  # start-up takes about half of it: kills fall anywhere
            calve.kill()
        assert calve.once() == 0, calve.said()[-1500:]
    finally:
        calve.end()
    sizes = [60] * len(POINTS) + [3000] * KILLS
    good = [(file, i) for file, size in enumerate(sizes) for i in range(size) if i % 20 != 7]
    assert Counter((one["file"], one["i"]) for one in opensearch.documents("crash-log").values()) == Counter(good)
    rejected = Counter((one["file"], one["i"]) for one in (json.loads(e["event"]) for e in calve.dead_letters("log")))
    assert rejected == Counter((file, i) for file, size in enumerate(sizes) for i in range(size) if i % 20 == 7)
    assert opensearch.documents("crash-state") == oracle


def write(folder: Path, file: int, count: int, oracle: dict[str, Any]) -> None:
    """A file of events: each twentieth does not fit `crash-log`; `do` and `key` are changes of `crash-state`."""
    folder.mkdir(exist_ok=True)
    chance = random.Random(file)
    events = []
    for i in range(count):
        event = {"file": file, "i": i, "n": "bad" if i % 20 == 7 else i, "key": f"k{chance.randrange(40)}"}
        event["do"] = chance.choice(("index", "upsert", "delete"))
        events.append(event)
        fields = {name: value for name, value in event.items() if name != "n"}
        if event["do"] == "delete":
            oracle.pop(event["key"], None)
        else:
            oracle[event["key"]] = (oracle.get(event["key"], {}) if event["do"] == "upsert" else {}) | fields
    unfinished = folder / f".{file}"
    unfinished.write_text("".join(json.dumps(event) + "\n" for event in events))
    unfinished.rename(folder / f"{file:03}.ndjson")

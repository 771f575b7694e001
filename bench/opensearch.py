"""Files → OpenSearch: a pipeline's share of the speed of a bare loop over `_bulk`, the same documents, the same node.

    python bench/opensearch.py [--events 400000] [--runs 3] [--ids given]

The loop posts bodies that are ready in memory, 5 MiB each, over two connections; the pipeline reads files, checks and
routes their events, and writes over two tasks. Its time is that of its batches, Spark's part included, without the
start of the process. The two take turns, each into a fresh index; the first pass warms the node and does not count.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import urllib3

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from kafka import busy_seconds, events
from running import Calve
from services.opensearch import OpenSearch

BODY_BYTES = 5 << 20
CONNECTIONS = 2
JVM = ("-Xms1g", "-Xmx1g", "-XX:+UseG1GC")
TEMPLATE = {
    "index_patterns": ["bench-*"],
    "settings": {"index.number_of_shards": 1, "index.number_of_replicas": 0, "index.refresh_interval": "30s"},
}
YAML = """
bench:
  source:
    file: {{path: "{folder}/*.ndjson"}}
  sink:
    - opensearch: {{hosts: ["{address}"], index: "{index}"{more}}}
"""


def raw(node: OpenSearch, index: str, bodies: Sequence[bytes]) -> tuple[float, float]:
    """Post ready bodies; give seconds and CPU seconds of the machine."""
    todo = iter(bodies)
    lock = threading.Lock()

    def work() -> None:
        pool = urllib3.connection_from_url(node.address)
        while True:
            with lock:
                body = next(todo, None)
            if body is None:
                return
            answer = pool.urlopen(
                "POST", f"/{index}/_bulk?filter_path=errors", body, {"content-type": "application/x-ndjson"}
            )
            if answer.data != b'{"errors":false}':
                raise SystemExit(answer.data[:500])

    threads = [threading.Thread(target=work) for _ in range(CONNECTIONS)]
    busy, started = busy_seconds(), time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return time.monotonic() - started, busy_seconds() - busy


def pipeline(node: OpenSearch, index: str, data: Path, place: Path, more: str) -> tuple[float, float]:
    """Run a pipeline once; give the seconds of its batches, and CPU seconds of the machine, start-up included."""
    calve = Calve(place, YAML.format(folder=data, address=node.address, index=index, more=more))
    busy = busy_seconds()
    code = calve.start("--once", "--json", "--debug").wait(1800)
    busy = busy_seconds() - busy
    if code:
        raise SystemExit(calve.said()[-3000:])
    return sum(map(float, re.findall(r"events in ([0-9.]+) s, of all tasks", calve.said()))), busy


def bodies(lines: Sequence[bytes], ids: str) -> list[bytes]:
    """Make bodies of about 5 MiB; with ids that OpenSearch chooses, or with the documents' own."""
    made, block, size = [], [], 0
    for number, line in enumerate(lines):
        head = b'{"index":{}}' if ids == "none" else b'{"index":{"_id":"%d"}}' % number
        block.append(head + b"\n" + line + b"\n")
        size += len(block[-1])
        if size >= BODY_BYTES:
            made.append(b"".join(block))
            block, size = [], 0
    return [*made, b"".join(block)] if block else made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=400_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument(
        "--ids", choices=("none", "given"), default="none", help="does an event have its document's id?"
    )
    chosen = parser.parse_args()
    lines = list(events(chosen.events, 1))
    ready = bodies(lines, chosen.ids)
    more = ', document_id: "${/id}"' if chosen.ids == "given" else ""
    shares: list[float] = []
    with tempfile.TemporaryDirectory(prefix="calve-bench-") as name, OpenSearch(Path(name) / "node", JVM) as node:
        place = Path(name)
        (place / "data").mkdir()
        for part in range(4):
            step = -(-len(lines) // 4)
            (place / "data" / f"{part}.ndjson").write_bytes(b"\n".join(lines[part * step : (part + 1) * step]) + b"\n")
        node.call("PUT", "_template/bench", TEMPLATE)
        for run in range(chosen.runs + 1):
            seconds, cpu = raw(node, f"bench-raw-{run}", ready)
            ours, our_cpu = pipeline(node, f"bench-calve-{run}", place / "data", place / f"run-{run}", more)
            for index in (f"bench-raw-{run}", f"bench-calve-{run}"):
                if node.count(index) != chosen.events:
                    raise SystemExit(f"{index} has {node.count(index)} documents instead of {chosen.events}")
                node.call("DELETE", index)
            found = {
                "raw": round(chosen.events / seconds),
                "calve": round(chosen.events / ours),
                "share": seconds / ours,
            }
            print(json.dumps({"run": run, **found, "cpu": [round(cpu, 1), round(our_cpu, 1)]}), flush=True)
            if run:
                shares.append(seconds / ours)
    print(f"share of the loop's speed: {statistics.median(shares):.0%}")


if __name__ == "__main__":
    main()

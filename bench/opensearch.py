"""Into OpenSearch: what a task of a pipeline reaches of the speed of a bare loop over `_bulk`.

    python bench/opensearch.py [--blocks 12] [--ids none]

Blocks of 60,000 events, several requests each, in memory for both, go to one node in turns, over two connections: the
loop posts bodies that are ready; the tasks check that each event is a JSON object, route it, make the lines, send
them and look at the answers. Each has its index. Whatever else the machine does meets both alike, as they take turns
every second or so; the first quarter of the blocks warms the node and does not count. CPU seconds are those of the
node, and of this process.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import urllib3

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from calve.pipeline.layout import Layout
from calve.pipeline.plugins import PLUGINS
from calve.pipeline.task import run_task
from calve.settings import parse_text
from calve.sources.source import Split
from kafka import events
from services.opensearch import OpenSearch

BLOCK = 60_000
BODY_BYTES = 5 << 20
TICKS = os.sysconf("SC_CLK_TCK")
JVM = ("-Xms1g", "-Xmx1g", "-XX:+UseG1GC")
TEMPLATE = {
    "index_patterns": ["bench-*"],
    "settings": {"index.number_of_shards": 1, "index.number_of_replicas": 0, "index.refresh_interval": "30s"},
}
YAML = """
bench:
  source:
    file: {{path: "*.ndjson"}}
  sink:
    - opensearch: {{hosts: ["{address}"], index: bench-calve{more}}}
"""


@dataclasses.dataclass(frozen=True)
class Memory:
    """A reader of events that are there."""

    batch: pa.RecordBatch

    def read(self, split: Split) -> Iterator[pa.RecordBatch]:
        """Yield them."""
        yield self.batch


def raw(pool: urllib3.HTTPConnectionPool, bodies: Sequence[bytes]) -> None:
    """Post ready bodies."""
    for body in bodies:
        answer = pool.urlopen(
            "POST", "/bench-raw/_bulk?filter_path=errors", body, {"content-type": "application/x-ndjson"}
        )
        if answer.data != b'{"errors":false}':
            raise SystemExit(answer.data[:500])


def bodies_of(lines: Sequence[bytes], first: int, ids: str) -> list[bytes]:
    """Make bodies of about 5 MiB; with ids that OpenSearch chooses, or with the documents' own."""
    made, block, size = [], [], 0
    for number, line in enumerate(lines, first):
        head = b'{"index":{}}' if ids == "none" else b'{"index":{"_id":"%d"}}' % number
        block.append(head + b"\n" + line + b"\n")
        size += len(block[-1])
        if size >= BODY_BYTES:
            made.append(b"".join(block))
            block, size = [], 0
    return [*made, b"".join(block)] if block else made


def cpu(node: OpenSearch) -> tuple[float, float]:
    """Give the CPU seconds so far of the node, and of this process."""
    user, system = Path(f"/proc/{node.pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / TICKS, time.process_time()


def timed(node: OpenSearch, work: Callable[[int], object]) -> tuple[float, float, float]:
    """Do both halves side by side; give the seconds, and CPU seconds of the node and of this process."""
    before, started = cpu(node), time.monotonic()
    with ThreadPoolExecutor(2) as threads:
        list(threads.map(work, range(2)))
    seconds, after = time.monotonic() - started, cpu(node)
    return seconds, after[0] - before[0], after[1] - before[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--blocks", type=int, default=12)
    parser.add_argument(
        "--ids", choices=("none", "given"), default="given", help="does an event have its document's id?"
    )
    chosen = parser.parse_args()
    lines = list(events(BLOCK * chosen.blocks, 1))
    found: dict[str, list[tuple[float, float, float]]] = {"raw": [], "calve": []}
    with tempfile.TemporaryDirectory(prefix="calve-bench-") as name, OpenSearch(Path(name) / "node", JVM) as node:
        node.call("PUT", "_template/bench", TEMPLATE)
        more = ', document_id: "${/id}"' if chosen.ids == "given" else ""
        settings = parse_text(YAML.format(address=node.address, more=more), PLUGINS).pipelines[0]
        layout = Layout(settings, Path(name), lambda properties: ("", None))  # type: ignore[arg-type,return-value]
        pools = [urllib3.connection_from_url(node.address) for _ in range(2)]
        for number in range(chosen.blocks):
            block = lines[number * BLOCK : (number + 1) * BLOCK]
            halves = [block[: BLOCK // 2], block[BLOCK // 2 :]]
            ready = [bodies_of(half, number * BLOCK + at * BLOCK // 2, chosen.ids) for at, half in enumerate(halves)]
            job = layout.job("12345678", number, int(time.time() * 10) + number, 0, None)
            jobs = [
                dataclasses.replace(
                    job, reader=Memory(pa.record_batch({"event": pa.array(half, pa.binary())})), places=[[0], [1]]
                )
                for half in halves
            ]

            def ours(at: int, jobs=jobs) -> None:
                receipt = run_task(jobs[at], [Split({})], at)
                if [one["rows"] for one in receipt.get("documents", ())] != [BLOCK // 2]:
                    raise SystemExit(str(receipt)[:500])

            turns = {"raw": lambda at, ready=ready: raw(pools[at], ready[at]), "calve": ours}
            for who in ("raw", "calve") if number % 2 else ("calve", "raw"):
                found[who].append(timed(node, turns[who]))
        counts = {node.count("bench-raw"), node.count("bench-calve")}
    if counts != {len(lines)}:
        raise SystemExit(f"{counts} documents instead of {len(lines)}")
    counted = {who: one[chosen.blocks // 4 :] for who, one in found.items()}
    for who, one in counted.items():
        seconds, server, client = (statistics.median(column) for column in zip(*one, strict=True))
        print(
            f"{who:6} {BLOCK / seconds:8,.0f} documents/s · CPU seconds per million: "
            f"node {server / BLOCK * 1e6:.1f}, client {client / BLOCK * 1e6:.1f}"
        )
    pairs = zip(counted["raw"], counted["calve"], strict=True)
    share = statistics.median(raw_[0] / calve[0] for raw_, calve in pairs)
    print(f"share of the loop's speed: {share:.0%} (median of {len(counted['raw'])} pairs of blocks)")


if __name__ == "__main__":
    main()

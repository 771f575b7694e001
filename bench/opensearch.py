"""Into OpenSearch: what a task of a pipeline reaches of the speed of a bare loop over `_bulk`.

    make bench-opensearch BENCH="--rounds 12 --ids none"

Each round a block of 60,000 events, which is in memory, goes to one node over two connections, once by the loop and
once by the tasks. The loop posts bodies that are ready; the tasks check that each event is a JSON object, route it,
make the lines, send them and look at the answers. Each has its index. The first quarter of the rounds warms the node
and does not count. CPU seconds are those of the node, and of this process.
"""

from __future__ import annotations

import dataclasses
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import urllib3

from bench.made_events import Events
from bench.measure import Figures, parser, ratio, take_turns
from bench.report import Report
from calve.pipeline.pipeline_parts import PipelineParts
from calve.pipeline.plugins import PLUGINS
from calve.record.receipt import Failure
from calve.settings import parse_text
from calve.sources.source import Split
from calve.state.local_folder import LocalFolder
from calve.task.task import run_task
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
    """Return the CPU seconds so far of the node, and of this process."""
    user, system = Path(f"/proc/{node.pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / TICKS, time.process_time()


def timed(node: OpenSearch, work: Callable[[int], object]) -> Figures:
    """Do both halves side by side; return the rate, and CPU seconds of the node and of this process."""
    before, started = cpu(node), time.monotonic()
    with ThreadPoolExecutor(2) as threads:
        list(threads.map(work, range(2)))
    seconds, after = time.monotonic() - started, cpu(node)
    server, client = ((end - start) / BLOCK * 1e6 for end, start in zip(after, before, strict=True))
    return {"documents/s": BLOCK / seconds, "node CPU s/M": server, "client CPU s/M": client}


@dataclasses.dataclass
class Rivals:
    """The loop and the tasks; each takes the block of a round.

    Attributes:
        node: Where both send.
        lines: The events.
        ids: How documents get their ids, `none` or `given`.
        folder: Of the pipeline's state.
    """

    node: OpenSearch
    lines: list[bytes]
    ids: str
    folder: Path

    def __post_init__(self) -> None:
        more = ', document_id: "${/id}"' if self.ids == "given" else ""
        settings = parse_text(YAML.format(address=self.node.address, more=more), PLUGINS).pipelines[0]
        self.parts = PipelineParts(settings, LocalFolder(self.folder), lambda properties: ("", None))  # type: ignore[arg-type,return-value]
        self.pools = [urllib3.connection_from_url(self.node.address) for _ in range(2)]

    def loop(self, number: int) -> Figures:
        """Post ready bodies."""
        halves = self._halves(number)
        ready = [bodies_of(half, number * BLOCK + at * BLOCK // 2, self.ids) for at, half in enumerate(halves)]
        return timed(self.node, lambda at: raw(self.pools[at], ready[at]))

    def calve(self, number: int) -> Figures:
        """Run the tasks of a batch."""
        job = self.parts.job("12345678", number, int(time.time() * 10) + number, 0, None)
        batches = [pa.record_batch({"event": pa.array(half, pa.binary())}) for half in self._halves(number)]
        jobs = [dataclasses.replace(job, reader=Memory(one), split_numbers=[[0], [1]]) for one in batches]

        def task(at: int) -> None:
            receipt = run_task(jobs[at], [Split({})], at)
            if isinstance(receipt, Failure) or [one.rows for one in receipt.documents] != [BLOCK // 2]:
                raise SystemExit(str(receipt)[:500])

        return timed(self.node, task)

    def _halves(self, number: int) -> list[list[bytes]]:
        starts = (number * BLOCK, number * BLOCK + BLOCK // 2)
        return [self.lines[start : start + BLOCK // 2] for start in starts]


def main() -> None:
    options = parser(__doc__, rounds=12)
    given = "does an event have its document's id?"
    options.add_argument("--ids", choices=("none", "given"), default="given", help=given)
    chosen = options.parse_args()
    lines = list(Events(BLOCK * chosen.rounds))
    with tempfile.TemporaryDirectory(prefix="calve-bench-") as name, OpenSearch(Path(name) / "node", JVM) as node:
        node.call("PUT", "_template/bench", TEMPLATE)
        rivals = Rivals(node, lines, chosen.ids, Path(name))
        results = take_turns({"loop": rivals.loop, "calve": rivals.calve}, chosen.rounds)
        counts = {node.count("bench-raw"), node.count("bench-calve")}
    if counts != {len(lines)}:
        raise SystemExit(f"{counts} documents instead of {len(lines)}")
    results = {who: one[chosen.rounds // 4 :] for who, one in results.items()}
    report = Report("opensearch", f"Into OpenSearch, ids {chosen.ids}")
    report.target("share of the loop's speed", ratio(results, "documents/s", "calve", "loop"))
    report.bars(results, "documents/s")


if __name__ == "__main__":
    main()

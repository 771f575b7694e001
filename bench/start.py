"""What a run costs beside its events: from the start of `calve run` to the first batch that is written, and to its end.

    make bench-start BENCH="--rounds 10 --against ../before/src"

A file of ten events into a new table, which is all a run can do in little; every run a process of its own, in a folder
of its own. `--against` names the sources of another version of Calve (a checkout's `src`), which takes turns with this
one. CPU seconds are those of all processes of the run: of a busy machine, trust these and the ratios.
"""

from __future__ import annotations

import json
import tempfile
import time
from datetime import datetime
from functools import partial
from pathlib import Path

from bench.measure import CPU, Figures, medians, parser, ratio, take_turns
from bench.report import Report
from kit.running import Calve

MOST_SECONDS = 2.5
"""From the start to the first written batch, on a machine without other work."""
HERE, OTHER = "this version", "the other"
WRITTEN, CPU_SECONDS = "s until written", "CPU s"
SOURCES = Path(__file__).resolve().parents[1] / "src"
EVENTS = "".join(f'{{"id": {number}, "name": "n{number}"}}\n' for number in range(10))
PLAIN = "{table_identifier: bench.events, auto_create: true}"
KEYED = "{table_identifier: bench.events, auto_create: true, operation: upsert, identifier_columns: [id]}"


def run(folder: Path, sources: Path, table: str, number: int) -> Figures:
    """Run a pipeline once; return its seconds until the first batch is written and in all, and its CPU seconds."""
    yaml = f"bench:\n  source: {{file: {{path: '*.ndjson'}}}}\n  sink: [{{iceberg: {table}}}]\n"
    calve = Calve(folder / str(number), yaml)
    (calve.folder / "events.ndjson").write_text(EVENTS)
    used, started = CPU.seconds(), time.time()
    try:
        code = calve.start("--once", "--json", "--debug", environment={"PYTHONPATH": str(sources)}).wait()
        ended = time.time()
    finally:
        calve.end()
    if code:
        raise SystemExit(calve.said()[-3000:])
    entries = [json.loads(line) for line in calve.said().splitlines() if line.startswith("{")]
    written = next(datetime.fromisoformat(one["time"]).timestamp() for one in entries if "steps" in one)
    return {WRITTEN: written - started, "s in all": ended - started, CPU_SECONDS: CPU.seconds() - used}


def main() -> None:
    """Run the versions in turns, report the medians, and of two versions the ratios."""
    made = parser(__doc__, rounds=7)
    made.add_argument("--against", type=Path, help="sources of another version of Calve, which takes turns")
    made.add_argument("--upsert", action="store_true", help="the table has a key, and changes are applied")
    given = made.parse_args()
    versions = {HERE: SOURCES} | ({OTHER: given.against.resolve()} if given.against else {})
    table = KEYED if given.upsert else PLAIN
    with tempfile.TemporaryDirectory(prefix="bench-start-") as name:
        folder = Path(name)
        contenders = {one: partial(run, folder / one, sources, table) for one, sources in versions.items()}
        results = take_turns(contenders, given.rounds)
    report = Report("start", "A start")
    report.target("seconds until the first batch is written", medians(results)[HERE][WRITTEN], most=MOST_SECONDS)
    if given.against:
        report.target("of the other's seconds until then", ratio(results, WRITTEN, HERE, OTHER))
        report.target("of the other's CPU seconds", ratio(results, CPU_SECONDS, HERE, OTHER))
    report.bars(results, WRITTEN)


if __name__ == "__main__":
    main()

"""What a job of Spark costs by itself: an empty one of two tasks, on workers that run already.

    make bench-job BENCH="--rounds 5 --jobs 100"

A batch is at least one such job. Calve's settings of the workers take turns with those of PySpark, each in a Spark of
its own: from the call in Python to the results there, and the CPU of Java and of the workers.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterable, Mapping
from functools import partial

from bench.measure import CPU, Figures, medians, parser, ratio, take_turns
from bench.report import Report
from calve.engine import session

MOST_MILLISECONDS = 40
WARM_UP_JOBS = 20
OURS, PLAIN = "Calve's workers", "PySpark's workers"
PLAIN_SETTINGS = {"spark.python.daemon.module": "pyspark.daemon", "spark.python.unix.domain.socket.enabled": "false"}
MILLISECONDS, CPU_MILLISECONDS = "ms", "CPU ms"


def same(items: Iterable[int]) -> Iterable[int]:
    """Return what came."""
    return items


def run(settings: Mapping[str, str], jobs: int, _: int) -> Figures:
    """Run jobs one after the other in a Spark of their own; return the time and the CPU of one, in milliseconds."""
    engine = session.start("local[2]", settings)
    try:
        for _ in range(WARM_UP_JOBS):
            engine.tasks.run(same, [1, 2])
        seconds, used = [], CPU.seconds()
        for _ in range(jobs):
            started = time.monotonic()
            engine.tasks.run(same, [1, 2])
            seconds.append(time.monotonic() - started)
        cpu = (CPU.seconds() - used) / jobs
    finally:
        session.stop(engine)
    return {
        MILLISECONDS: statistics.median(seconds) * 1e3,
        "fastest ms": min(seconds) * 1e3,
        CPU_MILLISECONDS: cpu * 1e3,
    }


def main() -> None:
    """Run both in turns, and report the medians and the ratios."""
    options = parser(__doc__, rounds=5)
    options.add_argument("--jobs", type=int, default=100, help="in each round, for each of the two")
    given = options.parse_args()
    contenders = {name: partial(run, conf, given.jobs) for name, conf in ((OURS, {}), (PLAIN, PLAIN_SETTINGS))}
    results = take_turns(contenders, given.rounds)
    report = Report("job", "An empty job of two tasks")
    report.target("milliseconds", medians(results)[OURS][MILLISECONDS], most=MOST_MILLISECONDS)
    report.target("of PySpark's milliseconds", ratio(results, MILLISECONDS, OURS, PLAIN))
    report.target("of PySpark's CPU", ratio(results, CPU_MILLISECONDS, OURS, PLAIN))
    report.bars(results, MILLISECONDS)


if __name__ == "__main__":
    main()

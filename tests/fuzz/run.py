"""Looks for events that stop a pipeline or lose a value: `python -m fuzz.run --seconds 600 --seed 1`, in `tests`.

Rounds are played one after the other in a process of their own, on one Spark session, so that a round which hangs or
kills its process is a finding too. A round with a finding is kept in a folder, with its events made as few as may be;
`--case FOLDER` plays it again, `--round N` one round of a seed. `--http` plays rounds of requests to the http source
instead, `--yaml` configurations, `--files` files, and `--servers` hostile servers; these rounds need no Spark.
`--upserts` plays commits with key indexes beside other writers. `--poison N` sends so many events of every reject code
among good ones through one pipeline.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import itertools
import json
import os
import queue
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fuzz import databases, files_play, http_play, server_play, upserts_play, work, yaml_play
from fuzz.check import Finding
from fuzz.mysql_dialect import MysqlDialect
from fuzz.poison import Poison
from fuzz.postgres_tables import PostgresDialect
from services.mysql import MARIADB, MYSQL, MySql
from services.postgres import Postgres

FOLDER = Path(__file__).parents[2] / "build" / "fuzz"
ROUND_SECONDS = 240.0
"""Without a report for so long a round hangs; making a finding's events fewer is a part of this."""
ROUNDS_OF_A_PROCESS = 80
TELL_SECONDS = 30.0
COUNTED = ("rounds", "batches", "events", "rows")
SERVERS: dict[str, Callable[[contextlib.ExitStack], databases.Dialect]] = {
    "postgres": lambda stack: PostgresDialect(stack.enter_context(Postgres())),
    "mysql": lambda stack: MysqlDialect(stack.enter_context(MySql(MYSQL))),
    "mariadb": lambda stack: MysqlDialect(stack.enter_context(MySql(MARIADB))),
}
"""The databases whose random tables are followed."""
STOPS = ("stop", "hang", "bug", "quarantine")
"""The kinds of findings where a pipeline did not do its work; all others are differences."""


def main() -> int:
    """Fuzz until the time is over; return 1 if anything was found."""
    asked = _arguments()
    sys.stdout.reconfigure(errors="backslashreplace")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    if asked.poison:
        return poison(asked)
    total = Total()
    print(f"fuzz: seed {asked.seed}, {asked.seconds:g} s; rounds with findings are kept in {asked.folder}", flush=True)
    first, end = asked.round or 0, time.monotonic() + asked.seconds
    if asked.http or asked.yaml or asked.files or asked.servers or asked.upserts or asked.databases is not None:
        with contextlib.ExitStack() as servers:
            return in_this_process(asked, first, end, servers)
    while time.monotonic() < end:
        first = watch(asked, first, end, total)
        if asked.round is not None or asked.case:
            break
    print(total.table())
    return 1 if total.findings else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", default="1")
    parser.add_argument("--folder", type=Path, default=FOLDER)
    parser.add_argument("--round", type=int, help="play only this round of the seed")
    parser.add_argument("--case", type=Path, help="play only the round that a folder keeps")
    parser.add_argument("--kafka", type=int, default=20, help="every so many rounds one reads from Kafka; 0: none")
    parser.add_argument("--http", action="store_true", help="send bytes to the http source")
    parser.add_argument("--yaml", action="store_true", help="validate changed configurations")
    parser.add_argument("--files", action="store_true", help="read files of all text formats, packed and cut off")
    parser.add_argument("--servers", action="store_true", help="let hostile servers answer the clients")
    parser.add_argument("--upserts", action="store_true", help="commit upserts with key indexes beside other writers")
    servers = {"nargs": "*", "choices": SERVERS, "metavar": "SERVER"}
    parser.add_argument("--databases", **servers, help="follow random tables of postgres, mysql and mariadb in turn")
    parser.add_argument("--poison", type=int, metavar="N", help="send N events of every reject code among good ones")
    return parser.parse_args()


def poison(asked: argparse.Namespace) -> int:
    """Send poison once; return 1 if anything was found."""
    folder = asked.folder / "poison"
    shutil.rmtree(folder, ignore_errors=True)
    sent = Poison(folder, asked.poison)
    sent.play()
    print(sent.line(), *(f"  {code} {count:,}" for code, count in sent.codes.most_common()), *sent.wrong, sep="\n")
    if not sent.wrong:
        shutil.rmtree(folder)
    return 1 if sent.wrong else 0


def in_this_process(asked: argparse.Namespace, first: int, end: float, servers: contextlib.ExitStack) -> int:
    """Play rounds of the http source, configurations, files, upserts or databases; return 1 if anything was found."""
    kind, of, counted = "http", http_play.of, ("clients", "requests", "bytes")
    if asked.yaml:
        kind, of, counted = "yaml", yaml_play.of, ("files", "valid", "refused")
    elif asked.files:
        kind, of, counted = "files", files_play.of, ("files", "events", "rejects")
    elif asked.servers:
        kind, of, counted = "servers", server_play.of, ("attacks", "errors")
    elif asked.upserts:
        stage = servers.enter_context(work.stage())
        kind, of, counted = "upserts", upserts_play.Upserts(stage.spark, stage.readers.duckdb).of, ("commits", "rows")
    elif asked.databases is not None:
        names = asked.databases or list(SERVERS)
        dialects = [SERVERS[name](servers) for name in names]
        kind, of = "-".join(names), functools.partial(databases.of_all, dialects)
        counted = ("statements", "rows", "refused", "stopped")
    total = Total(counted=("rounds", *counted))
    for number in [asked.round] if asked.round is not None else itertools.count(first):
        folder = _place(asked, number).with_name(f"{kind}-{asked.seed}-{number}")
        shutil.rmtree(folder, ignore_errors=True)
        counts, findings = of(asked.seed, number, folder)
        total.counts += counts + Counter(rounds=1)
        for finding in findings:
            total.add(finding, str(folder))
        if not findings:
            shutil.rmtree(folder, ignore_errors=True)
        total.tell()
        if time.monotonic() > end:
            break
    print(total.line(), *total.found(), sep="\n")
    return 1 if total.findings else 0


@dataclass
class Total:
    """What was found by now."""

    began: float = field(default_factory=time.monotonic)
    told: float = field(default_factory=time.monotonic)
    counts: Counter[str] = field(default_factory=Counter)
    codes: Counter[str] = field(default_factory=Counter)
    findings: dict[str, list[str]] = field(default_factory=dict)
    counted: tuple[str, ...] = COUNTED

    def take(self, report: dict[str, Any]) -> None:
        """Add the report of a round."""
        self.counts.update({"rounds": 1, **{name: report[name] for name in COUNTED[1:]}})
        self.counts["refused"] += bool(report["refused"])
        self.codes.update(report["codes"])
        for kind, what, text in report["findings"]:
            self.add(Finding(kind, what, text), report["kept"])

    def add(self, finding: Finding, kept: str) -> None:
        """Add a finding; print the first of those that say the same."""
        alike = f"{finding.kind}: {re.sub(r'[0-9]+', '#', finding.what)[:120]}"
        if alike not in self.findings:
            print(f"\nFOUND {alike} ({kept})\n  {finding.text[:3000]}\n", flush=True)
        self.findings.setdefault(alike, []).append(kept)

    def tell(self) -> None:
        """Print how far it is, now and then."""
        if time.monotonic() > self.told + TELL_SECONDS:
            self.told = time.monotonic()
            print(self.line(), flush=True)

    def line(self) -> str:
        """Return what is printed now and then."""
        counts = ", ".join(f"{self.counts[name]:,} {name}" for name in self.counted)
        codes = " ".join(f"{code} {count:,}" for code, count in self.codes.most_common())
        seconds = time.monotonic() - self.began
        letters = f"; dead letters: {codes or 'none'}" if self.counted is COUNTED else ""
        return f"{seconds:.0f} s: {counts}, {len(self.findings)} kinds of findings{letters}"

    def found(self) -> list[str]:
        """Return a line for each kind of finding, with the folder of the first."""
        return [f"  {len(kept):5} x {alike}\n          {kept[0]}" for alike, kept in self.findings.items()]

    def table(self) -> str:
        """Return what is printed at the end."""
        refused = f"{self.counts['refused']} rounds had options that do not go together"
        stops = sum(len(kept) for alike, kept in self.findings.items() if alike.startswith(STOPS))
        differences = sum(map(len, self.findings.values())) - stops
        return "\n".join([self.line(), refused, f"{stops} stops, {differences} differences", *self.found()])


def watch(asked: argparse.Namespace, first: int, end: float, total: Total) -> int:
    """Let a process play rounds from the `first` on, and take its reports; return the round to go on with."""
    now, heard = first, time.monotonic()
    with _worker(asked, first) as (process, lines):
        while time.monotonic() < end:
            total.tell()
            try:
                line = lines.get(timeout=1)
            except queue.Empty:
                if time.monotonic() < heard + ROUND_SECONDS:
                    continue
                total.add(Finding("hang", "a round did not end", ""), str(_place(asked, now)))
                return now + 1
            heard = time.monotonic()
            if line is None:
                code = process.wait()
                if code:
                    total.add(Finding("stop", f"the process ended with {code}", ""), str(_place(asked, now)))
                return now + 1 if code else now
            report = json.loads(line)
            total.take(report)
            now = report["round"] + 1
    return now


@contextlib.contextmanager
def _worker(asked: argparse.Namespace, first: int) -> Iterator[tuple[subprocess.Popen[str], queue.Queue[str | None]]]:
    plan = {"seed": asked.seed, "folder": str(asked.folder.absolute()), "first": first, "kafka": asked.kafka}
    plan |= {"case": str(asked.case.absolute()) if asked.case else "", "rounds": ROUNDS_OF_A_PROCESS}
    plan |= {"rounds": 1} if asked.case or asked.round is not None else {}
    command = [sys.executable, "-m", "fuzz.work", json.dumps(plan)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
    lines: queue.Queue[str | None] = queue.Queue()

    def read() -> None:
        assert process.stdout
        for line in process.stdout:
            lines.put(line)
        lines.put(None)

    threading.Thread(target=read, daemon=True).start()
    try:
        yield process, lines
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _place(asked: argparse.Namespace, number: int) -> Path:
    return Path(asked.folder).absolute() / f"{asked.seed}-{number}"


if __name__ == "__main__":
    sys.exit(main())

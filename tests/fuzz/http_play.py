"""Plays rounds of requests against the http source, and checks them: `make fuzz FUZZ=--http`.

A round is a receiver in a process of its own, and some clients at the same time. What must hold:

- The receiver never ends by itself; after the clients it answers a good request, and it stops when it is told to.
- All that it sends is HTTP, with the statuses that `docs/http.md` names; none is 500, and its log has no bug.
- A request that was answered 200 is kept exactly once, whole. With any other answer, or behind the last answer of a
  connection, nothing of it is kept. Of whoever leaves without an answer, a request that had arrived whole is kept once or
  not at all, and nothing of one that had not.
- Its memory does not grow beyond a bound.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from calve.sources.http import source
from calve.sources.http.reader import HEADERS
from calve.state.local_folder import LocalFolder
from fuzz.check import Finding
from fuzz.clients import Script, Talk, script, talk
from fuzz.messages import Maker, Rules
from fuzz.receiver import settings
from kit.running import PATIENCE_SECONDS

STATUSES = {200, 400, 401, 404, 405, 408, 413, 415, 431}
"""429 and 503 are in the documentation too, but no round reaches a limit or stops under its clients."""
CLIENTS = 12
BUGS = ("Traceback", "http request failed", "http server:", "log not")
STALL_SECONDS = 2.0
GROWN_KB = 64 << 10
"""What the receiver may need for the requests of a round, beyond 16 bodies of the greatest length."""


@dataclass(frozen=True)
class Round:
    """A receiver and its clients: always the same ones for a seed and a number."""

    options: dict[str, Any]
    scripts: list[Script]

    @property
    def maker(self) -> Maker:
        """Return what makes requests that this receiver understands."""
        return Maker(random.Random(1), Rules(*(self.options[name] for name in ("max_body", "packed", "secured"))))


@dataclass
class Kept:
    """The log of a round.

    Attributes:
        events: In order, with the header `X-Request` of their request.
        grown_kb: How much its memory grew.
    """

    events: list[tuple[str, Any]]
    grown_kb: int = 0


def make(seed: str, number: int) -> Round:
    """Return a round of a seed."""
    rnd = random.Random(f"http-{seed}-{number}")
    stalls = rnd.random() < 0.2
    options = {"max_body": rnd.choice([2_000, 50_000, 1 << 20]), "packed": rnd.random() < 0.2}
    options |= {"secured": rnd.random() < 0.3, "timeout": STALL_SECONDS if stalls else PATIENCE_SECONDS}
    maker = Maker(rnd, Rules(options["max_body"], options["packed"], options["secured"]))
    return Round(options, [script(rnd, maker, client, stalls) for client in range(CLIENTS)])


def of(seed: str, number: int, folder: Path) -> tuple[Counter[str], list[Finding]]:
    """Play a round of a seed; return what was counted, and what is wrong."""
    played = make(seed, number)
    findings = play(played, folder)
    counts = Counter(clients=len(played.scripts), requests=sum(len(plan.messages) for plan in played.scripts))
    return counts + Counter(bytes=sum(len(plan.data) for plan in played.scripts)), findings


def converse(address: tuple[str, int], played: Round) -> list[Talk]:
    """Let all clients talk at the same time, and then one more, whose request is good."""
    final = Script([played.maker.good("final")], b"", [], "half", [])
    with ThreadPoolExecutor(CLIENTS) as pool:
        talks = list(pool.map(lambda each: talk(address, each), played.scripts))
    played.scripts.append(final)
    return [*talks, talk(address, final)]


def play(played: Round, folder: Path) -> list[Finding]:
    """Play a round against a process of its own, and return what is wrong."""
    folder.mkdir(parents=True)
    log = folder / "receiver.log"
    command = [sys.executable, "-m", "fuzz.receiver", str(folder / "http"), json.dumps(played.options)]
    with log.open("wb") as lines:
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=lines, text=True)
    try:
        assert process.stdout
        try:
            talks = converse(("127.0.0.1", int(process.stdout.readline())), played)
            said = process.communicate(timeout=PATIENCE_SECONDS)[0]
        except (OSError, ValueError) as error:
            return [
                Finding("stop", "the receiver is gone", f"{error!r}, exit code {process.poll()}\n{log.read_text()}")
            ]
        except subprocess.TimeoutExpired:
            return [Finding("hang", "the receiver does not stop", log.read_text())]
    finally:
        process.kill()
        process.wait()
    if process.returncode:
        return [Finding("stop", f"the receiver ended with {process.returncode}", log.read_text())]
    kept = Kept(events(played, folder / "http"), **json.loads(said))
    return [*check(played, talks, kept), *in_log(log.read_text(errors="replace"))]


def events(played: Round, folder: Path) -> list[tuple[str, Any]]:
    """Read the log as a run does."""
    http = source.open(settings(played.options), LocalFolder(folder), "p")
    http.start(None, once=True)
    try:
        planned = http.plan(None, 1 << 40)
        batches = [batch for split in planned.splits for batch in http.reader.read(split)] if planned else []
    finally:
        http.stop()
    return [
        (headers["x-request"] or "", json.loads(event))
        for batch in batches
        for event, headers in zip(batch["event"].to_pylist(), batch[HEADERS].to_pylist(), strict=True)
    ]


def in_log(text: str) -> Iterator[Finding]:
    """Yield the bugs that the receiver logged."""
    found = [line for line in text.splitlines() if any(bug in line for bug in BUGS)]
    if found:
        yield Finding("bug", found[0][:200], text[-3000:])


def check(played: Round, talks: Sequence[Talk], kept: Kept) -> Iterator[Finding]:
    """Yield what is wrong with the answers and the log."""
    by_name: dict[str, list[Any]] = defaultdict(list)
    for name, event in kept.events:
        by_name[name].append(event)
    for number, (plan, got) in enumerate(zip(played.scripts, talks, strict=True)):
        where = f"client {number}, {plan.ending}: {got}\n{plan.data[:3000]!r}"
        yield from (Finding(kind, what, where) for kind, what in _answers(plan, got))
        yield from (Finding("count", what, where) for what in _log(plan, got, by_name))
    limit = GROWN_KB + 16 * played.options["max_body"] // 1024
    if kept.grown_kb > limit:
        yield Finding("bug", "the memory grew", f"{kept.grown_kb} kB, more than {limit} kB")


def _answers(plan: Script, got: Talk) -> Iterator[tuple[str, str]]:
    if got.hung:
        yield "hang", "a connection does not end"
    if got.wrong:
        yield "bug", f"what came back is not HTTP: {got.wrong[:80]}"
    if unknown := {answer.status for answer in got.answers} - STATUSES:
        yield "bug", f"answered with {sorted(unknown)}"
    for message, answer in zip(plan.messages, got.answers):
        late = {408} if plan.ending == "stall" else set[int]()
        if answer.status not in message.statuses | late:
            yield "value", f"answered with {answer.status} instead of {sorted(message.statuses)}"
    last = bool(got.answers) and got.answers[-1].closes
    if len(got.answers) < len(plan.messages) and not (last or plan.is_cut or got.lost or got.hung):
        yield "count", "a request was not answered"
    if got.lost and not (plan.rest or any(message.closes for message in plan.messages)):
        yield "stop", "a connection with good requests was reset"


def _log(plan: Script, got: Talk, by_name: dict[str, list[Any]]) -> Iterator[str]:
    sure, perhaps = Counter[str](), Counter[str]()
    may_be_lost = plan.is_cut or got.lost or got.hung
    open_end = may_be_lost and not (got.answers and got.answers[-1].closes)
    for index, message in enumerate(plan.messages):
        if index < len(got.answers):
            sure[message.name] += got.answers[index].status == 200
        else:
            perhaps[message.name] += open_end and not message.statuses - {200}
    for message in {each.name: each for each in plan.messages}.values():
        low, high = sure[message.name], sure[message.name] + perhaps[message.name]
        low, high = (min(low, 1), min(high, 1)) if message.key else (low, high)
        found = by_name.get(message.name, [])
        if message.events and found not in [message.events * times for times in range(low, high + 1)]:
            yield f"{len(found)} events of {len(message.events)} are kept, {low} to {high} times expected"
        if not message.events and found:
            yield "a request without events is kept"
    yield from _behind(plan, got, by_name, may_be_lost)


def _behind(plan: Script, got: Talk, by_name: dict[str, list[Any]], may_be_lost: bool) -> Iterator[str]:
    """Check requests of which nobody knows how the source understood them: it keeps no more than it says."""
    tail = [answer.status for answer in got.answers[len(plan.messages) :]].count(200)
    seen = 0
    for message in plan.after:
        seen += bool(found := by_name.get(message.name, []))
        if message.events and len(found) > len(message.events):
            yield "a request behind broken bytes is kept twice"
    if plan.partial and by_name.get(plan.partial):
        yield "a request that did not arrive whole is kept"
    if seen > tail and not may_be_lost:
        yield f"{seen} requests behind broken bytes are kept, and {tail} answered 200"

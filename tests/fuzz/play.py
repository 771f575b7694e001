"""Plays one round: real pipeline runs over batches of events, and then the checks."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import re
import shutil
import signal
import threading
import time
import traceback
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import Any

from click.testing import Result
from pyspark.sql import SparkSession

from fuzz.check import QUARANTINE, Finding, Round, Verdict
from fuzz.event import Event, deeply, parse_quietly
from fuzz.files import TYPED, content_of
from fuzz.generate import Field, Recipe
from fuzz.setups import PIPELINE, Setup, Sink
from fuzz.tables import Readers, letters
from kit.running import Calve
from services.kafka import Kafka
from services.process import free_ports

Batches = list[list[bytes]]
POSTED_EVENTS = 20
REFUSED = 2
ACCEPT_SECONDS = 20
_BUGS = re.compile(r"Traceback|bug in Calve", re.IGNORECASE)


@dataclass
class Played:
    """What became of a round; `refused`: its options do not go together."""

    verdict: Verdict
    events: int = 0
    batches: int = 0
    refused: str = ""


@dataclass
class Stage:
    """What rounds are played on."""

    spark: SparkSession
    readers: Readers
    kafka: Kafka | None = None


def play(stage: Stage, folder: Path, setup: Setup, batches: Batches) -> Played:
    """Play a round in a new folder, which keeps all that is needed to play it again."""
    shutil.rmtree(folder, ignore_errors=True)
    source, section = _source(stage, setup, folder)
    job = Calve(folder, json.dumps(setup.configuration(section), indent=2), stage.spark)
    save(folder, setup, batches)
    accepted: list[list[Event]] = []
    for number, batch in enumerate(batches):
        code, taken = source.run(job, number, batch)
        accepted.append([Event(text) for text in taken])
        said = job.said()
        if code == REFUSED:
            return Played(Verdict(), refused=said[-2000:])
        if code:
            found = Finding("stop", _fault(said), f"batch {number + 1}, exit code {code}: {said[-3000:]}")
            return Played(Verdict([found]))
    with deeply():
        verdict = _checked(stage, job, setup, accepted)
    if _BUGS.search(job.said()) and not verdict.codes[QUARANTINE]:
        verdict.add("bug", _fault(job.said()), job.said()[-3000:])
    return Played(verdict, sum(map(len, accepted)), len(accepted))


def _fault(said: str) -> str:
    """Return the line of the log that says what failed, without its time."""
    return next((line for line in said.splitlines() if "rror" in line or _BUGS.search(line)), "")[21:]


def _checked(stage: Stage, job: Calve, setup: Setup, accepted: list[list[Event]]) -> Verdict:
    labels = ["iceberg"] if len(setup.sinks) == 1 else [f"sink[{n}].iceberg" for n in range(len(setup.sinks))]
    found = Round(accepted, labels)
    found.take(
        letters(job, PIPELINE, {label: sink.options for label, sink in zip(labels, setup.sinks)}),
        exact=setup.source not in TYPED,
    )
    markers = [
        str(marker["id"])
        for batch in accepted
        for event in batch
        if (marker := event.value) and is_marker(marker) and not (setup.source in TYPED and _has_twins(batch))
    ]
    for sink, label in zip(setup.sinks, labels, strict=True):
        tables = stage.readers.read(job, sink.namespace, sink.options.get("branch"))
        found.check(sink, label, tables, markers)
    return found.verdict


def _has_twins(batch: list[Event]) -> bool:
    """Return whether names differ by case only: where a file declares its columns, each event has both of them."""
    names = {name for event in batch for name in event.value or ()}
    return len({name.upper().lower() for name in names}) < len(names)


def marker_of(setup: Setup, batch: int) -> bytes:
    """Return the ordinary event of a batch, which must arrive."""
    return json.dumps({"id": f"marker-{batch}", **setup.marker}).encode()


def is_marker(event: dict[str, Any]) -> bool:
    """Return whether an event is one that must arrive."""
    return str(event.get("id")).startswith("marker-")


def save(folder: Path, setup: Setup, batches: Batches) -> None:
    """Keep a round, so that `load` can give it again."""
    kept = {"setup": dataclasses.asdict(setup), "batches": [[event.decode("latin-1") for event in b] for b in batches]}
    (folder / "case.json").write_text(json.dumps(kept))


def load(folder: Path) -> tuple[Setup, Batches]:
    """Return a round that was kept."""
    kept = json.loads((folder / "case.json").read_text())
    setup, recipe = kept["setup"], kept["setup"]["recipe"]
    recipe |= {name: [Field(**each) for each in recipe[name]] for name in ("fields", "late")}
    setup |= {"recipe": Recipe(**recipe), "sinks": [Sink(**each) for each in setup["sinks"]]}
    return Setup(**setup), [[event.encode("latin-1") for event in batch] for batch in kept["batches"]]


class _Files:
    """Each batch is a file."""

    def __init__(self, suffix: str) -> None:
        self._suffix = suffix

    @property
    def section(self) -> dict[str, Any]:
        return {"file": {"path": f"events-*.{self._suffix}"}}

    def run(self, job: Calve, number: int, batch: Sequence[bytes]) -> tuple[int, list[bytes]]:
        taken, content = content_of(self._suffix, batch)
        (job.folder / f"events-{number}.{self._suffix}").write_bytes(content)
        return _once(job), taken


def _once(job: Calve) -> int:
    return _kept(job, job.call("run", "pipelines.yaml", "--once", "--give-up-after", "60s", "--metrics-port", "0"))


def _kept(job: Calve, ran: Result) -> int:
    with job.log.open("a") as log:
        log.write(ran.output)
        if ran.exception and not isinstance(ran.exception, SystemExit):
            log.write("".join(traceback.format_exception(ran.exception)))
    return ran.exit_code


class _Topic:
    """Each batch is produced to a topic of one partition."""

    def __init__(self, kafka: Kafka, name: str) -> None:
        self._kafka, self._name = kafka, name
        kafka.create_topic(name)

    @property
    def section(self) -> dict[str, Any]:
        return {"kafka": {"bootstrap_servers": [self._kafka.address], "topics": [{"name": self._name}]}}

    def run(self, job: Calve, number: int, batch: Sequence[bytes]) -> tuple[int, list[bytes]]:
        taken = [event for event in batch if len(event) < 900_000]
        self._kafka.produce(self._name, taken)
        return _once(job), taken


class _Http:
    """Each batch is posted to a pipeline that runs, in arrays; an array that is not answered with 200 was not taken."""

    def __init__(self) -> None:
        [self._port] = free_ports(1)

    @property
    def section(self) -> dict[str, Any]:
        return {"http": {"port": self._port}}

    def run(self, job: Calve, number: int, batch: Sequence[bytes]) -> tuple[int, list[bytes]]:
        taken: list[bytes] = []
        over = threading.Event()

        def feed() -> None:
            if self._listens(over):
                for start in range(0, len(batch), POSTED_EVENTS):
                    part = batch[start : start + POSTED_EVENTS]
                    sound = [event for event in part if parse_quietly(event) is not None]
                    if sound and self._post(sound) == 200:
                        taken.extend(sound)
            if not over.is_set():
                os.kill(os.getpid(), signal.SIGTERM)

        with _ignored(signal.SIGTERM):
            feeder = threading.Thread(target=feed)
            feeder.start()
            try:
                ran = job.call("run", "pipelines.yaml", "--metrics-port", "0")
            finally:
                over.set()
                feeder.join()
        return _kept(job, ran), taken

    def _listens(self, over: threading.Event) -> bool:
        end = time.monotonic() + ACCEPT_SECONDS
        while not over.wait(0.05) and time.monotonic() < end:
            with contextlib.suppress(OSError, HTTPException):  # a socket may reach itself before anybody listens
                urllib.request.urlopen(f"http://127.0.0.1:{self._port}/health", timeout=5).close()
                return True
        return False

    def _post(self, events: list[bytes]) -> int:
        body = b"[" + b",".join(events) + b"]"
        request = urllib.request.Request(f"http://127.0.0.1:{self._port}/log/ingest", body)
        request.add_header("Content-Type", "application/json")
        try:
            with urllib.request.urlopen(request, timeout=ACCEPT_SECONDS) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as error:
            return error.code
        except (OSError, HTTPException):
            return 0


@contextlib.contextmanager
def _ignored(number: signal.Signals) -> Iterator[None]:
    before = signal.signal(number, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(number, before)


def _source(stage: Stage, setup: Setup, folder: Path) -> tuple[_Files | _Http | _Topic, dict[str, Any]]:
    found: _Files | _Http | _Topic
    if setup.source == "http":
        found = _Http()
    elif setup.source == "kafka":
        assert stage.kafka
        found = _Topic(stage.kafka, f"{folder.name}-{time.monotonic_ns()}")
    else:
        found = _Files(setup.source)
    return found, found.section

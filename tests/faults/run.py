"""Breaks the servers of live pipelines in each way, and counts what is lost: `make faults ROUNDS=1 SEED=1`.

Six pipelines run, each with one server behind a proxy of its own: S3 with the files of a table, a REST catalog, Kafka,
OpenSearch, a schema registry, and S3 with the state. Numbered events arrive all the time. A round has each fault once,
in random order, before all of these servers at once; between two faults every pipeline must have caught up. At the end
each number must have arrived once, and nothing may be a dead letter.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import shutil
import signal
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from calve.state.store_folder import StoreFolder
from faults import clock, leaders, streams
from faults.streams import SERVERS, STATE, Stream
from faults.trial import Giver, Observed, Status, Trial, parsed
from kit.running import Calve
from services.faulty import FAULTS, NONE, Fault, FaultyProxy
from services.kafka import Kafka
from services.objects import ObjectStore
from services.opensearch import OpenSearch
from services.registry import Registry

FOLDER = Path(__file__).parents[2] / "build" / "faults"
LONGEST_SECONDS = 180.0
"""How long a pipeline may take to go on: a silent server may have been asked just before the end of the fault."""


class Setting:
    """The servers, the streams, and the processes that run them.

    Args:
        folder: A new folder.
        names: The servers to put behind proxies.
    """

    def __init__(self, folder: Path, names: Sequence[str]) -> None:
        self._stack = contextlib.ExitStack()
        enter = self._stack.enter_context
        self.objects = enter(ObjectStore(folder / "objects"))
        self.calve = Calve(folder / "calve", "")
        self.alone = Calve(folder / "alone", "")
        self.streams: list[Stream] = []
        if "store" in names:
            self.streams.append(streams.store(self.calve, self.objects))
        if "catalog" in names:
            self.streams.append(streams.catalog(self.calve, self.objects))
        if {"kafka", "registry"} & set(names):
            broker = Kafka(folder / "kafka")
            proxy = FaultyProxy(broker.inner_port)
            broker.proxy_port = proxy.port
            enter(broker)
            if "kafka" in names:
                self.streams.append(streams.kafka(self.calve, proxy, broker))
            if "registry" in names:
                self.streams.append(streams.registry(self.calve, broker, enter(Registry())))
        if "opensearch" in names:
            self.streams.append(streams.opensearch(self.calve, enter(OpenSearch(folder / "opensearch"))))
        if STATE in names:
            self.streams.append(streams.state(self.alone, self.objects))
        self._address = self.objects.place("state")

    def start(self) -> None:
        """Start the processes, with one stream after the other; wait until each stream has arrived once."""
        for stream in self.streams:
            stream.give()
        self._run()
        for stream in self.streams:
            calve, status = self.calve_of(stream), self.status_of(stream)
            calve.until(lambda st=status: st().get("tables"), f"{stream.name} commits")

    def again(self) -> None:
        """Start the processes again."""
        for calve in (self.calve, self.alone):
            if calve.process and calve.process.poll() is None:
                calve.stop()
        self._run()

    def _run(self) -> None:
        together = {key: value for one in self.streams if one.name != STATE for key, value in one.yaml.items()}
        if together:
            self.calve.configure(json.dumps(together))
            self.calve.start("--master", "local[8]")
        for stream in self.streams:
            if stream.name == STATE:
                self.alone.configure(json.dumps(stream.yaml))
                behind = self.objects.environment() | {"AWS_ENDPOINT_URL": stream.proxy.address}
                self.alone.start("--state", self._address, environment=behind)

    def calve_of(self, stream: Stream) -> Calve:
        """Return what runs a stream."""
        return self.alone if stream.name == STATE else self.calve

    def status_of(self, stream: Stream) -> Status:
        """Return the function that reads a stream's status."""
        if stream.name != STATE:
            return lambda: self.calve.status(stream.name)
        folder = StoreFolder.at(self._address) / STATE
        return lambda: parsed(found.content) if (found := folder.get("status.json")) else {}

    def trial(self, patience_seconds: float = LONGEST_SECONDS) -> Trial:
        """Return what tries faults on the streams."""
        return Trial(
            {stream.name: self.calve_of(stream) for stream in self.streams},
            {stream.name: self.status_of(stream) for stream in self.streams},
            self.again,
            patience_seconds,
        )

    def finish(self) -> dict[str, tuple[int, int, int]]:
        """Stop, and return for each stream what was lost, what is there twice, and what was rejected."""
        for calve in {self.calve_of(stream) for stream in self.streams}:
            if calve.process and calve.process.poll() is None:
                calve.stop()
        found = {}
        for stream in self.streams:
            arrived, sent = stream.read(), Counter(range(stream.sent))
            rejected = sum(self.status_of(stream)()["rejects"].values())
            found[stream.name] = ((sent - arrived).total(), (arrived - sent).total(), rejected)
        return found

    def close(self) -> None:
        """Leave nothing running."""
        for calve in (self.calve, self.alone):
            calve.end()
        for stream in self.streams:
            stream.proxy.close()
        self._stack.close()


@contextlib.contextmanager
def setting(folder: Path, names: Sequence[str]) -> Iterator[Setting]:
    """Set all up; the environment leads this process to the store, past the proxy."""
    made = Setting(folder, names)
    before = dict(os.environ)
    os.environ.update(made.objects.environment())
    try:
        yield made
    finally:
        made.close()
        os.environ.clear()
        os.environ.update(before)


def main() -> int:
    """Play the rounds, or until a signal; return 1 if anything was lost, is there twice, or does not go on."""
    for wish in (signal.SIGINT, signal.SIGTERM):  # a shell has what it starts in the background ignore the first
        signal.signal(wish, signal.default_int_handler)
    asked = _arguments()
    shutil.rmtree(asked.folder, ignore_errors=True)
    asked.folder.mkdir(parents=True)
    if asked.leaders:
        return leaders.run(asked.folder, asked.leaders)
    if asked.clock:
        return clock.run(asked.folder, asked.clock)
    chance, observed = random.Random(asked.seed), list[Observed]()
    counts: dict[str, tuple[int, int, int]] = {}
    with setting(asked.folder, asked.servers) as made:
        made.start()
        giver, trial = Giver(made.streams), made.trial()
        try:
            for fault in _faults(asked.rounds, chance):
                if asked.fault and asked.fault not in fault.name:
                    continue
                hit = [stream for stream in made.streams if fault in stream.faults]
                seconds = chance.uniform(asked.seconds * 0.7, asked.seconds * 1.3)
                for one in trial.run(fault, hit, seconds):
                    observed.append(one)
                    print(_line(one), flush=True)
        except KeyboardInterrupt:
            print("ended; the table has the faults before", flush=True)
        giver.end()
        trial.settle(made.streams)
        counts = made.finish()
    (asked.folder / "faults.json").write_text(json.dumps([one.as_json() for one in observed], indent=1))
    text = "\n".join(_page(observed, counts))
    (asked.folder / "faults.md").write_text(text + "\n")
    print(text)
    is_exact = all(not sum(numbers) for numbers in counts.values())
    return 0 if is_exact and all(one.is_good for one in observed) else 1


def _faults(rounds: int, chance: random.Random) -> list[Fault]:
    return [NONE, *(fault for _ in range(rounds) for fault in chance.sample(FAULTS, len(FAULTS)))]


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--seed", default="1")
    parser.add_argument("--seconds", type=float, default=10.0, help="how long a fault lasts, 30 %% more or less")
    parser.add_argument("--servers", nargs="+", choices=SERVERS, default=list(SERVERS))
    parser.add_argument("--fault", help="only faults with this in their name")
    parser.add_argument("--leaders", type=int, default=0, help="move leaders on three Kafka brokers so often instead")
    parser.add_argument(
        "--clock", type=int, default=0, help="set the clock of two runs back and forth so often instead"
    )
    parser.add_argument("--folder", type=Path, default=FOLDER)
    return parser.parse_args()


def _line(one: Observed) -> str:
    on = f"on after {one.on_after} s" if one.on_after is not None else "NOT ON"
    clear = "" if one.clear_after is not None else ", STATUS NOT CLEAR"
    said = f"said after {one.told_after} s: {one.message}" if one.told_after is not None else "said nothing"
    ended = f", started again, because it ended: {one.ended}" if one.ended else ""
    return f"{one.server}: {one.fault} for {one.fault_seconds} s ({one.struck} hits): {on}{clear}{ended}; {said}"


def _page(observed: Sequence[Observed], counts: dict[str, tuple[int, int, int]]) -> Iterator[str]:
    """Give the matrix in Markdown, and below it what was counted, and what each status said."""
    names = [name for name in SERVERS if any(one.server == name for one in observed)]
    yield "| fault | " + " | ".join(SERVERS[name] for name in names) + " |"
    yield "|---|" + "---:|" * len(names)
    for fault in dict.fromkeys(one.fault for one in observed):
        cells = [[one for one in observed if (one.fault, one.server) == (fault, name)] for name in names]
        yield f"| {fault} | " + " | ".join(", ".join(map(_went_on, cell)) for cell in cells) + " |"
    for number, what in enumerate(("lost", "duplicated", "dead letters")):
        yield f"| **{what}** | " + " | ".join(str(counts[name][number]) if counts else "" for name in names) + " |"
    for name in names:
        yield f"\n### {SERVERS[name]}\n"
        yield "| fault | seconds | events meanwhile | the status |"
        yield "|---|---:|---:|---|"
        for one in (one for one in observed if one.server == name):
            said = f"after {one.told_after} s: {_cell(one.message)}" if one.told_after else "no error"
            said = f"**ended**, started again: {_cell(one.ended)}" if one.ended else said
            yield f"| {one.fault} | {one.fault_seconds:.0f} | {one.rows_meanwhile} | {said} |"


def _went_on(one: Observed) -> str:
    if one.on_after is None:
        return "not in time"
    return f"{one.on_after:.0f} s" + (" (restart)" if one.ended else " *" if one.told_after is not None else "")


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


if __name__ == "__main__":
    sys.exit(main())

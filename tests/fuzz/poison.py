"""Poison: very many events of every reject code among good ones, `make fuzz FUZZ="--poison 1000000"`.

Every second event is good. Every poison event must be one dead letter, with the right code and the exact bytes, and
every good one a row, once. The process tree's memory is measured all the time: it must not grow with the events.
"""

from __future__ import annotations

import itertools
import os
import re
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from calve.event.reject import Code
from kit.running import Calve, each_event, until

__all__ = ["CODES", "ELSEWHERE", "Poison"]

LINES = 20_000
RARE = 4_000
"""Every so many poison events there is one with more fields than a table may have columns; such an event is large."""
GROWTH_BYTES = 300 << 20
KINDS: dict[str, Code] = {
    '{"k": "plain", "id": @, "v": ': Code.MALFORMED,
    '{"k": "plain", "p": @}': Code.NO_MATCHING_FIELDS,
    '{"k": "plain", "v": 1, "p": @}': Code.REQUIRED_MISSING,
    '{"k": "plain", "id": @, "v": "n/a"}': Code.NOT_COERCIBLE,
    '{"k": "keyed", "op": "up and down", "id": @, "v": 1}': Code.UNKNOWN_OPERATION,
    '{"k": "named", "t": "a/b", "id": @, "v": 1}': Code.BAD_TABLE_NAME,
    '{"k": "missing", "id": @, "v": 1}': Code.NO_SUCH_TABLE,
    '{"k": "keyed", "op": "delete", "v": 1, "p": @}': Code.NO_KEY,
    '{"k": "plain", "id": @, "NAME": "x", "Name": "y"}': Code.AMBIGUOUS_FIELD,
    '{"k": "named", "id": @, "v": 1}': Code.NO_FIELD,
    '{"k": "plain", "id": @, "v": 1, "j": "no json"}': Code.PROCESSOR_FAILED,
}
GOOD = (
    '{"k": "plain", "id": @, "v": 1, "name": "x"}',
    '{"k": "named", "t": "b", "id": @, "v": 2}',
    '{"k": "keyed", "op": "insert", "id": @, "v": 3}',
)
MANY = '{"k": "wide", "id": @, ' + ", ".join(f'"f{each}": 1' for each in range(1_050)) + "}"
CODES = {*KINDS.values(), Code.TOO_MANY_COLUMNS}
ELSEWHERE = {Code.EXPRESSION_ERROR, Code.SINK_REFUSED, Code.UNDECODABLE, Code.UNKNOWN_SCHEMA, Code.UNPROCESSABLE}
ELSEWHERE |= {Code.KEY_MISMATCH, Code.EXPECTATION_FAILED, Code.EXPECTATION_STOPS}
"""They need rules, an OpenSearch, a Kafka, a schema registry, or a bug; tests of these have them."""
_NUMBER = re.compile(rb'"(?:id|p)": (\d+)')
_YAML = """
poison:
  source: {file: {path: "in/*.ndjson"}}
  processor:
    - parse_json: {source: j, parse_when: '/j != null'}
  route:
    - plain: '/k == "plain"'
    - named: '/k == "named"'
    - keyed: '/k == "keyed"'
    - missing: '/k == "missing"'
    - wide: '/k == "wide"'
  sink:
    - iceberg:
        routes: [plain]
        table_identifier: poison.plain
        auto_create: true
        case_insensitive: true
        on_type_mismatch: dlq
        exclude_keys: [k]
        schema:
          columns: [{name: id, type: long, required: true}, {name: v, type: int}, {name: name, type: string}]
    - iceberg:
        routes: [keyed]
        table_identifier: poison.keyed
        auto_create: true
        operation: "${/op}"
        identifier_columns: [id]
        exclude_keys: [k]
        schema: {columns: [{name: id, type: long, required: true}, {name: v, type: int}]}
    - iceberg: {routes: [named], table_identifier: "poison.${t}", auto_create: true, exclude_keys: [k]}
    - iceberg: {routes: [missing], table_identifier: "${/k}.table"}
    - iceberg:
        routes: [wide]
        table_identifier: poison.wide
        auto_create: true
        schema_evolution: true
        schema: {columns: [{name: id, type: long}]}
"""


@dataclass
class Poison:
    """One folder with a pipeline and its events, of which every second one is poison.

    Args:
        folder: A new folder.
        count: How many poison events.

    Attributes:
        seconds: How long the run took.
        peaks: The largest memory of the process tree in each third of the run, in bytes.
        wrong: What was found, a line each.
        codes: The dead letters by code.
        rows: How many rows there are.
    """

    folder: Path
    count: int
    seconds: float = 0.0
    peaks: list[int] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    codes: Counter[str] = field(default_factory=Counter)
    rows: int = 0

    def play(self) -> None:
        """Write the events, run the pipeline, and compare."""
        calve = Calve(self.folder, _YAML)
        self._write(calve.folder / "in")
        began, samples = time.monotonic(), []
        process = calve.start("--once")
        try:

            def is_over() -> bool:
                samples.append(_memory(process.pid))
                return process.poll() is not None

            until(is_over, "the run ends", 60 + self.count / 200, 0.5)
        finally:
            calve.end()
        self.seconds = time.monotonic() - began
        third = max(1, len(samples) // 3)
        self.peaks = [max(samples[at : at + third]) for at in range(0, 3 * third, third) if samples[at : at + third]]
        if process.returncode:
            self.wrong.append(f"exit code {process.returncode}: {calve.said()[-2000:]}")
            return
        if self.peaks[-1] > self.peaks[0] + GROWTH_BYTES and self.count > LINES:
            self.wrong.append(f"the memory grows: {self.peaks}")
        self._check_letters(calve)
        self._check_rows(calve)

    def line(self) -> str:
        """Return what was done and found."""
        peaks = " ".join(f"{each >> 20} MB" for each in self.peaks)
        return (
            f"{self.count:,} poison events among {self.rows:,} good ones in {self.seconds:.0f} s "
            f"({(self.count + self.rows) / self.seconds:,.0f} events/s); memory in each third: {peaks}; "
            f"{len(self.wrong)} findings"
        )

    def _write(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        for first in range(0, 2 * self.count, LINES):
            with (folder / f"{first:09}.ndjson").open("wb") as file:
                file.writelines(event(number)[0] + b"\n" for number in range(first, min(first + LINES, 2 * self.count)))

    def _check_letters(self, calve: Calve) -> None:
        seen = bytearray(2 * self.count)
        for entry in _letters(calve.folder / "calve-state" / "poison" / "dlq"):
            text = entry["event"].encode()
            found = _NUMBER.search(text)
            number = int(found[1]) if found else -1
            expected = event(number) if 0 <= number < len(seen) else (b"", None)
            if expected != (text, entry["code"]):
                self._tell(f"a dead letter {entry['code']} of event {number}: {text[:200]!r}, {entry['reason']}")
                continue
            seen[number] += 1
            self.codes[entry["code"]] += 1
        for number in range(1, len(seen), 2):
            if seen[number] != 1:
                self._tell(f"event {number} is {seen[number]} dead letters: {event(number)[0][:200]!r}")

    def _check_rows(self, calve: Calve) -> None:
        seen = bytearray(2 * self.count)
        for table in ("poison.plain", "poison.b", "poison.keyed"):
            for number in calve.rows(table)["id"].to_pylist():
                seen[number] += 1
        self.rows = sum(seen[::2])
        for number, times in enumerate(seen):
            if times != (number % 2 == 0):
                self._tell(f"event {number} is {times} rows")

    def _tell(self, line: str) -> None:
        if len(self.wrong) < 20:
            self.wrong.append(line)


def event(number: int) -> tuple[bytes, Code | None]:
    """Return an event, and the code of its dead letter; None: it is good."""
    half, is_poison = divmod(number, 2)
    if not is_poison:
        return GOOD[half % len(GOOD)].replace("@", str(number)).encode(), None
    if half % RARE == RARE - 1:
        return MANY.replace("@", str(number)).encode(), Code.TOO_MANY_COLUMNS
    text, code = list(KINDS.items())[half % len(KINDS)]
    return text.replace("@", str(number)).encode(), code


def _letters(folder: Path) -> Iterator[dict[str, str]]:
    for path in sorted(folder.glob("[!_.]*.ndjson")):
        with path.open("rb") as lines:
            yield from itertools.chain.from_iterable(map(each_event, lines))


def _memory(root: int) -> int:
    """Return the resident bytes of a process and all below it; pages that processes share count in each."""
    parents, pages = {}, Counter[int]()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            parents[int(process.name)] = int((process / "stat").read_text().rpartition(") ")[2].split()[1])
            pages[int(process.name)] = int((process / "statm").read_text().split()[1])
        except (OSError, ValueError, IndexError):  # it has ended
            continue
    own, size = {root}, 0
    while len(own) > size:
        size = len(own)
        own |= {process for process, parent in parents.items() if parent in own}
    return sum(pages[process] for process in own) * os.sysconf("SC_PAGE_SIZE")

from pathlib import Path

import pyarrow as pa

from calve.sources.bounds import first_up_to
from calve.sources.source import ALONE, EVENT, Backlog, Planned, Split


class Reader:
    def read(self, split):
        lines = Path(split.body["path"]).read_bytes().splitlines()
        yield pa.record_batch(
            {EVENT: pa.array(lines, pa.binary()), "letter": pa.repeat(split.body["number"], len(lines))}
        )


class Mailbox:
    def __init__(self, folder, suffix):
        self.reader, self._last = Reader(), None
        self._folder, self._names = Path(folder.absolute().location), f"*{suffix}"

    def start(self, position, once, pending=()):
        self._folder.mkdir(parents=True, exist_ok=True)
        self._last = max((letter.body["number"] for letter in self._after(None)), default=0) if once else None

    def backlog(self, position):
        return Backlog.of(letter.size_bytes for letter in self._after(position))

    def plan(self, position, max_bytes):
        letters = first_up_to(max_bytes, self._after(position), lambda letter: letter.size_bytes)
        return Planned(letters, {"last": letters[-1].body["number"]}) if letters else None

    def acknowledge(self, planned):
        for letter in planned.splits:
            Path(letter.body["path"]).unlink(missing_ok=True)

    def _after(self, position):
        start, end = position["last"] if position else 0, float("inf") if self._last is None else self._last
        letters = sorted((int(path.stem), path) for path in self._folder.glob(self._names))
        waiting = [(number, path) for number, path in letters if start < number <= end]
        return [Split({"path": str(path), "number": number}, path.stat().st_size) for number, path in waiting]


def open(settings, folder, pipeline, context=ALONE):
    return Mailbox(folder, settings.suffix)

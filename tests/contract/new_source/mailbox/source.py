"""The smallest source that works."""

from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from calve.sources.source import ALONE, EVENT, Backlog, Planned, Split
from calve.state.durable import make_folder, try_folder


@dataclass(frozen=True)
class Reader:
    folder: Path

    def read(self, split):
        lines = (self.folder / split.body["name"]).read_bytes().splitlines()
        letter = int(Path(split.body["name"]).stem)
        yield pa.record_batch({EVENT: pa.array(lines, pa.binary()), "letter": pa.repeat(letter, len(lines))})


class Source:
    def __init__(self, folder, suffix):
        self.reader, self.suffix, self.last = Reader(Path(folder.absolute().location)), suffix, None

    def start(self, position, once, pending=()):
        make_folder(self.reader.folder)
        self.last = max(map(_number, self._letters()), default=0) if once else None

    def backlog(self, position):
        sizes = [letter.stat().st_size for letter in self._waiting(position)]
        return Backlog(-1, sum(sizes)) if sizes else Backlog()

    def plan(self, position, max_bytes):
        splits = []
        for letter in self._waiting(position):
            splits.append(Split({"name": letter.name}, letter.stat().st_size))
            if sum(split.size_bytes for split in splits) >= max_bytes:
                break
        return Planned(splits, {"last": int(Path(splits[-1].body["name"]).stem)}) if splits else None

    def acknowledge(self, planned):
        for letter in self._letters():
            if _number(letter) <= planned.position["last"]:
                letter.unlink()

    def stop(self):
        pass

    def _letters(self):
        return sorted(self.reader.folder.glob(f"*{self.suffix}"), key=_number)

    def _waiting(self, position):
        start = position["last"] if position else 0
        return [each for each in self._letters() if start < _number(each) <= (self.last or _number(each))]


def _number(letter):
    return int(letter.stem)


def open(settings, folder, pipeline, context=ALONE):
    return Source(folder, settings.suffix)


def probe(settings, folder, pipeline, context):
    try_folder(Path(folder.location))

"""Random writers, rotations and kills against the lines that were written."""

from __future__ import annotations

import os
import random
from collections import Counter
from datetime import timedelta
from pathlib import Path

from kit.examples import examples
from sources.file.tail.world import LINES, STACKS, Tail

PIECES = ("", "{n}\n", "{n}\n{n}b\n", "{n} half ", "of {n}\n", "{n} long " + "x" * 1500 + "\n")


class Writer:
    """Writes numbered lines, and rotates its file."""

    def __init__(self, log: Path, chance: random.Random) -> None:
        self.log, self.chance = log, chance
        self.text = ""
        self.written = 0
        self.ended: list[str] = []
        self.rotated = 0

    def append(self, piece: str = "") -> None:
        self.written += 1
        piece = piece or self.chance.choice(PIECES).format(n=self.written)
        with self.log.open("a") as out:
            out.write(piece)
        self.text += piece

    def rename(self) -> None:
        if self.log.exists():
            self.rotated += 1
            rotated = self.log.with_name(f"app.log.{self.rotated}")
            self.log.rename(rotated)
            os.utime(rotated, (rotated.stat().st_mtime - 3600,) * 2)
            self._end()

    def cut(self) -> None:
        """Cut the file: a line without an end is lost, as nobody could have read it."""
        if self.log.exists():
            self.text = self.text[: self.text.rfind("\n") + 1]
            self._end()
            os.truncate(self.log, 0)

    def remove(self) -> None:
        self.cut()
        self.log.unlink(missing_ok=True)

    def _end(self) -> None:
        self.ended += self.text.splitlines()
        self.text = ""

    @property
    def complete(self) -> list[str]:
        return self.ended + self.text[: self.text.rfind("\n") + 1].splitlines()


def test_every_line_is_read_once_whatever_the_writer_and_the_kills_do(tmp_path: Path) -> None:
    for number in range(examples(15)):
        folder = tmp_path / str(number)
        folder.mkdir()
        _play(folder, seed=number)


def _play(folder: Path, seed: int) -> None:
    chance = random.Random(seed)
    writer = Writer(folder / "app.log", chance)
    codec = chance.choice([LINES, STACKS])
    path = chance.choice(["app.log", "app.log*"])
    waits = {"rotate_wait": timedelta(minutes=1), "flush_after": timedelta(minutes=1), "codec": codec}
    tail = Tail(folder, path, **waits)
    found: list[str] = []

    def work_off() -> None:
        if writer.log.exists():  # so that the last event of several lines is known to have ended
            os.utime(writer.log, (writer.log.stat().st_mtime - 3600,) * 2)
        found.extend(tail.lines(chance.choice([1, 50, 1 << 30])))

    for _ in range(40):
        action = chance.random()
        if action < 0.6:
            writer.append()
        elif action < 0.7:
            if path == "app.log":  # a file is found under another name if some of it has been read
                work_off()
                if "\n" not in writer.text:
                    continue
            elif not writer.text.endswith("\n"):  # a file that is found under its new name may still grow
                writer.append("\n")
            writer.rename()
        elif action < 0.8:
            work_off()
            chance.choice([writer.cut, writer.remove])()
            found.extend(tail.lines())
        elif action < 0.9:
            planned = tail.plan(chance.choice([1, 1 << 30]))
            tail.start(pending=[planned] if planned else [])
            if planned:
                found.extend(message for message, _, _ in tail.read(planned))
                tail.source.acknowledge(planned)
        else:
            tail.source.plan(tail.position, chance.choice([1, 1 << 30]))  # killed before the ledger knows it
            tail.start()
    work_off()
    events = Counter(line for event in found for line in event.split("\n"))
    expected = Counter(line for line in writer.complete if line)
    assert events == expected, f"seed {seed}"

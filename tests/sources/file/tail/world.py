"""A folder with files that grow, and a source that follows them as a driver does."""

from __future__ import annotations

import json
import os
from datetime import timedelta
from pathlib import Path
from typing import Any

from calve.sources.file import source
from calve.sources.file.codec_settings import CodecSettings, MultilineCodec, NewlineCodec
from calve.sources.file.settings import FileSettings
from calve.sources.file.tail.source import TailSource
from calve.sources.source import Planned
from calve.state.local_folder import LocalFolder
from sources.file.texts import table

ALL = 1 << 40
LINES = CodecSettings(newline=NewlineCodec())
STACKS = CodecSettings(multiline=MultilineCodec(begins_with=r"\d"))
NEVER = timedelta(days=1)


class Tail:
    """A source over a folder, planned, read and acknowledged as a driver does."""

    def __init__(
        self, folder: Path, path: str = "app.log", once: bool = False, position: Any = None, **options: Any
    ) -> None:
        self.folder = folder
        now = {"poll_interval": timedelta(0), "rotate_wait": NEVER, "flush_after": NEVER, "codec": LINES}
        options = now | {"path": str(folder / path)} | options
        self.settings = FileSettings(**options, tail=True)
        self.position = position
        self.source: Any = None
        self.start(once)

    def start(self, once: bool = False, pending: list[Planned] | None = None) -> Tail:
        """Start a new source at the position, as after a kill."""
        if self.source:
            self.source.stop()  # which only closes files
        opened = source.open(self.settings, LocalFolder(self.folder / "state"), "p")
        assert isinstance(opened, TailSource)
        self.source = opened
        self.source.start(json.loads(json.dumps(self.position)), once, pending or [])
        return self

    def plan(self, most: int = ALL) -> Planned | None:
        planned = self.source.plan(self.position, most) if self.source.backlog(self.position) else None
        if planned:
            self.position = planned.position
        return planned

    def rows(self, most: int = ALL) -> list[tuple[str, str, int | None]]:
        """Return message, name of the file, and row of the next events."""
        found = []
        while planned := self.plan(most):
            found += self.read(planned)
            self.source.acknowledge(planned)
        return found

    def read(self, planned: Planned) -> list[tuple[str, str, int | None]]:
        found = []
        for split in planned.splits:
            rows = table(self.source.reader.read(split))
            assert rows["malformed"] == [None] * len(rows["event"])
            names = [Path(path).name for path in rows["file_path"]]
            found += zip([json.loads(one)["message"] for one in rows["event"]], names, rows["file_row"], strict=True)
        return found

    def lines(self, most: int = ALL) -> list[str]:
        return [message for message, _, _ in self.rows(most)]


def append(file: Path, text: str) -> None:
    with file.open("a") as out:
        out.write(text)


def old(file: Path) -> None:
    """Let a file look as if nothing was written for an hour."""
    os.utime(file, (file.stat().st_mtime - 3600,) * 2)

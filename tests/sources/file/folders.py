"""File sources of a test's folder `in`, and what they plan and read."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

from calve.sources.file import source
from calve.sources.file.settings import FileSettings
from calve.sources.file.source import FileSource
from calve.sources.source import Planned
from calve.state.local_folder import LocalFolder
from sources.file.texts import table

ALL = 1 << 40


def opened(folder: Path, path: str | list[str] | None = None, **options: Any) -> FileSource:
    now = {"poll_interval": timedelta(0), "settle": timedelta(0)}
    settings = FileSettings(path=path or str(folder / "in" / "*"), **(now | options))
    return source.open(settings, LocalFolder(folder / "state"), "p")


def write(folder: Path, name: str, data: bytes = b'{"a":1}\n') -> Path:
    path = folder / "in" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def names(planned: Planned | None) -> list[str]:
    return [Path(split.body["path"]).name for split in planned.splits] if planned else []


def events(of: FileSource, planned: Planned | None) -> list[bytes]:
    assert planned
    return [event for split in planned.splits for event in table(of.reader.read(split))["event"]]

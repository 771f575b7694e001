"""Plays rounds of files against the file source, without Spark: `make fuzz FUZZ=--files`.

A round is a folder: text files of random formats, packed and cut off, under random names, with links, pipes and folders
among them, read by the readers in blocks and parts of random sizes. What must hold:

- Each whole record is one event, in order, or, if it is damaged, one reject.
- Of the record in which a file ends there is at most one reject; a file that is known to be cut off has a reject that says so.
- Nothing else comes of a file, and no file is read twice.
"""

from __future__ import annotations

import json
import logging
import os
import random
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa

from calve.event.columns import EVENT
from calve.event.typed import with_text
from calve.event.validate_json import validated
from calve.sources.file import source, stream, whole_files
from calve.sources.file.paths import portable, readable
from calve.sources.file.settings import FileSettings
from calve.state.local_folder import LocalFolder
from fuzz.check import Finding
from fuzz.file_packing import Packed, packed

__all__ = ["of", "play"]

FILES = 30
_NAMES = (
    b"f",
    "é".encode(),
    b"\xe9",
    b"a b",
    b"[x]",
    b"new\nline",
    b"q'\"",
    "𝄞".encode(),
    b"n" * 200,
    b"-",
    b"\xff\xfe",
)
_BLOCKS = (16 << 20, 16 << 20, 4096, 300)
_PARTS = (64 << 20, 64 << 20, 500, 90)
Rows = dict[str, list[tuple[Any, str]]]
"""The events of each file, and the reason if it is rejected."""


def of(seed: str, number: int, folder: Path) -> tuple[Counter[str], list[Finding]]:
    """Play a round of a seed; return what was counted, and what is wrong."""
    folder.mkdir(parents=True)
    logging.getLogger("calve").setLevel(logging.CRITICAL)  # links and pipes are said
    counts, findings = Counter[str](), list[Finding]()
    for index in range(FILES):
        counts_of, findings_of = play(random.Random(f"{seed}-{number}-{index}"), folder / str(index))
        counts += counts_of
        findings += findings_of
    return counts, findings


def play(rng: random.Random, folder: Path) -> tuple[Counter[str], list[Finding]]:
    """Read one folder of files of one codec."""
    folder.mkdir()
    first = packed(rng)
    files = {"": first} | {f"-{index}": other for index in range(3) if (other := packed(rng)).codec == first.codec}
    names = {}
    for end, file in files.items():
        path = os.fsencode(folder) + b"/" + rng.choice(_NAMES) + f"{end}.{file.suffix}".encode()
        Path(os.fsdecode(path)).write_bytes(file.data)
        names[os.fsdecode(path)] = file
    _decorate(rng, folder, list(names))
    settings = FileSettings(path=str(folder), codec=first.codec, settle=timedelta(0), poll_interval=timedelta(0))
    with _sizes(rng):
        rows = read(settings, folder.with_name(f"{folder.name}-state"))
    findings = [found for path, file in names.items() for found in check(file, rows.pop(readable(portable(path)), []))]
    findings += [Finding("count", "a path that is a link, or no file, was read", repr(path)) for path in rows]
    counts = Counter(files=len(names), events=sum(len(file.rows) for file in files.values()))
    return counts + Counter(rejects=sum(file.rejects[0] for file in files.values())), findings


@contextmanager
def _sizes(rng: random.Random) -> Iterator[None]:
    """Read in blocks and parts of a random size."""
    blocks, parts = stream.BLOCK_BYTES, whole_files.PART_BYTES
    stream.BLOCK_BYTES, whole_files.PART_BYTES = rng.choice(_BLOCKS), rng.choice(_PARTS)
    try:
        yield
    finally:
        stream.BLOCK_BYTES, whole_files.PART_BYTES = blocks, parts


def _decorate(rng: random.Random, folder: Path, paths: list[str]) -> None:
    """Put what must not be read beside the files."""
    kind, suffix = rng.randrange(8), Path(paths[0]).name.partition(".")[2]
    beside = folder / f"\U0010ffff.{suffix}"  # the last name of all
    if kind == 0:
        beside.symlink_to(rng.choice(paths))
    elif kind == 1:
        beside.hardlink_to(rng.choice(paths))
    elif kind == 2:
        beside.symlink_to(folder / "nowhere")
    elif kind == 3:
        beside.symlink_to(folder)
    elif kind == 4:
        os.mkfifo(beside)
    elif kind == 5:
        beside.mkdir()


def read(settings: FileSettings, state: Path) -> Rows:
    """Return what the source reads."""
    files = source.FileSource(settings, LocalFolder(state), "p")
    files.start(None, once=True)
    found: Rows = defaultdict(list)
    position = None
    while planned := files.plan(position, 1000):
        position = json.loads(json.dumps(planned.position))
        for split in planned.splits:
            for batch in files.reader.read(split):
                _add(found, pa.Table.from_batches([batch]))
        files.acknowledge(planned)
    return found


def _add(found: Rows, batch: pa.Table) -> None:
    batch = batch if EVENT in batch.column_names else with_text(batch)
    rejects = dict(zip(*(validated(batch).rejects[name].to_pylist() for name in ("row", "reason")), strict=True))
    for row, (path, event) in enumerate(zip(batch["file_path"].to_pylist(), batch[EVENT].to_pylist(), strict=True)):
        found[path].append((event if row in rejects else json.loads(event), rejects.get(row, "")))


def check(file: Packed, found: list[tuple[Any, str]]) -> Iterator[Finding]:
    """Yield what is wrong with the events of a file."""
    rows = [row for row, reason in found if not reason]
    rejects = [(row, reason) for row, reason in found if reason]
    shown = f"{file}\nrows: {rows}\nrejects: {rejects}"
    whole = len(file.rows)
    if not _same(rows[:whole], file.rows, file.is_partial):
        yield Finding("value", f"the whole records of a file ({file.suffix}) are not its events", shown)
    elif not _same(rows[whole:], file.maybe[: len(rows) - whole], False) or len(rows) > whole + len(file.maybe):
        yield Finding("value", f"more than the whole records of a file ({file.suffix}) are its events", shown)
    if not file.rejects[0] <= len(rejects) <= file.rejects[1]:
        yield Finding("count", f"the rejects of a file ({file.suffix}) are too many or too few", shown)
    if file.is_cut and sum("data (cut off?)" in reason for _, reason in rejects) != 1:
        yield Finding("count", f"not one reject says that a file ({file.suffix}) is cut off", shown)


def _same(rows: list[Any], expected: list[Any], is_partial: bool) -> bool:
    if (
        is_partial and rows and expected and rows[:-1] == expected[:-1]
    ):  # an empty cell at the end may have lost its quotes
        return [value or None for value in rows[-1].values()] == [value or None for value in expected[-1].values()]
    return rows == expected

"""1,000 commits of one table: time and CPU of a commit, its metadata, its files, and a full read, first and last.

    make bench-growth BENCH="--commits 200 --events 1000"
    make bench-growth BENCH="--write-mode merge-on-read --rows 10000000 --commits 100 --events 10000 --key-index never"

Files of events are given to a pipeline one after another, each when the one before is readable: a batch, a commit.
Without `--write-mode` they are appended, with it they update rows of a table that keeps about `--rows` rows.
The table is maintained meanwhile. Maintenance counts in minutes, so `--pace 16` makes it so many times as fast: then
commits of 0.3 s are to it what commits every five seconds are, and with `--commits 17280` they are a day of these.
The metadata file grows until it lists as many snapshots as the table keeps (`--snapshots`), so the first quarter of the
commits is left out. Medians of the second and the last quarter are compared, of files and reads the greatest of both.
In the end Spark compares the table with what was given.
"""

from __future__ import annotations

import json
import random
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from functools import lru_cache
from pathlib import Path

from pyiceberg.table import StaticTable

from bench.measure import Figures, measured, parser, shown
from bench.report import Report
from bench.upserts import MODES, check, row
from calve.table.limits import DEFAULTS
from kit.running import Calve, until
from kit.small_indexes import begin_index

WAIT_SECONDS = 1800
READS = 100
"""How often the table is read."""
KEY_INDEXES = ("auto", "never", "begin")
"""`begin`: used from the first commit on, however small the table is."""
_SAWTEETH = frozenset({"files", "read s"})
"""What grows until the next compaction: the greatest counts, not the median."""
YAML = """
bench:
  source: {{file: {{path: "*.ndjson", poll_interval: 10ms, settle: 0s}}}}
  sink:
    - iceberg:
        table_identifier: bench.rows
        auto_create: true
        flush_interval: 10ms
        commit_interval: 10ms
{more}"""
CHANGES = """\
        operation: ${{/op}}
        identifier_columns: [id]
        write_mode: {mode}
        key_index: {key_index}
        table_properties: {{format-version: "{version}"}}
        exclude_keys: [op]
"""
MAINTENANCE = """\
        maintenance:
          quiet_after: {quiet}s
          max_snapshots: {snapshots}
          least_snapshot_age: {age}s
          share_of_cores: {share}
"""


def batches(commits: int, events: int, rows: int) -> Iterator[Sequence[int]]:
    """Yield the keys of each batch: new ones, or, of a table of `rows` rows, almost only those that it has."""
    chance = random.Random(7)
    for number in range(1, commits + 1):
        first = number * events
        yield chance.sample(range(rows + events), events) if rows else range(first, first + events)


def maintenance(pace: int, snapshots: int) -> str:
    """Return the settings with which maintenance is so many times as fast, and leaves so many snapshots at most."""
    share = min(DEFAULTS.share_of_cores * pace, 1.0)
    quiet, age = (int(limit.total_seconds()) // pace for limit in (DEFAULTS.quiet, DEFAULTS.least_age))
    return MAINTENANCE.format(quiet=quiet, age=age, share=share, snapshots=snapshots)


def metadata(folder: Path) -> Path | None:
    """Return the current metadata file of the one table, as the catalog has it; None before there is one."""
    try:
        with closing(sqlite3.connect(f"file:{folder}/lakehouse/catalog.db?mode=ro", uri=True)) as catalog:
            found = catalog.execute("SELECT metadata_location FROM iceberg_tables").fetchone()
    except sqlite3.OperationalError:  # the catalog is just being made
        return None
    return Path(found[0].removeprefix("file:")) if found else None


def give(calve: Calve, name: str, texts: Iterable[str]) -> Figures:
    """Give the pipeline a file of events and wait until it is committed; return the figures of that.

    Earlier files go: the source lists its folder all the time.
    """
    for earlier in sorted(calve.folder.glob("*.ndjson"))[:-1]:
        earlier.unlink()
    part = calve.folder / f"{name}.part"
    part.write_text("".join(f"{text}\n" for text in texts))
    before = snapshot(metadata(calve.folder))
    with measured(1) as found:
        part.rename(part.with_suffix(".ndjson"))
        until(lambda: snapshot(metadata(calve.folder)) != before, f"{name} is committed", WAIT_SECONDS, 0.01)
    file = metadata(calve.folder)
    assert file
    return {
        "s": found["seconds"],
        "CPU s": found["CPU s/M"] / 1e6,
        "metadata kB": file.stat().st_size / 1e3,
        "files": files(file),
    }


def files(metadata_file: Path) -> float:
    """Return how many data files and delete files the current snapshot has."""
    summary = StaticTable.from_metadata(str(metadata_file)).current_snapshot().summary
    return float(summary["total-data-files"]) + float(summary["total-delete-files"])


def read_seconds(metadata_file: Path) -> float:
    """Return how long PyIceberg reads one column of all rows."""
    start = time.perf_counter()
    StaticTable.from_metadata(str(metadata_file)).scan(selected_fields=("id",)).to_arrow()
    return time.perf_counter() - start


@lru_cache(1)
def snapshot(file: Path | None) -> int | None:
    """Return the current snapshot of a metadata file."""
    return json.loads(file.read_text()).get("current-snapshot-id") if file else None


def compare(figures: list[Figures]) -> Report:
    """Compare the last quarter of the commits with the second one."""
    report = Report("growth", f"{len(figures)} commits of one table")
    quarter = max(len(figures) // 4, 1)
    parts = {"second quarter": figures[quarter : 2 * quarter] or figures[:1], "last quarter": figures[-quarter:]}
    rows = {
        name: {
            key: max(one[key] for one in part) if key in _SAWTEETH else statistics.median(one[key] for one in part)
            for key in part[0]
        }
        for name, part in parts.items()
    }
    before, after = rows.values()
    for key in before:
        report.target(f"{key}, last quarter to second", after[key] / before[key], most=1.2)
    curves = {key: [(float(at), one[key]) for at, one in enumerate(figures, 1)] for key in figures[0]}
    report.lines(rows, curves, "by number of the commit")
    return report


def main() -> None:
    options = parser(__doc__, events=1000)
    options.add_argument("--commits", type=int, default=1000)
    options.add_argument("--write-mode", choices=MODES, help="update and insert instead of append")
    options.add_argument("--key-index", choices=KEY_INDEXES, default="auto", help="with merge-on-read")
    options.add_argument("--format-version", type=int, choices=(2, 3), default=2, help="with --write-mode")
    options.add_argument("--pace", type=int, default=1, help="how many times as fast maintenance is")
    options.add_argument("--snapshots", type=int, default=DEFAULTS.max_snapshots, help="that the table keeps at most")
    options.add_argument("--rows", type=int, default=0, help="of the table before, with --write-mode")
    chosen = options.parse_args()
    last = {key: row(key, 0) for key in range(max(chosen.rows, chosen.events))}
    with tempfile.TemporaryDirectory(prefix="calve-bench-") as place:
        begins = chosen.key_index == "begin"
        key_index = "auto" if begins else chosen.key_index
        how = {"mode": chosen.write_mode, "key_index": key_index, "version": chosen.format_version}
        more = CHANGES.format(**how) if chosen.write_mode else ""
        calve = Calve(Path(place) / "calve", YAML.format(more=more + maintenance(chosen.pace, chosen.snapshots)))
        calve.start()
        try:
            give(calve, "000000", last.values())
            if begins:
                table = StaticTable.from_metadata(str(metadata(calve.folder)))
                begin_index(calve, "bench", str(table.metadata.table_uuid))
            figures, seconds = [], 0.0
            for number, keys in enumerate(batches(chosen.commits, chosen.events, chosen.rows), 1):
                batch = {key: row(key, number) for key in keys}
                texts = (f'{{"op":"u",{text[1:]}' for text in batch.values()) if more else batch.values()
                figures.append(give(calve, f"{number:06d}", texts))
                is_read = chosen.write_mode != "equality-delete" and number % max(chosen.commits // READS, 1) == 0
                seconds = read_seconds(metadata(calve.folder)) if is_read else seconds
                figures[-1] |= {"read s": seconds} if chosen.write_mode != "equality-delete" else {}
                last |= batch
                if number % 100 == 0:
                    print(f"{number}: {', '.join(f'{shown(v)} {k}' for k, v in figures[-1].items())}", flush=True)
            calve.stop()
        finally:
            calve.end()
        check(calve.folder / "lakehouse" / "bench" / "rows", last.values())
    compare(figures)


if __name__ == "__main__":
    main()

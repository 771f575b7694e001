"""The time from a commit of a database to the snapshot of an Iceberg table that has it.

A transaction's last change inserts the highest `id` until then, and Calve keeps the order of transactions. So a
transaction is readable when the current snapshot, or one before it, has added a file with its `id`: files tell their
highest one.
"""

from __future__ import annotations

import json
import time
from functools import cache, partial
from pathlib import Path

from pyiceberg.conversions import from_bytes
from pyiceberg.manifest import ManifestContent, ManifestEntryStatus
from pyiceberg.table import StaticTable
from pyiceberg.types import LongType

from bench.freshness import Watch
from bench.growth import metadata
from bench.measure import Figures, measured
from bench.orders import Orders
from kit.running import until

TRANSACTIONS_A_SECOND = 100
WARM_SECONDS = 10


def lag(folder: Path, orders: Orders, rate: int, seconds: int) -> Figures:
    """Make changes at a steady rate while Calve follows; return the figures.

    Args:
        folder: Of the running Calve.
        orders: What is changed.
        rate: Changes a second.
        seconds: How long, without the ten that do not count.
    """
    watch = Watch(partial(metadata, folder), current_snapshot)
    number = TRANSACTIONS_A_SECOND * (WARM_SECONDS + seconds)
    size = rate // TRANSACTIONS_A_SECOND
    orders.transaction(size)
    until(lambda: highest(folder, watch.seen[-1:]) >= orders.last, "the first transaction is readable")
    with measured(number * size) as found:
        sent, begun = [], time.monotonic()
        for count in range(number):
            time.sleep(max(0.0, begun + count / TRANSACTIONS_A_SECOND - time.monotonic()))
            sent.append((orders.transaction(size), orders.last))
        took = time.monotonic() - begun
        until(lambda: highest(folder, watch.seen[-1:]) >= orders.last, "all is readable", every_seconds=0.5)
    watch.end()
    ages = sorted(readable_after(sent, folder, watch.seen)[TRANSACTIONS_A_SECOND * WARM_SECONDS :])
    p50, p99 = (ages[len(ages) * share // 100] for share in (50, 99))
    figures = {"p50 s": p50, "p99 s": p99, "longest s": ages[-1], "changes/s": number * size / took}
    return figures | {"CPU s/M": found["CPU s/M"]}


def readable_after(sent: list[tuple[float, int]], folder: Path, seen: list[tuple[float, int]]) -> list[float]:
    """Return the seconds until each transaction was readable.

    Args:
        sent: When each was committed, and its highest `id`.
        folder: Of Calve.
        seen: When which snapshot was seen.
    """
    found, at = [], 0
    for moment, last in sent:
        while highest(folder, seen[at : at + 1]) < last:
            at += 1
        found.append(seen[at][0] - moment)
    return found


def highest(folder: Path, seen: list[tuple[float, int]]) -> int:
    """Return the highest `id` that a snapshot has added; 0: none, or there is no snapshot."""
    return max((_added(folder, snapshot) for _, snapshot in seen), default=0)


@cache
def _added(folder: Path, snapshot: int) -> int:
    table = StaticTable.from_metadata(str(metadata(folder)))
    found = table.snapshot_by_id(snapshot)
    if found is None:
        return 0
    field = table.schema().find_field("id").field_id
    ids = [0]
    for manifest in found.manifests(table.io):
        if manifest.added_snapshot_id != snapshot or manifest.content != ManifestContent.DATA:
            continue
        for entry in manifest.fetch_manifest_entry(table.io):
            bounds = entry.data_file.upper_bounds or {}
            if entry.status == ManifestEntryStatus.ADDED and field in bounds:
                ids.append(from_bytes(LongType(), bounds[field]))
    return max(ids)


def current_snapshot(file: Path) -> int:
    """Return the current snapshot of a metadata file; 0: none."""
    return int(json.loads(file.read_text()).get("current-snapshot-id") or 0)

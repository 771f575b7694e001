"""Removes files that no snapshot references. Iceberg's own action finds them; three rules protect other files.

- It is old. A writer keeps files for some time before a commit references them, and nobody else knows how long. Three
  days is Iceberg's default, and the least age without `--force`.
- No pipeline of Calve can still commit it. The name of a data file has pipeline, state and batch; the table's mark has
  the last batch of that pipeline in the table. A file of a later batch may be staged or being written, whatever its
  age, and so may a file of a pipeline without a mark: they are kept.
- Iceberg writes such files, in the table's own folders for data and metadata. So dead letters are never touched, nor a
  table whose folder is inside this one's.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from calve.errors import SettingsError
from calve.maintenance.context import MaintenanceContext
from calve.maintenance.rewrite import maintaining
from calve.table.loaded import MARK

__all__ = ["LEAST_AGE", "Orphans", "check_age", "removable", "remove_orphans"]

LEAST_AGE = timedelta(days=3)
_KINDS = (".parquet", ".orc", ".avro", ".puffin", ".metadata.json", ".stats")
_OURS = re.compile(r"(?P<pipeline>.+)-(?P<state>[0-9a-f]{8})-(?P<batch>\d{8,})-[0-9a-f]{6}-.*")
"""A file of a pipeline: `PipelineParts.job` sets pipeline, state, batch and start; tasks may add anything."""


@dataclass(frozen=True)
class Orphans:
    """The number of removed files, and of unreferenced files that are kept for a pipeline."""

    files: int = 0
    kept: int = 0


def check_age(older_than: timedelta | None, force: bool) -> None:
    """Refuse an age that endangers files of running writers.

    Raises:
        SettingsError: It is below three days, without --force.
    """
    if older_than is not None and older_than < LEAST_AGE and not force:
        raise SettingsError(
            "files younger than three days may be committed by another writer",
            step="settings",
            target="--older-than",
            hint="Use `--only expire` for younger snapshots, or --force if only Calve writes to the table",
        )


def remove_orphans(context: MaintenanceContext, older_than: timedelta | None, dry_run: bool = False) -> Orphans:
    """Remove the orphans of a table; may be repeated safely.

    Args:
        context: The table.
        older_than: The least age of orphans; None: three days.
        dry_run: Only count.

    Raises:
        MaintenanceError: The storage does not answer, or its addresses are ambiguous.
    """
    with maintaining("remove orphans", context):
        table = context.load()
        before = int((time.time() - (LEAST_AGE if older_than is None else older_than).total_seconds()) * 1000)
        folders = _folders(table)
        unreferenced = [path for path in _unreferenced(context, table, before) if _local(path).startswith(folders)]
        gone = list(removable(unreferenced, dict(table.properties())))
        kept = sum(path.endswith(_KINDS) for path in unreferenced) - len(gone)
        if not dry_run:
            _delete(context, table, gone)
        return Orphans(len(gone), kept)


def removable(paths: Iterable[str], properties: Mapping[str, str]) -> Iterator[str]:
    """Yield the unreferenced files that no pipeline can still commit and that Iceberg may have written.

    Args:
        paths: Files that no snapshot references.
        properties: The table properties, with the marks of pipelines.
    """
    reached = _last_batches(properties)
    for path in paths:
        ours = _OURS.fullmatch(path.rpartition("/")[2])
        committed = ours is None or int(ours["batch"]) <= reached.get((ours["pipeline"], ours["state"]), -1)
        if committed and path.endswith(_KINDS):
            yield path


def _last_batches(properties: Mapping[str, str]) -> dict[tuple[str, str], int]:
    """Return the last batch in the table of each state of a pipeline; the lowest of several branches."""
    reached: dict[tuple[str, str], int] = {}
    for key, text in properties.items():
        if not key.startswith(MARK):
            continue
        mark = json.loads(text)
        who = key.removeprefix(MARK).partition("@")[0], mark["state"][:8]
        reached[who] = min(mark["batch"], reached.get(who, mark["batch"]))
    return reached


def _folders(table: Any) -> tuple[str, ...]:
    """Return the folders of the table's own files; files elsewhere may also belong to others."""
    home = table.location().rstrip("/")
    properties = dict(table.properties())
    named = [properties.get(f"write.{kind}.path", f"{home}/{kind}") for kind in ("data", "metadata")]
    return tuple(f"{_local(folder).rstrip('/')}/" for folder in named if folder.startswith(f"{home}/"))


def _local(path: str) -> str:
    """Write a local path as Iceberg does, without the scheme that listings add."""
    return re.sub("^file:/+", "/", path)


def _unreferenced(context: MaintenanceContext, table: Any, before: int) -> list[str]:
    """Run the action without deleting: its files go to a consumer that does nothing."""
    action = context.actions().deleteOrphanFiles(table).olderThan(before)
    if "://" in table.location() and not table.location().startswith(("hdfs:", "file:")):
        action = action.usePrefixListing(True)  # use the catalog's FileIO; Hadoop may not support the scheme
    return list(action.deleteWith(context.manifests.java).execute().orphanFileLocations())


def _delete(context: MaintenanceContext, table: Any, paths: list[str]) -> None:
    if paths:
        context.jvm.org.apache.iceberg.CatalogUtil.deleteFiles(table.io(), paths, "orphan", True)

"""Removes files that no snapshot refers to, with Iceberg's own action as the finder and three rules about what is one.

- It is old: whoever writes holds files for a while before a commit refers to them, and others cannot know for how
  long. Three days is Iceberg's own default, and the least that is taken without being forced.
- No pipeline of Calve can commit it any more. The name of a data file says pipeline, state and batch; the table's mark
  says up to which batch it has that pipeline's files. A file of a later batch is staged or being written, however old
  it is, and one of a pipeline that left no mark may be: they are kept.
- It is of a kind that Iceberg writes, in the table's own folders for data and metadata. So dead letters are never
  touched, nor a table whose folder lies within this one's.
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
from calve.maintenance.context import Workbench
from calve.maintenance.rewrite import maintaining
from calve.table.loaded import MARK

__all__ = ["LEAST_AGE", "Orphans", "check_age", "removable", "remove_orphans"]

LEAST_AGE = timedelta(days=3)
_KINDS = (".parquet", ".orc", ".avro", ".puffin", ".metadata.json", ".stats")
_OURS = re.compile(r"(?P<pipeline>.+)-(?P<state>[0-9a-f]{8})-(?P<batch>\d{8,})-[0-9a-f]{6}-.*")
"""A file of a pipeline: `Wiring.job` names pipeline, state, batch and start; what tasks add to it may be anything."""


@dataclass(frozen=True)
class Orphans:
    """Files that were removed, or would be; and files that look like orphans and are kept for a pipeline."""

    files: int = 0
    kept: int = 0


def check_age(older_than: timedelta | None, force: bool) -> None:
    """Refuse an age that endangers files in flight.

    Raises:
        SettingsError: It is below three days, without --force.
    """
    if older_than is not None and older_than < LEAST_AGE and not force:
        raise SettingsError(
            "orphans younger than three days may be files that another writer is about to commit",
            step="settings",
            target="--older-than",
            hint="Choose `--only expire` for younger snapshots; --force if nobody but Calve writes to the table",
        )


def remove_orphans(bench: Workbench, older_than: timedelta | None, dry_run: bool = False) -> Orphans:
    """Remove the orphans of a table; may be repeated, also after a kill.

    Args:
        bench: The table.
        older_than: The age of files from which on they may be orphans; None: three days.
        dry_run: Only count.

    Raises:
        MaintenanceError: The storage does not answer, or its addresses are ambiguous.
    """
    with maintaining("remove orphans", bench):
        table = bench.load()
        before = int((time.time() - (LEAST_AGE if older_than is None else older_than).total_seconds()) * 1000)
        folders = _folders(table)
        found = [path for path in _unreferenced(bench, table, before) if _local(path).startswith(folders)]
        gone = list(removable(found, dict(table.properties())))
        kept = sum(path.endswith(_KINDS) for path in found) - len(gone)
        if not dry_run:
            _delete(bench, table, gone)
        return Orphans(len(gone), kept)


def removable(paths: Iterable[str], properties: Mapping[str, str]) -> Iterator[str]:
    """Yield the unreferenced files that no pipeline can still commit and that Iceberg could have written.

    Args:
        paths: Files that no snapshot refers to.
        properties: The table's, with the marks of pipelines.
    """
    reached = _reached(properties)
    for path in paths:
        ours = _OURS.fullmatch(path.rpartition("/")[2])
        committed = ours is None or int(ours["batch"]) <= reached.get((ours["pipeline"], ours["state"]), -1)
        if committed and path.endswith(_KINDS):
            yield path


def _reached(properties: Mapping[str, str]) -> dict[tuple[str, str], int]:
    """Read up to which batch the table has each state of a pipeline; of several branches the one that is behind."""
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
    """Write a local path as Iceberg does, without the scheme that listings give it."""
    return re.sub("^file:/+", "/", path)


def _unreferenced(bench: Workbench, table: Any, before: int) -> list[str]:
    """Run the action without deleting: its files go to a consumer that does nothing."""
    action = bench.actions().deleteOrphanFiles(table).olderThan(before)
    if "://" in table.location() and not table.location().startswith(("hdfs:", "file:")):
        action = action.usePrefixListing(True)  # the catalog's own FileIO lists; Hadoop may not know the scheme
    return list(action.deleteWith(bench.manifests.java).execute().orphanFileLocations())


def _delete(bench: Workbench, table: Any, paths: list[str]) -> None:
    if paths:
        bench.jvm.org.apache.iceberg.CatalogUtil.deleteFiles(table.io(), paths, "orphan", True)

"""Staged files and the partition specs that their table has by the time they are committed.

An equality delete of a partitioned spec holds for files of this spec only, and only in its partition (Iceberg
specification, "Scan Planning"); one of a spec without partitions holds for the whole table. A key that says which
partition its row is in says so under one spec: where another writer has changed the spec, and perhaps written the
rows anew under it, the older row may lie elsewhere. The key says which row is meant all the same, so the same file
is committed as a delete that holds everywhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

__all__ = ["hold_everywhere", "need_free_spec"]

_DATA = "DATA"


def need_free_spec(specs: Mapping[int, bool], files: Iterable[Mapping[str, Any]]) -> bool:
    """Return whether files can only be committed to a table when it has a spec without partitions, which it has not."""
    return not any(specs.values()) and any(_must_move(specs, file) for file in files)


def hold_everywhere(specs: Mapping[int, bool], files: Iterable[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
    """Return the files as they are to be committed.

    Args:
        specs: Of the table, as it is now; one without partitions among them, unless none is needed.
        files: In the JSON of the REST catalog's specification. Those without partitions may be of a spec that was
            removed meanwhile because no committed file had it.
    """
    free = next((number for number, is_free in specs.items() if is_free), None)
    return [{**file, "spec-id": free, "partition": []} if _must_move(specs, file) else file for file in files]


def _must_move(specs: Mapping[int, bool], file: Mapping[str, Any]) -> bool:
    if not file["partition"]:
        return file["spec-id"] not in specs
    return file["content"] != _DATA and len(specs) > 1

"""Staged files and the partition specs that their table has by the time they are committed.

An equality delete of a partitioned spec holds for files of this spec only, and only in its partition (Iceberg
specification, "Scan Planning"); one of a spec without partitions holds for the whole table. A key that says which
partition its row is in says so under one spec: where another writer has changed the spec, and perhaps written the
rows anew under it, the older row may lie elsewhere. The key says which row is meant all the same, so the same file
is committed as a delete that holds everywhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec.structs import replace

from calve.record.content_file import ContentFile

__all__ = ["hold_everywhere", "need_free_spec"]


def need_free_spec(specs: Mapping[int, bool], files: Iterable[ContentFile]) -> bool:
    """Return whether files can only be committed to a table when it has a spec without partitions, which it has not."""
    return not any(specs.values()) and any(_must_move(specs, file) for file in files)


def hold_everywhere(specs: Mapping[int, bool], files: Iterable[ContentFile]) -> Sequence[ContentFile]:
    """Return the files as they are to be committed.

    Args:
        specs: Of the table, as it is now; one without partitions among them, unless none is needed.
        files: Those without partitions may be of a spec that was removed meanwhile because no committed file had it.
    """
    free = next((number for number, is_free in specs.items() if is_free), None)
    return [replace(file, spec_id=free, partition=[]) if _must_move(specs, file) else file for file in files]


def _must_move(specs: Mapping[int, bool], file: ContentFile) -> bool:
    if not file.partition:
        return file.spec_id not in specs
    return not file.is_data and len(specs) > 1

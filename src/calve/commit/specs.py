"""Adapts staged files to the partition specs that their table has when they are committed.

An equality delete of a partitioned spec applies only to files of this spec and this partition (Iceberg specification,
"Scan Planning"); one of an unpartitioned spec applies to the whole table. A key determines the partition of its row
under one spec only: if another writer changed the spec, and perhaps rewrote the rows, the older row may be in another
partition. The key still identifies the row, so the same file is committed as a delete of the unpartitioned spec.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec.structs import replace

from calve.record.content_file import ContentFile

__all__ = ["make_global", "need_unpartitioned_spec"]


def need_unpartitioned_spec(specs: Mapping[int, bool], files: Iterable[ContentFile]) -> bool:
    """Return whether files need an unpartitioned spec that their table lacks."""
    return not any(specs.values()) and any(_must_move(specs, file) for file in files)


def make_global(specs: Mapping[int, bool], files: Iterable[ContentFile]) -> Sequence[ContentFile]:
    """Return the files as they must be committed.

    Args:
        specs: The current specs of the table, with an unpartitioned one if it is needed.
        files: The spec of unpartitioned files may have been removed meanwhile, because no committed file used it.
    """
    free = next((number for number, is_unpartitioned in specs.items() if is_unpartitioned), None)
    return [replace(file, spec_id=free, partition=[]) if _must_move(specs, file) else file for file in files]


def _must_move(specs: Mapping[int, bool], file: ContentFile) -> bool:
    if not file.partition:
        return file.spec_id not in specs
    return not file.is_data and len(specs) > 1

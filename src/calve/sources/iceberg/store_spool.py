"""Spools on an object store: the same files as in a local folder, and their sizes.

iceberg/<spool>/part-….parquet
iceberg/<spool>/sizes.json       the size of the rows of each file; a spool that was copied from a local folder has none
iceberg/<spool>/table.json       written last; without it there is no spool
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec
import pyarrow as pa

from calve import structs
from calve.errors import SourceError
from calve.files.temporary import temporary_folder
from calve.object_store import StoreFolder
from calve.sources.iceberg.spool import ABOUT, Part, row_bytes, write_parquet
from calve.sources.source import SourceTable
from calve.stop_point import reach

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["StoreSpools"]

_SIZES = "sizes.json"


@dataclass(frozen=True)
class _About:
    """What a spool has: its table, and the size of the rows of each file."""

    table: SourceTable
    parts: dict[str, int]


class StoreSpools:
    """The spools of one source on an object store; `table` also runs on executors.

    Args:
        folder: `<state>/<pipeline>/iceberg`.
    """

    def __init__(self, folder: StoreFolder) -> None:
        self._folder = folder
        self._known: dict[str, _About] = {}

    def write(self, name: str, events: DataFrame, table: SourceTable) -> None:
        """Write events of a table to a new spool; durable on return.

        Raises:
            WriteError: The local disk is full, or the store does not answer.
        """
        with temporary_folder("calve-spool-") as temporary:
            local = temporary / name
            write_parquet(events, local)
            parts = {file.name: row_bytes(file, file.name) for file in sorted(local.glob("part-*"))}
            for part in parts:
                (self._folder / name).upload(part, local / part)
        (self._folder / name).put(_SIZES, msgspec.json.encode(parts))
        reach("spool.before-publish")
        (self._folder / name).put(ABOUT, msgspec.json.encode(table))

    def table(self, name: str) -> SourceTable | None:
        """Return the table of a spool; None if the spool no longer exists."""
        about = self._about(name)
        return about.table if about else None

    def parts(self, name: str, after: str = "") -> list[Part]:
        """Return the files of a spool after one of them.

        Raises:
            SourceError: The spool no longer exists.
        """
        about = self._about(name)
        if about is None:
            hint = "Restore the state; or use a new --state, which reads the table from its start"
            raise SourceError(f"The changes in {self._folder / name} are gone", step="read", target=name, hint=hint)
        return [Part(name, part, size) for part, size in sorted(about.parts.items()) if part > after and size]

    def remove(self, parts: Iterable[tuple[str, str]], kept: Collection[str]) -> None:
        """Remove files that are no longer needed, and empty spools unless they are in `kept`."""
        spools = set()
        for spool, name in parts:
            (self._folder / spool).remove([name])
            spools.add(spool)
        self.drop(spool for spool in spools - set(kept) if not self._has_parts(spool))

    def drop(self, spools: Iterable[str]) -> None:
        """Remove spools."""
        for spool in spools:
            self._known.pop(spool, None)
            folder = self._folder / spool
            folder.remove([ABOUT, *folder.names()])

    def keep_only(self, spools: Collection[str]) -> None:
        """Remove the spools of a killed run."""
        found = {name.partition("/")[0] for name in self._folder.names() if "/" in name}
        self.drop(found - set(spools))

    def _about(self, name: str) -> _About | None:
        if name not in self._known:
            folder = self._folder / name
            found = folder.get(ABOUT)
            if found is None:
                return None
            table = structs.decode(found.content, SourceTable)
            sizes = folder.get(_SIZES)
            parts = msgspec.json.decode(sizes.content, type=dict[str, int]) if sizes else _sizes(folder)
            self._known[name] = _About(table, parts)
        return self._known[name]

    def _has_parts(self, spool: str) -> bool:
        return any(name.startswith("part-") for name in (self._folder / spool).names())


def _sizes(folder: StoreFolder) -> dict[str, int]:
    found = {name: folder.get(name) for name in folder.names() if name.startswith("part-")}
    return {name: row_bytes(pa.BufferReader(one.content), name) for name, one in found.items() if one}

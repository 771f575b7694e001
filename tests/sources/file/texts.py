"""What the tests of the file source share: texts in pieces, and batches as lists; typed rows with their texts."""

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa

from calve.event.columns import MALFORMED
from calve.event.typed import with_text
from calve.sources.file.rows import SCHEMA


class Pieces:
    """A stream of given blocks."""

    def __init__(self, blocks: Iterable[bytes], broken: str = "") -> None:
        self.broken = ""
        self._blocks, self._end = blocks, broken

    def __iter__(self) -> Iterator[bytes]:
        yield from self._blocks
        self.broken = self._end


def table(batches: Iterable[pa.RecordBatch]) -> dict[str, list[Any]]:
    return rows(batches).to_pydict()


def rows(batches: Iterable[pa.RecordBatch]) -> pa.Table:
    whole = [_with_text(pa.Table.from_batches([batch])) for batch in batches]
    assert all(part.schema == SCHEMA for part in whole)
    for part in whole:
        part.validate(full=True)
    return pa.concat_tables([SCHEMA.empty_table(), *whole])


def _with_text(part: pa.Table) -> pa.Table:
    if MALFORMED in part.column_names:
        return part
    return with_text(part).add_column(1, SCHEMA.field(MALFORMED), pa.nulls(len(part), pa.string()))


def events(batches: Iterable[pa.RecordBatch]) -> list[bytes]:
    return table(batches)["event"]

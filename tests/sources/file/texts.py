"""What the tests of the file source share: texts in pieces, and batches as lists."""

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa

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
    whole = list(batches)
    assert all(batch.schema == SCHEMA for batch in whole)
    for batch in whole:
        batch.validate(full=True)
    return pa.Table.from_batches(whole, SCHEMA).to_pydict()


def events(batches: Iterable[pa.RecordBatch]) -> list[bytes]:
    return table(batches)["event"]

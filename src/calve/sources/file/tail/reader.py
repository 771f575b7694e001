"""The executors' side of files that are followed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from calve.errors import CalveError, SourceError, SourceUnavailableError
from calve.sources.file.codec import FilePart, read_part
from calve.sources.file.settings import FileSettings
from calve.sources.file.tail.discovery import codec_for
from calve.sources.file.tail.spool import Spool
from calve.sources.source import Split

__all__ = ["TailReader"]


@dataclass(frozen=True)
class TailReader:
    """Reads pieces of files from the spool.

    Attributes:
        settings: The source's options.
        spool: The bytes that were planned.
    """

    settings: FileSettings
    spool: Spool

    def read(self, split: Split) -> Iterator[pa.RecordBatch]:
        """Yield the events of a piece in order, with `file_path` and `file_row` (null if it is unknown).

        Raises:
            SourceError: The spool is gone.
            SourceUnavailableError: The store of the state does not answer.
        """
        body = split.body
        part = FilePart(body["path"], 0, split.size_bytes, split.size_bytes, 0)
        settings = replace(self.settings, codec=codec_for(part.path, self.settings), compression="none")
        for batch in read_part(pa.BufferReader(self._bytes(split)), part, settings):
            index = batch.schema.get_field_index("file_row")
            rows = pc.add(batch["file_row"], body["lines"]) if body["lines"] >= 0 else pa.nulls(len(batch), pa.int64())
            yield batch.set_column(index, batch.schema.field(index), rows)

    def _bytes(self, split: Split) -> pa.Buffer:
        name = split.body["spool"]
        try:
            return self.spool.read(name, split.body["start"], split.size_bytes)
        except FileNotFoundError as error:
            raise SourceError(
                f"The lines of {split.body['path']} that were set aside in {self.spool.folder}/{name} are gone",
                step="read",
                target=split.body["path"],
                hint="Restore the state folder; or use a new --state, and remove or empty the tables first",
            ) from error
        except (OSError, CalveError) as error:
            raise SourceUnavailableError(
                f"The lines that were set aside in {self.spool.folder} cannot be read: {error}",
                step="read",
                target=split.body["path"],
                hint="Calve tries again; check the disk or the store of the state",
            ) from error
